"""Ingestion by the workers of a cluster: each reads some row groups, and one of them joins and cleans all.

The edges stay there. Whatever goes wrong, this process reads instead, and logs why; so all refusals are its own.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
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
from mbe_stage.runners.lease_work import HELD, software
from mbe_stage.runtime.compile_ahead import compile_ahead

log = logging.getLogger(__name__)

# A worker gives up if it reads no row for this long, or none at first, when it may have to compile.
_NO_ROW_SECONDS, _FIRST_ROW_SECONDS = 60.0, 300.0
# A worker without an answer for this long is lost. Joining may take longer: as if it moved these bytes a row.
_SILENT_SECONDS, _LOOK_SECONDS, _ROW_BYTES = 30.0, 1.0, 200


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
                except _NotRead as reason:
                    log.warning("this process reads the input, and not the workers: %s", reason)
                    ends.close()
        yield edges


def _plan(config: Config, source: object | None) -> parquet.ParquetPlan | None:
    """Plan reading by workers; None if this process reads."""
    two_hop_steps, execution = config.output.two_hop_steps, config.execution
    needs_edges = two_hop_steps or derived_of(config) or publication_of(config.problem).least_sizes(config) is None
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
    is_small = two_hop_steps is None and plan.n_rows <= QUICK_TWO_HOP_EDGES
    return None if is_small or plan.content is not None else plan


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
        _read_shares(runner, workers, key, config, path, seen)
        with run_state.at_part(f"joining what {n_workers} have read"):
            seconds = _SILENT_SECONDS + seconds_for(_ROW_BYTES * plan.n_rows)
            answers = runner.asked(_join, key, config, workers, workers=workers[:1], seconds=seconds)
    if not isinstance(joined := answers.get(workers[0], "no answer"), bytes):
        raise _NotRead(f"worker {workers[0]} could not join the rows: {joined!r}")
    left_keys, right_keys, facts, hashes, left_degrees, right_degrees = pickle.loads(joined)
    facts = replace(facts, source=str(plan.path), warnings=())
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
    edges = EdgeData(none, none, left_keys, right_keys, facts, hashes, held=held)
    return cast(EdgeData, with_doubts(edges, section, {"left": range(sizes[0]), "right": range(sizes[1])}))


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


def _read_shares(runner: DaskRunner, workers: list[str], *given: Any) -> None:
    """Wait until workers have read their shares, and count the rows."""
    n_read, waiting = dict.fromkeys(workers, 0), workers
    while waiting:
        answers = runner.asked(_share, *given, workers, workers=waiting, seconds=_SILENT_SECONDS)
        for worker in waiting:
            if not isinstance(answer := answers.get(worker, "no answer"), tuple):
                raise _NotRead(f"worker {worker}: {answer!r}")
            n_read[worker] = answer[0]
        run_state.count_edges_read(max(0, sum(n_read.values()) - run_state.state.n_edges_read))
        waiting = [worker for worker in waiting if not answers[worker][1]]


class _Share(threading.Thread):
    """Reads a share in a worker."""

    def __init__(self, *given: Any) -> None:
        super().__init__(name="read", daemon=True)
        self.n, self.due, self.rows, self._given = 0, time.perf_counter() + _FIRST_ROW_SECONDS, cast(Any, None), given
        self.start()

    def run(self) -> None:
        try:
            self.rows = _read(self.count, *self._given)
        except Exception as error:  # noqa: BLE001 - raised where the rows are asked for
            self.rows = error

    def count(self, n: int) -> None:
        self.n, self.due = self.n + n, time.perf_counter() + _NO_ROW_SECONDS


# Of this worker, by the key of the reading and the number of the share; and keys of readings that are over.
_SHARES: dict[tuple[str, int], _Share] = {}
_DROPPED: deque[str] = deque(maxlen=1000)


async def _view(path: Path) -> tuple[dict[str, str], list[tuple[str, int, int]]]:
    return software(), await asyncio.to_thread(_files, path)


def _files(path: Path) -> list[tuple[str, int, int]]:
    """Return the files of a path, with sizes and times."""
    of_files = [(file, file.stat()) for file in (parquet.data_files(path) if path.is_dir() else [path])]
    return [(str(file), facts.st_size, facts.st_mtime_ns) for file, facts in of_files]


async def _share(
    key: str, config: Config, path: Path, seen: object, workers: list[str], dask_worker: Any
) -> tuple[int, bool]:
    """Read a share if that has not begun; return soon, with the number of rows and True if these are all."""
    k = workers.index(dask_worker.contact_address)
    if (share := _SHARES.get((key, k))) is None and key not in _DROPPED:
        share = _SHARES[key, k] = _Share(config, path, seen, (k, len(workers)))
    if share is None:
        raise TimeoutError("this reading is over")
    await asyncio.to_thread(share.join, _LOOK_SECONDS)
    if isinstance(share.rows, Exception):
        raise share.rows
    if share.rows is None and time.perf_counter() > share.due:
        raise TimeoutError("has read no row for a while")
    return share.n, share.rows is not None


def _read(count: Callable[[int], None], config: Config, path: Path, seen: object, share: tuple[int, int]) -> RawEdges:
    compile_ahead(read_steps())
    rows = parquet.read(path, reading_of(config), share=share, count=count)
    if _files(path) != seen:
        raise ValueError("files have changed meanwhile")
    return rows


async def _join(key: str, config: Config, workers: list[str], dask_worker: Any) -> bytes:
    """Fetch the shares of others, and join all; the answer is that of `_joined`."""
    shares = []
    for k, giver in enumerate(workers):
        if giver == dask_worker.contact_address:
            shares.append(_SHARES.pop((key, k)).rows)
            continue
        answer = await dask_worker.rpc(giver).run(function=pickle.dumps(_give), args=pickle.dumps((key, k)))
        shares.append(await asyncio.to_thread(pickle.loads, answer["result"]))
    return await asyncio.to_thread(_joined, key, config, shares)


async def _give(key: str, k: int) -> bytes:
    """Return a share, pickled, and drop it."""
    return await asyncio.to_thread(pickle.dumps, _SHARES.pop((key, k)).rows, 5)


def _joined(key: str, config: Config, shares: list[RawEdges]) -> bytes:
    """Clean the rows of all shares, and hold their graph; return keys, facts, hashes and degrees, pickled."""
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
        raise ValueError(f"two-hop degrees are counted for {edges.facts.n_edges:,} edges")
    graph = publication.graph(config, edges)
    HELD[key] = pickle.dumps(graph, protocol=5)
    if key in _DROPPED:
        HELD.pop(key, None)
    known = edges.left_keys, edges.right_keys, edges.facts, edges.key_hashes(), graph.left_degrees, graph.right_degrees
    # Arrays that Dask pickles itself may be read-only.
    return pickle.dumps(known, protocol=5)


def _drop(key: str) -> None:
    """Drop all of a reading, also what comes late."""
    _DROPPED.append(key)
    HELD.pop(key, None)
    for share in [share for share in _SHARES if share[0] == key]:
        del _SHARES[share]
