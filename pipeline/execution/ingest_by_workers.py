"""Ingestion by the workers of a cluster: each reads some row groups, and the first joins and cleans all rows.

The edges stay there. Whatever goes wrong, this process reads instead, and logs why; so all refusals are its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.backends.arrow.backend import ARROW
from mbe_stage.pipeline.backends.arrow.edges import EdgeData
from mbe_stage.pipeline.clean.cleaning import clean
from mbe_stage.pipeline.clean.doubts import with_doubts
from mbe_stage.pipeline.clean.facts import QUICK_TWO_HOP_EDGES
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution.compiling import read_steps
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.io import RawEdges, find_input, parquet, reading, with_measures
from mbe_stage.pipeline.problems.installed import derived_of, publication_of, reading_of
from mbe_stage.pipeline.stores.address import STANDARD_INPUT, is_address, place_of
from mbe_stage.runners.clusters import dask_cluster
from mbe_stage.runners.dask_runner import DaskRunner, seconds_for
from mbe_stage.runners.lease_work import ENDED, HELD, HeldGraph, software
from mbe_stage.runtime.compile_ahead import compile_ahead

log = logging.getLogger(__name__)

# A worker that does not answer for this long is lost. All are given up if no row is read for so long, because they may
# have to compile first, and as if they moved these bytes a row, because the first joins all rows.
_SILENT_SECONDS, _LOOK_SECONDS, _NO_ROW_SECONDS, _ROW_BYTES = 30.0, 1.0, 180.0, 200


class _NotRead(Exception):
    """Why workers have not read the input."""


@contextmanager
def held_by_workers(config: Config, source: object | None = None) -> Iterator[EdgeData | None]:
    """Have workers read and clean the input, and keep the edges within the context; None if this process has to read.

    They read Parquet that they see as this process does, if only the search needs the edges. Errors are those of
    `pipeline.execution.ingest.ingest`, and `ClusterLost` without a cluster.
    """
    edges = None
    with ExitStack() as ends:
        with run_state.at_step("read"), run_state.at_part("waiting for the cluster"):
            if (plan := _plan(config, source)) is not None:
                runner = ends.enter_context(dask_cluster(config.execution.cluster))
                try:
                    edges = _edges(config, source, plan, runner, ends)
                except (_NotRead, InputError) as reason:
                    level = logging.INFO if isinstance(reason, InputError) else logging.WARNING
                    log.log(level, "this process reads the input, and not the workers: %s", reason)
                    ends.close()
        yield edges


def _plan(config: Config, source: object | None) -> parquet.ParquetPlan | None:
    """Plan reading by workers; None if this process reads."""
    execution, publication = config.execution, publication_of(config.problem)
    needs_edges = config.output.two_hop_steps or derived_of(config) or publication.least_sizes(config) is None
    place = place_of(cast(Any, config.input.path if source is None else source))
    if needs_edges or execution.cluster is None or execution.memory_budget is not None:
        return None
    if not isinstance(place, str | Path) or place == STANDARD_INPUT or is_address(place):
        return None
    found = find_input(reading_of(config), place)
    if found.format != "parquet" or found.files:
        return None
    with reading(found.path):
        plan = parquet.plan_reading(found.path, reading_of(config))
    # A small input is read here sooner.
    return None if plan.n_rows <= QUICK_TWO_HOP_EDGES or plan.content is not None else plan


def _edges(
    config: Config, source: object | None, plan: parquet.ParquetPlan, runner: DaskRunner, ends: ExitStack
) -> EdgeData:
    """Have workers read and one of them join; return the edges as this process knows them."""
    section, key, path = reading_of(config), uuid.uuid4().hex, plan.path.absolute()
    workers, seconds = sorted(runner.awaited_workers()), seconds_for(_ROW_BYTES * plan.n_rows)
    with reading(path):
        given = key, config, path, _seen(path), workers
    ends.callback(runner.asked, _drop, key, workers=workers, seconds=_LOOK_SECONDS)
    with run_state.at_part():
        _follow(runner, _NO_ROW_SECONDS + seconds, *given)
        answer = runner.asked(_give, *given, workers=workers[:1], seconds=seconds).get(workers[0])
    try:
        edges, left_degrees, right_degrees = pickle.loads(cast(bytes, answer))
    except Exception as error:  # noqa: BLE001 - an answer may be anything
        raise _NotRead(f"worker {workers[0]} does not give what it has joined: {error!r}") from None
    facts = replace(edges.facts, source=str(plan.path))
    sizes = facts.n_left, facts.n_right

    def read_here(reason: str) -> Any:
        log.warning("this process reads the input, too: %s", reason)
        with run_state.at_step("read"):
            again = ingest(section, source)
        if again.facts.fingerprint != facts.fingerprint:
            found = "edges that have changed since workers read them"
            raise InputError.at(plan.path, found=found, expected="the same during a run", remedy="run again")
        return publication_of(config.problem).graph(config, again)

    by = f"by {len(workers)} workers of the cluster, which keep the edges"
    log.info("read %s (%s, %s): %d x %d, %d edges", facts.source, facts.taken, by, *sizes, facts.n_edges)
    held = HeldGraph(*sizes, left_degrees, right_degrees, workers[0], key, read_here)
    # In Parquet, doubts are the only warnings. The worker does not know the names of our settings.
    edges = replace(edges, facts=replace(facts, warnings=()), held=held)
    return cast(EdgeData, with_doubts(edges, section, {"left": range(sizes[0]), "right": range(sizes[1])}))


def _follow(runner: DaskRunner, seconds: float, *given: Any) -> None:
    """Let all workers read, count the rows, and wait for the first; give up if nothing changes for some seconds."""
    before, until, workers = dict[str, Any](), 0.0, given[-1]
    while not before or not before[workers[0]][1]:
        answers = runner.asked(_read, *given, workers=workers, seconds=_SILENT_SECONDS)
        for worker in workers:
            if isinstance(answer := answers.get(worker, "no answer"), InputError):
                raise answer
            if not isinstance(answer, tuple):
                raise _NotRead(f"worker {worker}: {answer!r}")
        if answers != before:
            before, until = answers, time.perf_counter() + seconds
        elif time.perf_counter() > until:
            raise _NotRead(f"no worker has got further for {seconds:g} s: {answers}")
        run_state.count_edges_read(max(0, sum(n for n, _ in answers.values()) - run_state.state.n_edges_read))


@dataclass(slots=True)
class _Reading:
    """State of a reading in a worker. The task returns a share; that of the first worker returns what was joined."""

    address: str
    task: asyncio.Task[Any]
    n_rows: int = 0


_READINGS: dict[str, _Reading] = {}


def _begun(dask_worker: Any, key: str, *given: Any) -> _Reading:
    """Return a worker's state of a reading, begun if it is new."""
    if key in ENDED:
        raise TimeoutError("this reading is over")
    if key not in _READINGS:
        _READINGS[key] = _Reading(dask_worker.contact_address, asyncio.create_task(_joined(dask_worker, key, *given)))
        # The processes behind other readings may be gone.
        for old in list(_READINGS)[:-2]:
            _drop(old)
    if _READINGS[key].address != dask_worker.contact_address:
        raise ValueError(f"{_READINGS[key].address} is a worker in the same process")
    return _READINGS[key]


