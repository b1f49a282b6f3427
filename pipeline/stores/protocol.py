"""What a place of published runs is asked: `RunStore` answers for directories, `RemoteStore` for addresses.

Runs are paths of this machine. Those at an address are copies, in which the files are that somebody asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mbe_stage.pipeline.publish.staging import KEPT_DAYS

if TYPE_CHECKING:
    from mbe_stage.pipeline.publish.staging import Staging

__all__ = ["ABANDONED_AFTER", "Store"]

ABANDONED_AFTER = timedelta(days=1)
"""An upload to which nothing was added for so long has no writer any more."""


class Store(Protocol):
    """An output directory: published runs, the latest of them, and room for the next."""

    @property
    def address(self) -> str:
        """What the user calls it."""

    @property
    def directory(self) -> Path:
        """Where rooms for new runs are made."""

    def check_writable(self) -> None:
        """Refuse early, before any work, what `Staging.publish` would refuse."""

    def check_listed(self) -> None:
        """Refuse what is no output directory."""

    def begin(self, kept_days: float = KEPT_DAYS, room: Path | None = None) -> Staging:
        """Room for a new run, or one of `unfinished` to go on with, made when its context is entered."""

    def unfinished(self) -> list[Path]:
        """The rooms of runs that can be gone on with, the newest last; none where nothing is kept."""

    def clean(self) -> list[str]:
        """Remove what runs that were ended early have left, and nobody is writing; gives what was removed."""

    def latest(self) -> Path | None:
        """The run published last, with its manifest; or None."""

    def runs(self) -> list[Path]:
        """Every published run in the order of publication: the newest is the last."""

    def directories(self) -> list[Path]:
        """Every place where a published run is, in the same order, with its manifest unless it has lost that."""

    def close(self) -> None:
        """Remove copies of runs that are on this machine for the store's sake; nothing is asked of it afterwards."""

    def opened(self, run: Path) -> Path:
        """A run of `runs`, with its manifest."""

    def whole(self, run: Path) -> Path:
        """A run of `runs`, with all of its files."""

    def with_files(self, run: Path, names: Sequence[str]) -> Path:
        """A run of `runs`, with its files of these names, and perhaps no others."""

    def sizes(self, run: Path) -> Callable[[str], int | None]:
        """What says how many bytes a file of a run has, by its path within; None where it is not there."""
