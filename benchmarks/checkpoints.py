"""What checkpoints cost: ``python -m benchmarks.checkpoints [--seconds N] [--repeats N] [--sort] [GRAPH ...]``.

Each graph is published in turn without checkpoints and with them, on the engine ``cpu``. Printed are, of each kind, the
least seconds and the least seconds of processor time from the clean edges to the sealed run, how many checkpoints there
were, and what both kinds of seconds grew by. Runs go to the directory of temporary files.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.graphs import find_graph
from pipeline import Config, journal, run

__all__ = ["Cost", "main", "published"]


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run took: seconds, those of all cores together, and its checkpoints."""

    seconds: float
    processor_seconds: float
    n_checkpoints: int


def published(graph: str, checkpoint_seconds: float | None, *, sort: bool) -> Cost:
    """Publish a graph once into a temporary directory.

    Parameters
    ----------
    graph : str
        As `benchmarks.graphs.find_graph` takes it.
    checkpoint_seconds : float or None
    sort : bool
    """
    with tempfile.TemporaryDirectory() as out, _noting_checkpoints() as noted:
        output = {"directory": out, "report": False, "sort": sort, "checkpoint_seconds": checkpoint_seconds}
        path = str(find_graph(graph)[0])
        config = Config.from_mapping({"input": {"path": path}, "execution": {"engine": "cpu"}, "output": output})
        begun = time.process_time()
        seconds = run(config).manifest.seconds
        spent = time.process_time() - begun
    others = sum(seconds[step] for step in ("read", "compile"))
    return Cost(seconds["total"] - others, spent - others, len(noted))


@contextmanager
def _noting_checkpoints() -> Iterator[list[str]]:
    """What is logged of checkpoints meanwhile."""
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
    """Print a line for each graph."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="*", default=["bookcrossing"])
    parser.add_argument("--seconds", type=float, default=10.0, help="output.checkpoint_seconds")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sort", action="store_true")
    options = parser.parse_args(arguments)
    for graph in options.graphs:
        without, with_them = [], []
        for _ in range(options.repeats):
            without.append(published(graph, None, sort=options.sort))
            with_them.append(published(graph, options.seconds, sort=options.sort))
        print(f"{graph}, the least of {options.repeats}, in turn:")
        print("\n".join(_lines(without, with_them)), flush=True)


def _lines(without: Sequence[Cost], with_them: Sequence[Cost]) -> Iterator[str]:
    n_checkpoints = "/".join(str(cost.n_checkpoints) for cost in with_them)
    for what, of in (("seconds", "seconds"), ("of processors", "processor_seconds")):
        least = [min(getattr(cost, of) for cost in costs) for costs in (without, with_them)]
        yield (
            f"  {what:14}{least[0]:8.2f} without, {least[1]:8.2f} with {n_checkpoints} checkpoints: "
            f"{least[1] / least[0] - 1:+.1%}"
        )


if __name__ == "__main__":
    main()
