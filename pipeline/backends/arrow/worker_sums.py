"""Workers of a cluster sum up what they find where no rows are written: nothing is left anywhere, and sums travel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mbe_stage.options import Execution
from mbe_stage.pipeline.backends.arrow.written import WorkerSink, Written

__all__ = ["WorkerSums"]


@dataclass(frozen=True, slots=True)
class WorkerSums:
    """See `mbe_stage.runners.parts.PartMaker`; every worker that has begun may sum up.

    Attributes
    ----------
    sink : callable
        Takes a path, and what `RowSink` says of memory, and gives a sink that writes nothing; it is pickled.
    derived : tuple of callable
        For each derived output: what makes something that sums up for it, with `accept` and `sums`.
    """

    sink: Callable[..., WorkerSink] = field(repr=False)
    derived: tuple[Callable[[], Any], ...] = ()

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Nothing has to be there for it."""
        yield

    def prove(self) -> bool:
        """That it has begun."""
        return True

    def proven(self, proofs: Mapping[str, bool | None]) -> set[str]:
        """Those that have begun."""
        return {worker for worker, proof in proofs.items() if proof}

    def what_is_sent(self, proof: bool | None) -> str:  # noqa: ARG002 - as of those that write
        """For people."""
        return "did not begin; what it finds is sent here, and summed up here"

    @contextmanager
    def open(self, name: str, execution: Execution, proof: bool) -> Iterator[_LeaseSums]:  # noqa: ARG002 - as above
        """In a worker: what sums up a lease."""
        derived = [_SummedUp(make()) for make in self.derived]
        sink = self.sink(
            Path(name),
            block_bytes=execution.block_bytes,
            memory_budget=execution.memory_budget_bytes,
            derived=derived,
        )
        lease = _LeaseSums(sink)
        with sink:
            yield lease
        lease.made = Written({}, (), sink.summary, tuple(each.sums() for each in derived))


class _LeaseSums:
    """See `mbe_stage.runners.parts.PartSink`."""

    is_full = False

    def __init__(self, sink: WorkerSink) -> None:
        self.accept = sink.accept
        self.made: Written | None = None

    def part(self) -> tuple[Written, int]:
        """The sums; nothing is kept elsewhere."""
        assert self.made is not None
        return self.made, 0


class _SummedUp:
    """Takes blocks in for a derived output, from any of the sink's threads, one at a time.

    In the process that publishes `pipeline.problems.derived.GuardedCollector` does that; it has the whole run at hand.
    """

    def __init__(self, collector: Any) -> None:
        self._collector, self._lock = collector, threading.Lock()
        self.sums = collector.sums

    def accept(self, block: Any, keys: Any) -> None:
        with self._lock:
            self._collector.accept(block, keys)
