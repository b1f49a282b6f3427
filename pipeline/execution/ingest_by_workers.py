"""Ingestion by the workers of a cluster: each reads some row groups, and one of them joins and cleans all.

The edges stay with the workers, which search them. Whatever goes wrong, this process reads the input instead, with a
line in the log; so refusals are always its own.
"""

from __future__ import annotations

import asyncio
import logging
import math
import pickle
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
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

# A worker without an answer for this long is lost. One that then reads no row for this long gives up.
_ANSWER_SECONDS, _ROWS_SECONDS = 30.0, 60.0
_LOOK_SECONDS = 1.0
# If other workers see the files after a failure, these read. So often in all.
_MOST_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, eq=False)
class HeldEdges(EdgeData):
    """Keys and facts of edges that workers hold; the ids are None here."""

    held: Any = None

    def graph(self) -> HeldGraph:
        """Return the graph without its edges."""
        return cast(HeldGraph, self.held)


class _NotRead(Exception):
    """Why workers have not read the input."""


@contextmanager
def held_by_workers(config: Config, source: object | None = None) -> Iterator[HeldEdges | None]:
    """Have workers read, clean and keep edges; they drop them when the context ends. None if this process has to read.

    They can read a Parquet file or directory that they see as this process does. The search may need no edges outside
    of the workers.

    Raises
    ------
    InputError
        There is no such input, or it has no such columns.
    ClusterLost
        No scheduler answers, or the cluster has no worker.
    """
    with ExitStack() as ends:
        edges = None
        with run_state.at_step("read"):
            if (plan := _plan(config, source)) is not None:
                with run_state.at_part("waiting for the cluster"):
                    runner = ends.enter_context(dask_cluster(config.execution.cluster))
                try:
                    edges = _read_by(runner, config, plan, source, ends)
                except _NotRead as reason:
                    log.warning("this process reads the input, and not the workers: %s", reason)
                    ends.close()
        yield edges


def _plan(config: Config, source: object | None) -> parquet.ParquetPlan | None:
    """Plan reading by workers; return None if this process reads."""
    execution, two_hop_steps = config.execution, config.output.two_hop_steps
    if execution.cluster is None or execution.memory_budget is not None or two_hop_steps:
        return None
    if derived_of(config) or publication_of(config.problem).least_sizes(config) is None:
        return None
    place, section = place_of(cast(Any, config.input.path if source is None else source)), reading_of(config)
    if not isinstance(place, str | Path) or not place or is_address(place) or place == STANDARD_INPUT:
        return None
    found = find_input(section, place)
    if found.format != "parquet" or found.files:
        return None
    with reading(found.path):
        plan = parquet.plan_reading(found.path, section)
    is_small = two_hop_steps is None and plan.n_rows <= QUICK_TWO_HOP_EDGES
    return None if is_small or plan.content is not None else plan


def _read_by(
    runner: DaskRunner, config: Config, plan: parquet.ParquetPlan, source: object | None, ends: ExitStack
) -> HeldEdges:
    path, before, reason = plan.path.absolute(), list[str](), _NotRead("workers come and go")
    for _ in range(_MOST_ATTEMPTS):
        with reading(path):
            seen = _files(path)
        with run_state.at_part("asking the workers"):
            workers = _seeing(runner, path, seen)
        if workers == before:
            break
        before, key = workers, uuid.uuid4().hex
        ends.callback(runner.asked, _drop, key, workers=workers, seconds=_LOOK_SECONDS)
        try:
            with run_state.at_part():
                keys, facts, hashes, degrees, n_bytes = _joined_by(runner, config, path, seen, key, workers)
        except _NotRead as error:
            reason = error
            log.info("workers did not read the input: %s", reason)
            continue
        log.info("read by %s: the edges stay there", plural(len(workers), "worker"))
        facts = replace(facts, source=str(plan.path), warnings=())
        log_read(facts)

        def read_here(reason: str) -> Any:
            log.warning("this process reads the input, too: %s", reason)
            with run_state.at_step("read"):
                edges = ingest(reading_of(config), source)
            if edges.facts.fingerprint == facts.fingerprint:
                return publication_of(config.problem).graph(config, edges)
            found, expected = "edges that have changed since workers read them", "the same edges during the whole run"
            raise InputError.at(plan.path, found=found, expected=expected, remedy="run again")

        held = HeldGraph(*map(len, degrees), *degrees, runner, workers[0], key, n_bytes, read_here)
        none = cast(Any, None)
        edges = HeldEdges(none, none, *keys, facts, hashes, held=held)
        sides = {"left": range(facts.n_left), "right": range(facts.n_right)}
        return cast(HeldEdges, with_doubts(edges, reading_of(config), sides))
    raise reason


