"""Ingestion by the workers of a cluster: each reads some row groups, and one of them joins and cleans all.

The edges stay with the workers, which search them, unless this process needs them for more than a search.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import getitem
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.backends.arrow.backend import ARROW
from mbe_stage.pipeline.backends.arrow.edges import EdgeData
from mbe_stage.pipeline.clean.cleaning import clean
from mbe_stage.pipeline.config.model import Config, InputConfig
from mbe_stage.pipeline.config.setting_names import setting, settings_called
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution.compiling import read_steps
from mbe_stage.pipeline.io import RawEdges, find_input, is_object, parquet, reading, with_measures
from mbe_stage.pipeline.problems.installed import derived_of, publication_of, reading_of
from mbe_stage.pipeline.stores.address import STANDARD_INPUT, is_address, place_of
from mbe_stage.pipeline.wording import plural
from mbe_stage.runners.dask_runner import DaskRunner, check_software, host_of
from mbe_stage.runners.held_graph import HeldGraph
from mbe_stage.runners.lease_work import software
from mbe_stage.runtime.compile_ahead import compile_ahead

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class HeldEdges(EdgeData):
    """Keys and facts of edges that workers hold; the ids are None here."""

    held: Any = None

    def graph(self) -> HeldGraph:
        """Return the graph without its edges."""
        return cast(HeldGraph, self.held)


def path_for_workers(config: Config, source: object | None) -> Path | None:
    """Return the path of an input that workers can read if they see it; None, with a log line, for any other."""
    given: Any = place_of(cast(Any, config.input.path if source is None else source))
    if config.execution.memory_budget is not None:
        reason = f"{setting('execution.memory_budget')} is for reading in this process"
    elif is_object(given) or isinstance(given, list | tuple) or is_address(given) or given == STANDARD_INPUT:
        reason = "it is no single path"
    else:
        found = find_input(reading_of(config), given)
        if found.format == "parquet" and not found.files:
            return found.path
        reason = "it is no Parquet file or directory"
    log.info("this process reads the input, and not the workers: %s", reason)
    return None


@run_state.at_step("read")
def ingest_by_workers(config: Config, path: Path, runner: DaskRunner) -> EdgeData | None:
    """Read and clean edges as `pipeline.execution.ingest.ingest`, by workers; errors of `DaskRunner.run` may come too.

    Hosts read if all their workers see the files as this process does. If there is none, return None.
    """
    with run_state.at_part("asking the workers"):
        check_software(runner.asked(software))
        seen, answers = _seen(path), runner.asked(_seen, path)
    others = {worker: answer for worker, answer in answers.items() if answer != seen}
    for worker, answer in others.items():
        found = "other sizes or times" if isinstance(answer, list) else answer or "no answer"
        log.warning("worker %s does not see %s as this process does: %s", worker, path, found)
    runner.hosts = sorted({host_of(worker) for worker in answers} - {host_of(worker) for worker in others})
    if not runner.hosts:
        log.warning("this process reads the input, and not the workers: on no host all workers see it")
        return None
    n = sum(host_of(worker) in runner.hosts for worker in answers)
    names = {key: setting(key) for key in (f"input.{field}" for field in InputConfig.model_fields)}
    before = _n_read(runner)

    def count() -> None:
        # A short wait, since the shares may be there before the answers.
        n_more = _n_read(runner, seconds=0.5) - before - run_state.state.n_edges_read
        run_state.count_edges_read(max(0, n_more))

    def begun() -> tuple[list[Any], Any, Any]:
        shares = [runner.submit(_read, config, path, (k, n), seen, names) for k in range(n)]
        joined = runner.submit(_joined, config, shares, names)
        return shares, runner.submit(getitem, joined, 0), runner.submit(getitem, joined, 1)

    def again() -> HeldGraph:
        return replace(edges.graph(), pickled=begun()[2], again=again)

    with run_state.at_part():
        shares, known, graph = begun()
        for share in shares:
            # In this order, so that the error of the first rows is raised.
            runner.wait(share, count)
        with run_state.at_part(f"joining what {plural(n, 'worker')} have read"):
            edges = cast(EdgeData, pickle.loads(runner.result(known)))
    where = "stay there" if isinstance(edges, HeldEdges) else "came here, where the run needs them"
    log.info("read by %s: %s edges, which %s", plural(n, "worker"), f"{edges.facts.n_edges:,}", where)
    if not isinstance(edges, HeldEdges):
        return edges
    return replace(edges, held=replace(edges.held, pickled=graph, again=again))


def _seen(path: Path) -> list[tuple[str, int, int]] | str:
    """Return the files of a path, with sizes and times; the error as text if they cannot be seen."""
    try:
        of_files = [(file, file.stat()) for file in (parquet.data_files(path) if path.is_dir() else [path])]
        return [(str(file), facts.st_size, facts.st_mtime_ns) for file, facts in of_files]
    except OSError as error:
        return str(error)


def _n_read(runner: DaskRunner, **patience: float) -> int:
    """Return how many rows the processes of the workers have read so far."""
    answers = ((host_of(worker), answer) for worker, answer in runner.asked(_rows_read, **patience).items())
    return sum({(host, answer[0]): answer[1] for host, answer in answers if isinstance(answer, tuple)}.values())


def _rows_read() -> tuple[int, int]:
    return os.getpid(), run_state.state.n_edges_read


def _read(config: Config, path: Path, share: tuple[int, int], seen: object, names: Mapping[str, str]) -> RawEdges:
    compile_ahead(read_steps())
    with settings_called(lambda key: names.get(key, key)), reading(path):
        rows = parquet.read(path, reading_of(config), share=share)
    if _seen(path) != seen:
        found = "files that have changed, or differ on this worker"
        remedy = "run again once they are written"
        raise InputError.at(path, found=found, expected="those that this process saw", remedy=remedy)
    return rows


def _joined(config: Config, shares: list[RawEdges], names: Mapping[str, str]) -> tuple[bytes, bytes]:
    """Return clean edges, pickled; if the process of the run needs no ids, without these, and the pickled graph."""
    # A column without values has no type yet.
    tables = [share.table for share in shares if share.n_rows] or [shares[0].table]
    section, publication = reading_of(config), publication_of(config.problem)
    with settings_called(lambda key: names.get(key, key)):
        rows = with_measures(replace(shares[0], table=pa.concat_tables(tables)), section)
        edges = cast(EdgeData, clean(rows, section, ARROW))
        has_all = derived_of(config) or publication.least_sizes(config) is None
        if has_all or edges.facts.most_two_hop_steps(config.output.two_hop_steps):
            return pickle.dumps(edges, protocol=5), b""
        graph, none = publication.graph(config, edges), cast(Any, None)
    held = HeldGraph(graph.n_left, graph.n_right, graph.left_degrees, graph.right_degrees, None, none)
    keys, hashes = (edges.left_keys, edges.right_keys), edges.key_hashes()
    edges = HeldEdges(none, none, *keys, edges.facts, hashes, held=held)
    # Arrays that Dask pickles itself may be read-only.
    return pickle.dumps(edges, protocol=5), pickle.dumps(graph, protocol=5)
