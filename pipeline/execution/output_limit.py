"""The limit on the bytes of rows that a run writes, checked while it grows."""

from __future__ import annotations

import time
from pathlib import Path

from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.execution.journal import Journal
from mbe_stage.pipeline.publish.stored_parts import stored_bytes

_LOOK_SECONDS = 0.2


class OutputLimit:
    """A callable that returns the reason to stop once the files reach the limit.

    Parameters
    ----------
    most : int or None
        None means no limit.
    run_path : Path
        The growing run; parts that workers write beside it, and parts already in a store, count too.
    *directories : Path
        More directories to count.
    """

    def __init__(self, most: int | None, run_path: Path, *directories: Path) -> None:
        self._most, self._run_path, self._directories = most, run_path, (run_path, *directories)
        self._looked_at = -_LOOK_SECONDS
        self._n_bytes = 0
        self._n_before: int | None = None

    def __call__(self) -> str | None:
        """Return the reason to stop, or None; once there is a reason, it stays."""
        if self._most is None:
            return None
        self._look()
        return f"stopped at max_output_bytes = {self._most}" if self._n_bytes >= self._most else None

    def share(self) -> float:
        """Return the share used of the bytes that earlier processes had left at the first call."""
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
    """Return the limit ``execution.max_output_bytes`` of a run; call it before the run writes anything.

    Parameters
    ----------
    run_path : Path
        See `OutputLimit`; its sorted spills count too.
    journal : Journal or None
        With a journal, the spills are beside the run.
    """
    limit = OutputLimit(
        config.execution.max_output_bytes, run_path, *([] if journal is None else [journal.staging_dir / "sort"])
    )
    limit.share()
    return limit


def bytes_below(directory: Path) -> int:
    """Return the bytes of all files below a directory; files may come and go meanwhile."""
    n_bytes = 0
    for path in directory.rglob("*"):
        try:
            n_bytes += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            # A spill was read back, or a worker's file was moved.
            continue
    return n_bytes
