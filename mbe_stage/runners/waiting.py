"""Empty blocks that a runner yields while it waits, so that limits are checked and progress is reported."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EmptyBlock:
    """A block without results (`mbe_stage.stream.Block`), of any problem.

    Attributes
    ----------
    work_done : float
        Share of the whole work that is finished.
    """

    work_done: float = 0.0

    def __len__(self) -> int:
        return 0

    def first(self, n: int) -> EmptyBlock:  # noqa: ARG002 - the seam's signature
        """Return the block itself: it has no results."""
        return self
