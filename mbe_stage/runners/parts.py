"""Parts that workers make of their results, so that only a summary travels.

A lease is the unit: what was found below its roots becomes one part, whole, or none at all. What a part is, whoever
asks for the search knows, and nobody here.

A worker that cannot keep one (`PartFailed`) is no end of the search: its lease is given back, and from then on it sends
what it finds. Whoever makes parts decides what is a failure of one worker alone; what else is raised ends the search.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from mbe_stage.options import Execution
from mbe_stage.tasks import Task

__all__ = ["Part", "PartFailed", "PartMaker", "PartSink"]


class PartFailed(Exception):
    """A worker cannot keep a part, and others may; what it says is for people, and one line."""


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
        """In a worker: something by which `proven` knows that what this worker keeps will be found."""

    def proven(self, proofs: Mapping[str, Any]) -> Set[str]:
        """In the process that asks for the search: the workers that may make parts, by what each has answered."""

    def what_is_sent(self, proof: Any) -> str:
        """Why a worker may not, and what is done in place of it, a sentence for people."""

    def open(self, name: str, execution: Execution, proof: Any) -> AbstractContextManager[PartSink]:
        """In a worker: the sink of a lease, whose name no other has; it keeps things where `proof` was found.

        Left with an error, what it has kept is of no use to anybody.

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
        What `PartSink.part` gave; None where this only marks a barrier.
    work_done : float
        Share of the whole work that is finished with it.
    remaining : tuple of Task or None
        As of a block that marks a barrier.
    """

    n: int
    made: Any
    work_done: float = 0.0
    remaining: tuple[Task, ...] | None = None

    def __len__(self) -> int:
        return self.n

    def first(self, n: int) -> Part:
        """Nothing of it, or all: no part can be cut. Nothing has not `made` either, which is taken over once."""
        assert n in (0, self.n)
        return self if n else replace(self, n=0, made=None)
