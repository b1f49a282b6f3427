"""How many bytes of rows a run may write before it ends: looked at while it grows."""

from __future__ import annotations

import time
from pathlib import Path

from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.execution.journal import Journal
from mbe_stage.pipeline.publish.stored_parts import stored_bytes

__all__ = ["OutputLimit", "bytes_below", "output_limit"]

_LOOK_SECONDS = 0.2


class OutputLimit:
    """Says why a run has to end, once its files have so many bytes.

    Parameters
    ----------
    most : int or None
        None is no limit.
    run_path : Path
        The run as it grows; what workers write beside it, and what of it is in a store already, is among what counts.
    *directories : Path
        What else is.
    """

    def __init__(self, most: int | None, run_path: Path, *directories: Path) -> None:
        self._most, self._run_path, self._directories = most, run_path, (run_path, *directories)
        self._looked_at = -_LOOK_SECONDS
        self._n_bytes = 0
        self._n_before: int | None = None

    def __call__(self) -> str | None:
        """Why the run has to end; once that is so it stays so."""
        if self._most is None:
            return None
        self._look()
        return f"stopped at max_output_bytes = {self._most}" if self._n_bytes >= self._most else None

    def share(self) -> float:
        """Of the bytes that were left when this was asked first, which earlier processes had not written."""
        if self._most is None:
            return 0.0
        self._look()
        n_before = self._n_before or 0
        return (self._n_bytes - n_before) / max(1, self._most - n_before)

    def _look(self) -> None:
        now = time.monotonic()
        is_over = self._most is not None and self._n_bytes >= self._most
        if is_over or now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = now
        of_workers = self._run_path.parent.glob(f"{self._run_path.name}.*.parts")
        self._n_bytes = sum(map(bytes_below, (*self._directories, *of_workers))) + stored_bytes(self._run_path)
        self._n_before = self._n_bytes if self._n_before is None else self._n_before


def output_limit(config: Config, run_path: Path, journal: Journal | None) -> OutputLimit:
    """The limit ``execution.max_output_bytes`` of a run; asked first before it writes anything.

    Parameters
    ----------
    run_path : Path
        As of `OutputLimit`; sorted spills of it are among what is counted.
    journal : Journal or None
        Where there is one, the spills are beside the run.
    """
    limit = OutputLimit(
        config.execution.max_output_bytes, run_path, *([] if journal is None else [journal.room / "sort"])
    )
    limit.share()
    return limit


def bytes_below(directory: Path) -> int:
    """Of all files below a directory, which come and go meanwhile."""
    n_bytes = 0
    for path in directory.rglob("*"):
        try:
            n_bytes += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            # A spill that was read back, or what a worker wrote and was moved.
            continue
    return n_bytes
