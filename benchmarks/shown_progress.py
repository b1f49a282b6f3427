"""Accuracy of shown progress: ``python -m benchmarks.shown_progress [--threads N] [--stop SECONDS] [GRAPH ...]``.

Each graph is counted once, with a listener. Ten times, evenly in time, it prints the true shares of bicliques and of
time, the engine's guess, the shown share, and the shown and true seconds left. ``-`` means unknown. The line above has
the sampler's share of a core. Graphs are named as for `benchmarks.estimates`; for a stopped one the truth is the known
number, and the time left is unknown.
"""

from __future__ import annotations

import argparse
import bisect
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.estimates import graph_and_truth
from mbe_stage import CountSink, Execution, Progress, enumerate_into, sampling
from mbe_stage.bicliques.estimation import compile_steps
from mbe_stage.runtime.compile_ahead import compile_ahead
from mbe_stage.stream import Listener

__all__ = ["lines", "main"]

_GRAPHS = ("crown31", "cutcrown38", "bookcrossing", "lastfm_tag_artist", "EuAll", "gowalla", "dir_soc_Epinions1")
_LOOKS = 10


def lines(seen: Sequence[Progress], truth: int, is_complete: bool) -> list[str]:
    """Return the progress shown at ten moments, evenly in time.

    Parameters
    ----------
    seen : sequence of Progress
        In order; the last one is the end.
    truth : int
        True number of bicliques.
    is_complete : bool
        Whether all were found.
    """
    end = seen[-1].seconds
    moments = [progress.seconds for progress in seen]
    told = []
    for look in range(1, _LOOKS + 1):
        now = seen[min(bisect.bisect_left(moments, end * look / (_LOOKS + 1)), len(seen) - 1)]
        left = f"{end - now.seconds:12.1f}" if is_complete else f"{'-':>12}"
        told.append(
            f"{now.seconds:8.1f}{now.n_bicliques / truth:10.1%}{now.seconds / end:10.1%}{now.work_done:10.1%}"
            f"{_or_dash(now.share, '.1%', 10)}{_or_dash(now.seconds_left, '.1f', 12)}{left}"
        )
    return told


def _or_dash(value: float | None, form: str, width: int) -> str:
    return f"{'-' if value is None else format(value, form):>{width}}"


@contextmanager
def _noting_samplers() -> Iterator[list[float]]:
    """Record the core seconds of each sampler that ends meanwhile, from its log."""
    logger, spent = logging.getLogger(sampling.__name__), list[float]()
    before = logger.level

    def note(record: logging.LogRecord) -> bool:
        if record.msg == sampling.SPENT and isinstance(record.args, tuple):
            spent.append(float(str(record.args[0])))
        return record.levelno >= logging.INFO

    logger.setLevel(logging.DEBUG)
    logger.addFilter(note)
    try:
        yield spent
    finally:
        logger.removeFilter(note)
        logger.setLevel(before)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="*", default=_GRAPHS)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--stop", type=float, help="seconds after which a graph is left")
    options = parser.parse_args(arguments)
    compile_ahead(compile_steps())
    for name in options.graphs:
        graph, truth = graph_and_truth(name)
        seen: list[Progress] = []
        execution = Execution(threads=options.threads, time_limit_seconds=options.stop)
        with _noting_samplers() as spent:
            facts = enumerate_into(CountSink(), graph, None, execution, "cpu", Listener(seen.append))
        print(f"{name}: {facts.n_bicliques:,} of {truth:,} in {facts.seconds:.1f} s, {facts.device}")
        cores = facts.seconds * min(execution.worker_count, Execution().worker_count)
        took = f"{spent[0]:.2f} s of a core, {spent[0] / cores:.1%} of all" if spent else "nothing that was told"
        print(f"the sampler took {took}")
        print(
            f"{'seconds':>8}{'found':>10}{'of time':>10}{'guessed':>10}{'told':>10}{'left, told':>12}{'left, true':>12}"
        )
        print("\n".join(lines(seen, truth, facts.truncated is None)), flush=True)


if __name__ == "__main__":
    main()