async def _read(*given: Any, dask_worker: Any) -> tuple[int, bool]:
    """Return soon, with the rows so far, and True if the task is over."""
    await asyncio.wait({_begun(dask_worker, *given).task}, timeout=_LOOK_SECONDS)
    reading = _begun(dask_worker, *given)
    if is_done := reading.task.done():
        reading.task.result()
    return reading.n_rows, is_done


async def _give(*given: Any, dask_worker: Any) -> bytes:
    """Return the result or the error of a task, pickled, and drop it."""
    reading = _begun(dask_worker, *given)
    results = list(await asyncio.gather(reading.task, return_exceptions=True))
    reading.task = asyncio.create_task(asyncio.sleep(0))
    return await asyncio.to_thread(pickle.dumps, results.pop(), 5)


def _drop(key: str) -> None:
    """Drop all of a reading, also what comes late."""
    ENDED.append(key)
    HELD.pop(key, None)
    if (reading := _READINGS.pop(key, None)) is not None:
        reading.task.cancel()


async def _joined(dask_worker: Any, key: str, config: Config, path: Path, seen: object, workers: list[str]) -> Any:
    """Read a share. In the first worker, fetch the others, hold the graph of all, and return the rest of `_cleaned`."""
    k = workers.index(dask_worker.contact_address)
    share = await asyncio.to_thread(_share, key, config, path, seen, (k, len(workers)))
    if k:
        return share
    shares = [share]
    asked = {"function": pickle.dumps(_give), "args": pickle.dumps((key, config, path, seen, workers))}
    for giver in workers[1:]:
        answer = await dask_worker.rpc(giver).run(**asked)
        # Arrays that Dask pickles itself may be read-only.
        share = await asyncio.to_thread(pickle.loads, answer["result"])
        if isinstance(share, Exception):
            raise share
        shares.append(share)
    del share
    HELD[key], known = await asyncio.to_thread(_cleaned, config, shares)
    return known


def _seen(path: Path) -> object:
    """Return our software, and the files of a path: sizes, times, and digests of their Parquet footers.

    A footer has the row groups, and the extremes of columns in each.
    """
    found: list[object] = [software()]
    for file in parquet.files_at(path):
        with file.open("rb") as data:
            data.seek(-8, os.SEEK_END)
            data.seek(-8 - int.from_bytes(data.read(4), "little"), os.SEEK_END)
            facts = os.fstat(data.fileno())
            found.append((str(file), facts.st_size, facts.st_mtime_ns, blake2b(data.read()).digest()))
    return found


def _share(key: str, config: Config, path: Path, seen: object, share: tuple[int, int]) -> RawEdges:
    def count(n: int) -> None:
        # Without a reading, an error ends this thread.
        _READINGS[key].n_rows += n

    if _seen(path) != seen:
        raise ValueError(f"other files or software than the main process has, in {path}")
    compile_ahead(read_steps())
    rows = parquet.read(path, reading_of(config), share=share, count=count)
    if _seen(path) != seen:
        raise ValueError("files have changed meanwhile")
    return rows


def _cleaned(config: Config, shares: list[RawEdges]) -> tuple[bytes, Any]:
    """Clean the rows of all shares; return their graph, pickled, and the edges without ids, with the degrees."""
    section = reading_of(config)

    def rows() -> RawEdges:
        # A column without values has no type yet.
        tables = [share.table for share in shares if share.n_rows] or [shares[0].table]
        first = replace(shares[0], table=pa.concat_tables(tables))
        shares.clear()
        return with_measures(first, section)

    # Only `clean` has the rows, so it can give up their columns one by one.
    edges = cast(EdgeData, clean(rows(), section, ARROW))
    if edges.facts.most_two_hop_steps(config.output.two_hop_steps):
        raise InputError(f"{edges.facts.n_edges:,} edges need two-hop degrees")
    graph, none = publication_of(config.problem).graph(config, edges), cast(Any, None)
    known = replace(edges, left_ids=none, right_ids=none)
    return pickle.dumps(graph, protocol=5), (known, graph.left_degrees, graph.right_degrees)