def _seeing(runner: DaskRunner, path: Path, seen: object) -> list[str]:
    """Return the workers with our software that see the files as this process does."""
    workers = runner.awaited_workers()
    answers, ours = runner.asked(_view, path, workers=workers, seconds=_ANSWER_SECONDS), (software(), seen)
    others = {worker: answers.get(worker, "no answer") for worker in workers if answers.get(worker) != ours}
    if others:
        one, answer = next(iter(others.items()))
        what = "other files, sizes, times or software" if isinstance(answer, tuple) else answer
        text = f"{len(others)} of {plural(len(workers), 'worker')} cannot read {path} as this process, such as {one}: {what}"
        if len(others) == len(workers):
            raise _NotRead(text)
        log.info("%s", text)
    return sorted(set(workers) - set(others))


def _joined_by(runner: DaskRunner, config: Config, path: Path, seen: object, key: str, workers: list[str]) -> Any:
    """Have workers read their shares, and the first of them join these; return what it made, without the graph."""
    share_of = {worker: (k, len(workers)) for k, worker in enumerate(workers)}
    try:
        n_bytes_of = _followed(runner, _share, key, config, path, seen, share_of, workers=workers)
        with run_state.at_part(f"joining what {plural(len(workers), 'worker')} have read"):
            (joined,) = _followed(runner, _join, key, config, n_bytes_of, workers=workers[:1]).values()
        return pickle.loads(joined)
    finally:
        runner.asked(_drop, key, False, workers=workers, seconds=_LOOK_SECONDS)


def _followed(runner: DaskRunner, function: Callable[..., Any], *given: Any, workers: Iterable[str]) -> dict[str, Any]:
    """Ask workers again and again, until each has made something; their answers are those of `_Work.state`."""
    counts, made = dict[str, int](), dict[str, Any]()
    while waiting := [worker for worker in workers if worker not in made]:
        answers = runner.asked(function, *given, workers=waiting, seconds=_ANSWER_SECONDS)
        for worker in waiting:
            answer = answers.get(worker, "does not answer")
            if not isinstance(answer, tuple):
                raise _NotRead(f"worker {worker}: {answer if isinstance(answer, str) else repr(answer)}")
            counts[worker], result = answer
            made |= {} if result is None else {worker: result}
        run_state.count_edges_read(max(0, sum(counts.values()) - run_state.state.n_edges_read))
    return {worker: made[worker] for worker in workers}


class _Work:
    """Work of a thread of a worker; its state is asked for again and again."""

    def __init__(self, function: Callable[..., Any], *given: Any) -> None:
        self.n, self._since, self.result = 0, math.inf, Future[Any]()
        threading.Thread(target=self._do, args=(function, given), name="read", daemon=True).start()

    def _do(self, function: Callable[..., Any], given: tuple[Any, ...]) -> None:
        try:
            self.result.set_result(function(self.count, *given))
        except BaseException as error:  # noqa: BLE001 - raised where the state is asked for
            self.result.set_exception(error)

    def count(self, n: int) -> None:
        """Count rows; from the first call on, there have to be more within `_ROWS_SECONDS`."""
        self.n, self._since = self.n + n, time.perf_counter()

    async def state(self, facts: Callable[[Any], Any]) -> tuple[int, Any]:
        """Return the number of rows so far, and facts about the result; None if there is none within a second."""
        await asyncio.to_thread(wait, [self.result], _LOOK_SECONDS)
        if self.result.done():
            return self.n, facts(self.result.result())
        if time.perf_counter() - self._since > _ROWS_SECONDS:
            raise TimeoutError(f"has read no row for {_ROWS_SECONDS:.0f} s")
        return self.n, None


