"""What workers make of results where they find them, so that what is made of them travels, and not they themselves.

A lease is the unit: what was found below its roots becomes one part, whole, or none at all. What a part is, whoever
asks for the search knows, and nobody here.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from mbe_stage.options import Execution
from mbe_stage.tasks import Task

__all__ = ["Part", "PartMaker", "PartSink"]


class PartSink(Protocol):
    """Takes in the blocks of one lease, in a worker."""

    def accept(self, block: Any) -> None:
        """Take one block in; its arrays may be kept."""

    def part(self) -> tuple[Any, int]:
        """What is brought back of them, small, and how many bytes are kept elsewhere; once the context was left."""


class PartMaker(Protocol):
    """How parts are made; every worker is sent one, pickled, before its first lease."""

    def prove(self) -> Any:
        """In a worker: something by which `is_proven` knows that what this worker keeps will be found."""

    def is_proven(self, proof: Any) -> bool:
        """In the process that asks for the search: whether a worker may make parts, by what it has answered."""

    def what_is_sent(self, proof: Any) -> str:
        """Why a worker may not, and what is done in place of it, a sentence for people."""

    def open(self, name: str, execution: Execution, proof: Any) -> AbstractContextManager[PartSink]:
        """In a worker: the sink of a lease, whose name no other has; it keeps things where `proof` was found.

        Left with an error, what it has kept is of no use to anybody.
        """


@dataclass(frozen=True, slots=True)
class Part:
    """What stands for the blocks of a lease (`mbe_stage.stream.Block`).

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
