"""Parts that workers make of their results, so that only a summary travels.

A lease is the unit: the results below its roots become one whole part, or none. Only the caller of the search knows
what a part is.

If a worker cannot keep one (`PartFailed`), the search continues: the lease is given back, and from then on the worker
sends its results. The maker of parts decides which failures concern one worker alone. Other errors end the search.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from mbe_stage.options import Execution
from mbe_stage.tasks import Task


class PartFailed(Exception):
    """A worker cannot keep a part, but others may. The message is one line, for people."""


class PartSink(Protocol):
    """Takes in the blocks of one lease, in a worker."""

    @property
    def is_full(self) -> bool:
        """True if it keeps so much that the lease should end: begun roots are finished, and no others."""

    def accept(self, block: Any) -> None:
        """Take one block in; its arrays may be kept."""

    def part(self) -> tuple[Any, int]:
        """A small summary of the results, and the bytes kept elsewhere; available once the context is left."""


class PartMaker(Protocol):
    """Makes parts. Every worker gets one, pickled, before its first lease."""

    def prove(self) -> Any:
        """In a worker: a proof by which `proven` knows that the files of this worker will be found."""

    def proven(self, proofs: Mapping[str, Any]) -> Set[str]:
        """In the calling process: the workers that may make parts, by their answers."""

    def what_is_sent(self, proof: Any) -> str:
        """Return why a worker may not make parts, and what happens instead: a sentence for people."""

    def open(self, name: str, execution: Execution, proof: Any) -> AbstractContextManager[PartSink]:
        """In a worker: the sink of a lease, whose name is unique. It keeps its files where `proof` was found.

        If it is left with an error, its files are of no use.

        Raises
        ------
        PartFailed
            This worker cannot keep it; also when the context is left, or by `PartSink.accept`.
        """


@dataclass(frozen=True, slots=True)
class Part:
    """Stands for the blocks of a lease (`mbe_stage.stream.Block`).

    Attributes
    ----------
    n : int
        Results in it.
    made : optional
        Result of `PartSink.part`; None if this only marks a barrier.
    work_done : float
        Share of the whole work that is finished with it.
    remaining : tuple of Task or None
        As in a block that marks a barrier.
    """

    n: int
    made: Any
    work_done: float = 0.0
    remaining: tuple[Task, ...] | None = None

    def __len__(self) -> int:
        return self.n

    def first(self, n: int) -> Part:
        """All of it, or nothing: a part cannot be cut. An empty part has no `made`, which is taken over once."""
        assert n in (0, self.n)
        return self if n else replace(self, n=0, made=None)
