"""What a runner hands on while nothing comes: nobody takes it in, but limits are looked at, and progress is told."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Waiting"]


@dataclass(frozen=True, slots=True)
class Waiting:
    """No results (`mbe_stage.stream.Block`), of any problem.

    Attributes
    ----------
    work_done : float
        Share of the whole work that is finished.
    """

    work_done: float = 0.0

    def __len__(self) -> int:
        return 0

    def first(self, n: int) -> Waiting:  # noqa: ARG002 - the seam's signature
        """Nothing of it."""
        return self
