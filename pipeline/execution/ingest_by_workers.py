"""Ingestion by the workers of a cluster: each reads some row groups, and one of them joins and cleans all.

The edges stay there. Whatever goes wrong, this process reads instead, and logs why; so all refusals are its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
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
from mbe_stage.pipeline.clean.keys import log_read
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution.compiling import read_steps
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.io import RawEdges, find_input, parquet, reading, with_measures
from mbe_stage.pipeline.problems.installed import derived_of, publication_of, reading_of
from mbe_stage.pipeline.stores.address import STANDARD_INPUT, is_address, place_of
from mbe_stage.pipeline.wording import plural
from mbe_stage.runners.clusters import dask_cluster
from mbe_stage.runners.dask_runner import DaskRunner, seconds_for
from mbe_stage.runners.held_graph import HeldGraph
from mbe_stage.runners.lease_work import ENDED, HELD, software
from mbe_stage.runtime.compile_ahead import compile_ahead

log = logging.getLogger(__name__)

# A worker without an answer for this long is lost. Reading is given up if no row is read for so long (workers may have
# to compile first), and joining after a time as if it moved these bytes a row.
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
        with run_state.at_step("read"):
            if (plan := _plan(config, source)) is not None:
                with run_state.at_part("waiting for the cluster"):
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
    if not isinstance(place, str | Path) or place in ("", STANDARD_INPUT) or is_address(place):
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
    with reading(path), run_state.at_part("asking the workers"):
        seen = _files(path)
        workers = _readers(runner, path, seen)
    n_workers = plural(len(workers), "worker")
    ends.callback(runner.asked, _drop, key, workers=workers, seconds=_LOOK_SECONDS)
    with run_state.at_part():
        _follow(runner, workers, _NO_ROW_SECONDS, _share, key, config, path, seen)
        with run_state.at_part(f"joining what {n_workers} have read"):
            seconds = seconds_for(_ROW_BYTES * plan.n_rows)
            _follow(runner, workers, seconds, _join, key, config)
            joined = runner.asked(_give, key, _JOINED, workers=workers[:1], seconds=seconds).get(workers[0])
    if not isinstance(joined, bytes):
        raise _NotRead(f"worker {workers[0]} does not give what it has joined: {joined!r}")
    left_keys, right_keys, facts, hashes, left_degrees, right_degrees = pickle.loads(joined)
    facts = replace(facts, source=str(plan.path))
    log_read(facts, f", by {n_workers} of the cluster, which keep the edges")

    def read_here(reason: str) -> Any:
        log.warning("this process reads the input, too: %s", reason)
        with run_state.at_step("read"):
            edges = ingest(section, source)
        if edges.facts.fingerprint != facts.fingerprint:
            found = "edges that have changed since workers read them"
            raise InputError.at(plan.path, found=found, expected="the same during a run", remedy="run again")
        return publication_of(config.problem).graph(config, edges)

    none, sizes = cast(Any, None), (facts.n_left, facts.n_right)
    held = HeldGraph(*sizes, left_degrees, right_degrees, runner, workers[0], key, read_here)
    edges = EdgeData(none, none, left_keys, right_keys, replace(facts, warnings=()), hashes, held=held)
    edges = with_doubts(edges, section, {"left": range(sizes[0]), "right": range(sizes[1])})
    # The worker has the same doubts last, in its own words.
    others = facts.warnings[: len(facts.warnings) - len(edges.facts.warnings)]
    return replace(edges, facts=replace(edges.facts, warnings=(*others, *edges.facts.warnings)))


def _readers(runner: DaskRunner, path: Path, seen: object) -> list[str]:
    """Return the workers with our software that see the files as this process does."""
    workers = sorted(runner.awaited_workers())
    answers, ours = runner.asked(_view, path, workers=workers, seconds=_SILENT_SECONDS), (software(), seen)
    for other in (others := [worker for worker in workers if answers.get(worker) != ours]):
        what = answers.get(other, "no answer")
        what = "other files or software" if isinstance(what, tuple) else repr(what)
        log.info("worker %s does not see %s as this process does: %s", other, path, what)
    if others == workers:
        raise _NotRead(f"no worker sees {path} as this process does; {other}: {what}")
    return [worker for worker in workers if worker not in others]


def _follow(runner: DaskRunner, workers: list[str], seconds: float, function: Callable[..., Any], *given: Any) -> None:
    """Ask all workers until each has done its part, and count the rows; give up if nothing changes for some seconds."""
    before, until, is_over = dict[str, Any](), 0.0, False
    while not is_over:
        answers = runner.asked(function, *given, workers, workers=workers, seconds=_SILENT_SECONDS)
        for worker in workers:
            if isinstance(answer := answers.get(worker, "no answer"), InputError):
                raise answer
            if not isinstance(answer, tuple):
                raise _NotRead(f"worker {worker}: {answer!r}")
        if answers != before:
            before, until = answers, time.perf_counter() + seconds
        elif time.perf_counter() > until:
            raise _NotRead(f"{function.__name__}: no worker has got further for {seconds:g} s: {answers}")
        run_state.count_edges_read(max(0, sum(n for n, _ in answers.values()) - run_state.state.n_edges_read))
        is_over = all(is_done for _, is_done in answers.values())


@dataclass(slots=True)
class _Reading:
    """What this process does for a reading: rows and tasks, by the number of the share, or `_JOINED`."""

    n_rows: Counter[int] = field(default_factory=Counter)
    tasks: dict[int, asyncio.Task[Any]] = field(default_factory=dict)


_READINGS: dict[str, _Reading] = {}
_JOINED = -1


async def _soon(key: str, k: int, begin: Callable[..., Any], *given: Any) -> tuple[int, bool]:
    """Begin a task if it has not begun; return soon, with its rows so far and True if it is over."""
    if key in ENDED:
        raise TimeoutError("this reading is over")
    reading = _READINGS.setdefault(key, _Reading())
    # The processes behind other readings may be gone.
    for old in list(_READINGS)[:-2]:
        _drop(old)
    if k not in reading.tasks:
        reading.tasks[k] = asyncio.create_task(begin(*given))
    done, _ = await asyncio.wait({reading.tasks[k]}, timeout=_LOOK_SECONDS)
    for task in done:
        task.result()
    return reading.n_rows[k], bool(done)


def _drop(key: str) -> None:
    """Drop all of a reading, also what comes late."""
    ENDED.append(key)
    HELD.pop(key, None)
    for task in _READINGS.pop(key, _Reading()).tasks.values():
        task.cancel()


async def _view(path: Path) -> tuple[dict[str, str], list[tuple[str, int, int, bytes]]]:
    return software(), await asyncio.to_thread(_files, path)


def _files(path: Path) -> list[tuple[str, int, int, bytes]]:
    """Return the files of a path, with sizes, times and digests of their footers."""
    of_files = [(file, file.stat()) for file in (parquet.data_files(path) if path.is_dir() else [path])]
    return [(str(file), facts.st_size, facts.st_mtime_ns, _footer(file)) for file, facts in of_files]


def _footer(file: Path) -> bytes:
    """Return the digest of a Parquet footer: it has the row groups, and the extremes of columns in each."""
    with file.open("rb") as data:
        data.seek(-8, os.SEEK_END)
        data.seek(-8 - int.from_bytes(data.read(4), "little"), os.SEEK_END)
        return blake2b(data.read(), digest_size=16).digest()


async def _share(
    key: str, config: Config, path: Path, seen: object, workers: list[str], dask_worker: Any
) -> tuple[int, bool]:
    """Read a share."""
    k = workers.index(dask_worker.contact_address)
    return await _soon(key, k, asyncio.to_thread, _read, key, config, path, seen, (k, len(workers)))


def _read(key: str, config: Config, path: Path, seen: object, share: tuple[int, int]) -> RawEdges:
    def count(n: int) -> None:
        # Without a reading, an error ends this thread.
        _READINGS[key].n_rows[share[0]] += n

    compile_ahead(read_steps())
    rows = parquet.read(path, reading_of(config), share=share, count=count)
    if _files(path) != seen:
        raise ValueError("files have changed meanwhile")
    return rows


async def _join(key: str, config: Config, workers: list[str], dask_worker: Any) -> tuple[int, bool]:
    """Join the shares in the first worker. The others show that they are alive."""
    if dask_worker.contact_address != workers[0]:
        return 0, True
    return await _soon(key, _JOINED, _joined, key, config, workers, dask_worker)


async def _joined(key: str, config: Config, workers: list[str], dask_worker: Any) -> tuple[Any, ...]:
    """Fetch the shares of others, join all, and hold the graph; return the rest of `_cleaned`."""
    shares = [_READINGS[key].tasks.pop(0).result()]
    for k, giver in enumerate(workers[1:], 1):
        answer = await dask_worker.rpc(giver).run(function=pickle.dumps(_give), args=pickle.dumps((key, k)))
        shares.append(await asyncio.to_thread(pickle.loads, answer["result"]))
    HELD[key], known = await asyncio.to_thread(_cleaned, config, shares)
    return known


async def _give(key: str, k: int) -> bytes:
    """Return the result of a task, pickled, and drop it. Arrays that Dask pickles itself may be read-only."""
    return await asyncio.to_thread(pickle.dumps, _READINGS[key].tasks.pop(k).result(), 5)


def _cleaned(config: Config, shares: list[RawEdges]) -> tuple[bytes, tuple[Any, ...]]:
    """Clean the rows of all shares; return their graph, pickled, and keys, facts, hashes and degrees."""
    section, publication = reading_of(config), publication_of(config.problem)

    def rows() -> RawEdges:
        first = shares[0]
        # A column without values has no type yet.
        tables = [share.table for share in shares if share.n_rows] or [first.table]
        shares.clear()
        return with_measures(replace(first, table=pa.concat_tables(tables)), section)

    # Only `clean` has the rows, so it can give up their columns one by one.
    edges = cast(EdgeData, clean(rows(), section, ARROW))
    if edges.facts.most_two_hop_steps(config.output.two_hop_steps):
        raise InputError(f"{edges.facts.n_edges:,} edges need two-hop degrees")
    graph = publication.graph(config, edges)
    known = edges.left_keys, edges.right_keys, edges.facts, edges.key_hashes(), graph.left_degrees, graph.right_degrees
    return pickle.dumps(graph, protocol=5), known
