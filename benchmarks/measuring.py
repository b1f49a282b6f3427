"""One graph's row of the table: measured and derived figures."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.count_and_write import CountTimes, WriteTimes, bench_count, bench_write
from benchmarks.graphs import BenchGraph, find_graph

__all__ = ["Row", "Settings", "compiled_afresh", "measure_graph"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a measurement.

    Attributes
    ----------
    threads : tuple of int
        Counting is measured with each; writing with the first.
    repeats, write_repeats : int
        The median counts; without `write_repeats` nothing is written.
    spend_seconds : float
        No further repeat of one measurement starts after this time.
    """

    threads: tuple[int, ...] = (1, 2)
    repeats: int = 5
    write_repeats: int = 3
    spend_seconds: float = 180.0
    engine: str = "auto"


@dataclass(frozen=True, slots=True)
class Row:
    """One graph.

    Attributes
    ----------
    known : BenchGraph or None
        None for a file that is not listed.
    counts : dict
        By number of threads.
    write : WriteTimes or None
        With the first number of threads.
    """

    name: str
    known: BenchGraph | None
    counts: dict[int, CountTimes]
    write: WriteTimes | None

    @property
    def _measurements(self) -> list[CountTimes | WriteTimes]:
        counted: list[CountTimes | WriteTimes] = list(self.counts.values())
        return counted if self.write is None else [*counted, self.write]

    @property
    def n_bicliques(self) -> int:
        """Return the first count."""
        return next(iter(self.counts.values())).n_bicliques

    @property
    def wrong(self) -> str | None:
        """Return what contradicts the known number, or another measurement of the graph; None if all agree."""
        found = {times.n_bicliques for times in self._measurements}
        expected = self.known.expected if self.known else None
        if len(found) > 1:
            return f"{self.name}: counts differ: {sorted(found)}"
        if expected is not None and found != {expected}:
            return f"{self.name}: counted {found.pop():,} maximal bicliques; expected {expected:,}"
        return None

    def count_seconds(self, threads: int) -> float | None:
        """Return the median; None if it was not measured."""
        return statistics.median(self.counts[threads].seconds) if threads in self.counts else None

    @property
    def first_count_seconds(self) -> float:
        """Return the count time with the first number of threads, as `write_seconds`."""
        return statistics.median(next(iter(self.counts.values())).seconds)

    @property
    def write_seconds(self) -> float | None:
        return statistics.median(self.write.seconds) if self.write else None

    @property
    def peak_memory_bytes(self) -> int:
        return max(times.peak_memory_bytes for times in self._measurements)

    @property
    def fewest_repeats(self) -> int:
        return min(len(times.seconds) for times in self.counts.values())

    def speed_up(self, threads: int) -> float | None:
        """Return the speedup over one thread; None if either was not measured."""
        one, many = self.count_seconds(1), self.count_seconds(threads)
        return one / many if one is not None and many is not None else None

    def busy_ratio(self, threads: int) -> float | None:
        """Return processor time over wall time and threads, median; None if it was not measured."""
        times = self.counts.get(threads)
        if times is None:
            return None
        pairs = zip(times.cpu_seconds, times.seconds, strict=True)
        return statistics.median(cpu / (wall * threads) for cpu, wall in pairs)


def measure_graph(
    name: str,
    settings: Settings,
    environment: Mapping[str, str],
    say: Callable[[str], None] = lambda text: None,  # noqa: ARG005 - says nothing
) -> Row:
    """Measure one graph, every figure in a separate process.

    Raises
    ------
    StageError
        The graph is missing or cannot be measured.
    """
    path, known = find_graph(name)
    counts = {}
    for threads in settings.threads:
        say(f"{name}: counting, threads: {threads}")
        counts[threads] = bench_count(
            path, threads, settings.repeats, settings.engine, settings.spend_seconds, environment
        )
    write = None
    if settings.write_repeats:
        say(f"{name}: writing, threads: {settings.threads[0]}")
        write = bench_write(
            path, settings.threads[0], settings.write_repeats, settings.engine, settings.spend_seconds, environment
        )
    return Row(known.name if known else path.stem, known, counts, write)


@contextmanager
def compiled_afresh(settings: Settings, switches: Mapping[str, str] | None = None) -> Iterator[dict[str, str]]:
    """Return an environment for measuring processes that all load the same freshly compiled code.

    Numba's cache knows a function's own file, not those of the functions it calls: after an edit it may return old
    code. And a process that compiles needs more memory than one that loads.

    Parameters
    ----------
    settings : Settings
        Selects the engine and whether writing is measured.
    switches : mapping, optional
        Further environment variables, also set while compiling.
    """
    with tempfile.TemporaryDirectory(prefix="mbe-bench-") as directory:
        environment = {**(switches or {}), "NUMBA_CACHE_DIR": directory}
        # Any graph will do: a measuring process warms up on its own one, which uses all of the engine.
        sample = Path(directory) / "sample.npz"
        np.savez(sample, u=[0, 0, 1], v=[0, 1, 1])
        bench_count(sample, 1, 1, settings.engine, environment=environment)
        if settings.write_repeats:
            bench_write(sample, 1, 1, settings.engine, environment=environment)
        yield environment
