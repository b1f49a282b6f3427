"""Cost of checkpoints: ``python -m benchmarks.checkpoints [options] [GRAPH ...]``; ``--help`` lists them.

Each graph is published without and with checkpoints, on the engine ``cpu`` or that of ``--engine``, each time in a new
process that has published a small graph before. It prints the number of checkpoints and the increase of wall time, from
the clean edges to the sealed run, and of processor time of the whole run. Runs go to the temporary directory.

Kinds alternate, every other time in reverse order, and the minimum of each counts. The same work varies by a few
percent of processor time from one minute to the next, more on shared machines: ``--at-once`` runs both kinds side by
side, where they share that, and compares each pair.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.graphs import find_graph
from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.execution import journal

__all__ = ["Cost", "main", "published"]

# A crown: no reduction can remove anything before the engine starts.
_SMALL = np.nonzero(~np.eye(9, dtype=bool))


@dataclass(frozen=True, slots=True)
class Cost:
    """Wall seconds, processor seconds and checkpoints of one run."""

    seconds: float
    processor_seconds: float
    n_checkpoints: int


def published(graph: str, checkpoint_seconds: float | None, *, sort: bool, means: dict[str, Any]) -> Cost:
    """Publish a graph once into a temporary directory; everything is compiled and loaded before.

    Parameters
    ----------
    graph : str
        As `benchmarks.graphs.find_graph` takes it.
    checkpoint_seconds : float or None
    sort : bool
    means : dict
        Sections of the configuration except the output.
    """
    path = str(find_graph(graph)[0])
    _publish(means, _SMALL, None, sort=sort)
    with _noting_checkpoints() as noted:
        begun = time.process_time()
        seconds = _publish(means | {"input": {"path": path}}, None, checkpoint_seconds, sort=sort)
        spent = time.process_time() - begun
    return Cost(
        seconds["total"] - sum(seconds.get(step, 0.0) for step in ("read", "load", "compile")), spent, len(noted)
    )


def _publish(
    values: dict[str, Any], source: object | None, checkpoint_seconds: float | None, *, sort: bool
) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as out:
        output = {"directory": out, "report": False, "sort": sort, "checkpoint_seconds": checkpoint_seconds}
        config = Config.from_mapping(values | {"output": output})
        return run(config, source).manifest.seconds


@contextmanager
def _noting_checkpoints() -> Iterator[list[str]]:
    """Record the logged checkpoints."""
    logger, noted = logging.getLogger(journal.__name__), list[str]()
    before = logger.level

    def note(record: logging.LogRecord) -> bool:
        if record.msg == journal.KEPT:
            noted.append(record.getMessage())
        return record.levelno >= logging.INFO

    logger.setLevel(logging.DEBUG)
    logger.addFilter(note)
    try:
        yield noted
    finally:
        logger.removeFilter(note)
        logger.setLevel(before)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="*", default=["bookcrossing"])
    parser.add_argument("--seconds", type=float, default=10.0, help="output.checkpoint_seconds")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sort", action="store_true")
    parser.add_argument("--engine", default="cpu")
    parser.add_argument("--memory-budget", default="1GiB", help="execution.memory_budget")
    parser.add_argument("--min-left", type=int, default=1, help="only bicliques of so many vertices on the left")
    parser.add_argument("--min-right", type=int, default=1)
    parser.add_argument("--at-once", action="store_true", help="both kinds beside each other")
    options = parser.parse_args(arguments)
    means = {
        "execution": {"engine": options.engine, "memory_budget": options.memory_budget},
        "query": {"min_left": options.min_left, "min_right": options.min_right},
    }
    for graph in options.graphs:
        print(f"{graph}, {'at once' if options.at_once else f'the least of {options.repeats}, in turn'}:", flush=True)
        pairs = (
            _pair(partial(_alone, graph, sort=options.sort, means=means), options, turned=bool(i % 2))
            for i in range(options.repeats)
        )
        for line in _each(pairs) if options.at_once else _least(list(pairs)):
            print(line, flush=True)


def _pair(alone: Callable[[float | None], Cost], options: argparse.Namespace, *, turned: bool) -> tuple[Cost, Cost]:
    """Run without and with checkpoints; `turned` reverses the order."""
    kinds: tuple[float | None, ...] = (None, options.seconds)
    with ThreadPoolExecutor(len(kinds) if options.at_once else 1) as pool:
        first, second = pool.map(alone, kinds[::-1] if turned else kinds)
    return (second, first) if turned else (first, second)


def _alone(graph: str, checkpoint_seconds: float | None, *, sort: bool, means: dict[str, Any]) -> Cost:
    """Run `published` in a separate process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(published, graph, checkpoint_seconds, sort=sort, means=means).result()


def _least(pairs: Sequence[tuple[Cost, Cost]]) -> Iterator[str]:
    n_checkpoints = "/".join(str(with_them.n_checkpoints) for _, with_them in pairs)
    for what, of in (("seconds", "seconds"), ("of processors", "processor_seconds")):
        without, with_them = (min(getattr(cost, of) for cost in costs) for costs in zip(*pairs, strict=True))
        yield _line(what, without, with_them, n_checkpoints)


def _each(pairs: Iterable[tuple[Cost, Cost]]) -> Iterator[str]:
    """Processor time only, because both share the clock."""
    for without, with_them in pairs:
        seconds = without.processor_seconds, with_them.processor_seconds
        yield _line("of processors", *seconds, str(with_them.n_checkpoints))


def _line(what: str, without: float, with_them: float, n_checkpoints: str) -> str:
    return (
        f"  {what:14}{without:8.2f} without, {with_them:8.2f} with {n_checkpoints} checkpoints: "
        f"{with_them / without - 1:+.1%}"
    )


if __name__ == "__main__":
    main()
