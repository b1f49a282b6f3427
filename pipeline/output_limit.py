"""How many bytes of rows a run may write before it ends: looked at while it grows."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from pipeline.config import Config
from pipeline.journal import Journal
from pipeline.stored_parts import stored_bytes

__all__ = ["bytes_below", "output_limit"]

_LOOK_SECONDS = 0.2


def output_limit(config: Config, run_path: Path, journal: Journal | None) -> Callable[[], str | None]:
    """What says why a run has to end, once its files have as many bytes as ``execution.max_output_bytes``.

    Parameters
    ----------
    config : Config
    run_path : Path
        The run as it grows, sorted spills of it, what workers write beside it and what of it is in a store
        already among what is counted.
    journal : Journal or None
        Where there is one, the spills are beside the run.
    """
    most = config.execution.max_output_bytes
    if most is None:
        return lambda: None
    directories = [run_path, *([] if journal is None else [journal.room / "sort"])]
    looked_at, reason = -_LOOK_SECONDS, None

    def look() -> str | None:
        nonlocal looked_at, reason
        now = time.monotonic()
        if reason is None and now - looked_at >= _LOOK_SECONDS:
            looked_at = now
            of_workers = run_path.parent.glob(f"{run_path.name}.*.parts")
            if sum(map(bytes_below, (*directories, *of_workers))) + stored_bytes(run_path) >= most:
                reason = f"stopped at max_output_bytes = {most}"
        return reason

    return look


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
