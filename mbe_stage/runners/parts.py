"""Parts: results that workers store themselves, so that only a summary is sent.

Each lease gives one whole part or none: the results below its roots. Only the caller of the search knows its form.

If a worker cannot store a part (`PartFailed`), the search continues: the lease is given back, and the worker sends its
results from then on. The maker of parts decides which failures concern one worker only. Other errors end the search.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from mbe_stage.options import Execution
from mbe_stage.tasks import Task


class PartFailed(Exception):
    """A worker cannot store a part, but others may. The message is one line for the user."""


class PartSink(Protocol):
    """Takes in the blocks of one lease, in a worker process."""

    @property
    def is_full(self) -> bool:
        """True if it holds so much that the lease should end; begun roots are finished, and no others begin."""

    def accept(self, block: Any) -> None:
        """Take one block in; its arrays may be kept."""

    def part(self) -> tuple[Any, int]:
        """Return a small summary of the results, and the bytes stored; call it after leaving the context."""


class PartMaker(Protocol):
    """Makes parts. Every worker gets a pickled copy before its first lease."""

    def prove(self) -> Any:
        """Return a proof, made in a worker, that lets `proven` check that this worker's files can be found."""

    def proven(self, proofs: Mapping[str, Any]) -> Set[str]:
        """Return the workers that may make parts, by their proofs; called in the main process."""

    def what_is_sent(self, proof: Any) -> str:
        """Return, as a sentence for the user, why a worker may not make parts, and what happens instead."""

    def open(self, name: str, execution: Execution, proof: Any) -> AbstractContextManager[PartSink]:
        """Open the sink of a lease in a worker; `name` is unique. Its files go to the place shown by `proof`.

        If the context is left with an error, the files are useless.

        Raises
        ------
        PartFailed
            This worker cannot store the part. Leaving the context and `PartSink.accept` may raise it too.
        """


@dataclass(frozen=True, slots=True)
class Part:
    """A part, in place of the blocks of a lease (`mbe_stage.stream.Block`).

    Attributes
    ----------
    n : int
        Number of results in it.
    made : optional
        Result of `PartSink.part`; None if this object only marks a barrier.
    work_done : float
        Share of the whole work finished with it.
    remaining : tuple of Task or None
        Remaining tasks if it marks a barrier, as in a block.
    """

    n: int
    made: Any
    work_done: float = 0.0
    remaining: tuple[Task, ...] | None = None

    def __len__(self) -> int:
        return self.n

    def first(self, n: int) -> Part:
        """Return the whole part, or an empty one without `made`: a part cannot be cut."""
        assert n in (0, self.n)
        return self if n else replace(self, n=0, made=None)