# Of this worker, by the key of the reading and the number of the share; joining is number -1.
_WORK: dict[tuple[str, int], _Work] = {}


async def _view(path: Path) -> tuple[dict[str, str], list[tuple[str, int, int]]]:
    return software(), await asyncio.to_thread(_files, path)


def _files(path: Path) -> list[tuple[str, int, int]]:
    """Return the files of a path, with sizes and times."""
    of_files = [(file, file.stat()) for file in (parquet.data_files(path) if path.is_dir() else [path])]
    return [(str(file), facts.st_size, facts.st_mtime_ns) for file, facts in of_files]


async def _share(
    key: str, config: Config, path: Path, seen: object, share_of: Mapping[str, tuple[int, int]], dask_worker: Any
) -> tuple[int, int | None]:
    """Begin to read a share, if this has not begun; return the rows so far, and the bytes of all once they are read."""
    share = share_of[dask_worker.contact_address]
    if (key, share[0]) not in _WORK:
        _WORK[key, share[0]] = _Work(_read, config, path, share, seen)
    return await _WORK[key, share[0]].state(lambda rows: rows.table.nbytes)


def _read(count: Callable[[int], None], config: Config, path: Path, share: tuple[int, int], seen: object) -> RawEdges:
    compile_ahead(read_steps())
    count(0)
    rows = parquet.read(path, reading_of(config), share=share, count=count)
    if _files(path) != seen:
        raise ValueError("files have changed meanwhile")
    return rows


async def _join(key: str, config: Config, n_bytes_of: Mapping[str, int], dask_worker: Any) -> tuple[int, bytes | None]:
    """Begin to join all shares, if this has not begun; return the result of `_joined` once it is there."""
    if (key, -1) not in _WORK:
        loop = asyncio.get_running_loop()

        def taken(k: int, giver: str) -> RawEdges:
            if giver == dask_worker.contact_address:
                return cast(RawEdges, _WORK.pop((key, k)).result.result())
            asked = dask_worker.rpc(giver).run(function=pickle.dumps(_give), args=pickle.dumps((key, k)))
            answer = asyncio.run_coroutine_threadsafe(asked, loop)
            try:
                return cast(RawEdges, pickle.loads(answer.result(seconds_for(n_bytes_of[giver]))["result"]))
            finally:
                answer.cancel()

        _WORK[key, -1] = _Work(lambda _: _joined(key, config, (taken(*each) for each in enumerate(n_bytes_of))))
    return await _WORK[key, -1].state(lambda joined: joined)


async def _give(key: str, k: int) -> bytes:
    """Return a share, pickled, and drop it."""
    return await asyncio.to_thread(pickle.dumps, _WORK.pop((key, k)).result.result(), 5)


def _joined(key: str, config: Config, shares: Iterable[RawEdges]) -> bytes:
    """Clean the rows of all shares, and put their graph into `HELD`; return the keys, facts, hashes and degrees."""
    section, publication = reading_of(config), publication_of(config.problem)

    def rows() -> RawEdges:
        first, *others = shares
        # A column without values has no type yet.
        tables = [share.table for share in (first, *others) if share.n_rows] or [first.table]
        return with_measures(replace(first, table=pa.concat_tables(tables)), section)

    # Only `clean` has the rows, so it can give up their columns one by one.
    edges = cast(EdgeData, clean(rows(), section, ARROW))
    if edges.facts.most_two_hop_steps(config.output.two_hop_steps):
        raise ValueError(f"two-hop degrees need all edges, and of {edges.facts.n_edges:,} they are counted")
    graph = publication.graph(config, edges)
    HELD[key] = pickle.dumps(graph, protocol=5)
    keys, degrees = (edges.left_keys, edges.right_keys), (graph.left_degrees, graph.right_degrees)
    # Arrays that Dask pickles itself may be read-only.
    return pickle.dumps((keys, edges.facts, edges.key_hashes(), degrees, len(HELD[key])), protocol=5)


def _drop(key: str, with_graph: bool = True) -> None:
    """Drop what belongs to a reading."""
    for each in [each for each in _WORK if each[0] == key]:
        del _WORK[each]
    if with_graph:
        HELD.pop(key, None)
