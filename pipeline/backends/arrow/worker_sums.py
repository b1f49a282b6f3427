"""Sums that cluster workers make if no rows are written: only the sums are sent, and nothing is stored."""

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
    """See `mbe_stage.runners.parts.PartMaker`; every started worker may sum up.

    Attributes
    ----------
    sink : callable
        Takes a path and `RowSink`'s settings for memory, and returns a sink that writes nothing; it is pickled.
    derived : tuple of callable
        For each derived output a factory of its sums, which have `accept` and `sums`.
    """

    sink: Callable[..., WorkerSink] = field(repr=False)
    derived: tuple[Callable[[], Any], ...] = ()

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Do nothing: no directory is needed."""
        yield

    def prove(self) -> bool:
        """Return True: the worker has started."""
        return True

    def proven(self, proofs: Mapping[str, bool | None]) -> set[str]:
        """Return the started workers."""
        return {worker for worker, proof in proofs.items() if proof}

    def what_is_sent(self, proof: bool | None) -> str:  # noqa: ARG002 - as of those that write
        """Explain for people what is sent."""
        return "did not start; its results are sent and summed up here"

    @contextmanager
    def open(self, name: str, execution: Execution, proof: bool) -> Iterator[_LeaseSums]:  # noqa: ARG002 - as above
        """Open the sums of a lease in a worker."""
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
        """Return the sums; no bytes are stored."""
        assert self.made is not None
        return self.made, 0


class _SummedUp:
    """Adds blocks for a derived output from any of the sink's threads, one at a time.

    In the publishing process, which has the whole run, `pipeline.problems.derived.GuardedCollector` does that.
    """

    def __init__(self, collector: Any) -> None:
        self._collector, self._lock = collector, threading.Lock()
        self.sums = collector.sums

    def accept(self, block: Any, keys: Any) -> None:
        with self._lock:
            self._collector.accept(block, keys)
