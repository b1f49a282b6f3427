"""Steps of reading within a memory budget that are kept for `--resume`, in the staging directory of the run.

The header of the journal lists them. They count only while nobody has written to the files of the input: a write
changes the time of the last change of status, which nobody can set.
"""

from __future__ import annotations

import functools
import logging
import os
import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa

from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.backends.arrow.spooled import SavedState, Spooled, Unsaved
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.execution.journal import Journal, Record, SavedReading, SavedStep, damage_of, read_journal
from mbe_stage.pipeline.execution.unfinished import header_of
from mbe_stage.pipeline.problems.installed import publication_of
from mbe_stage.pipeline.publish.manifest import FileEntry, file_entry
from mbe_stage.pipeline.publish.run_files import JOURNAL_NAME, as_publish_errors, refuse_other_than_directory, sync

log = logging.getLogger(__name__)


def steps_of_reading(config: Config, staging_dir: Callable[[], Path], *, is_resumed: bool) -> Unsaved:
    """Return the saved steps of a run's reading.

    Parameters
    ----------
    staging_dir : callable
        Returns `Staging.path.parent`, held by this process; called before steps are loaded or saved.
    is_resumed : bool
        True if an earlier process may have saved steps.
    """
    if config.output.checkpoint_seconds is None or not publication_of(config.problem).is_resumable:
        return Unsaved()
    return _Saved(config, staging_dir, config.output.checkpoint_seconds, is_resumed)


class _Saved(Unsaved):
    def __init__(self, config: Config, staging_dir: Callable[[], Path], seconds: float, is_resumed: bool) -> None:
        self._config, self._staging_dir, self._is_resumed = config, staging_dir, is_resumed
        self._due, self._files, self._read = time.monotonic() + seconds, list[Path](), list[str]()

    def begin(self, files: Sequence[Path]) -> None:
        self._files, self._read = list(files), _seen(files)

    def load(self, step: str, restore: Callable[[SavedState], Any]) -> Any:
        if not self._is_resumed:
            return None
        staging_dir = self._staging_dir()
        reading = read_journal(staging_dir)[0].reading
        if reading is None or step not in reading.steps or reading.read != self._read:
            return None
        saved = reading.steps[step]
        with ThreadPoolExecutor(4) as pool:
            damages = list(pool.map(functools.partial(damage_of, staging_dir), filter(None, saved.files)))
        try:
            if any(damages):
                raise ValueError(next(filter(None, damages)))
            arrays = [entry and _column(staging_dir / entry.path) for entry in saved.files]
            restored = restore(SavedState(arrays, saved.facts))
        except (KeyError, TypeError, ValueError, OSError) as error:
            log.warning("%s: the saved %s cannot be used and are made again (%s)", staging_dir, step, error)
            return None
        log.info("resumed with the saved %s of the input", step)
        return restored

    def save(self, step: str, state: SavedState) -> None:
        if time.monotonic() < self._due or _seen(self._files) != self._read:
            return
        staging_dir = self._staging_dir()
        directory = staging_dir / "read"
        with run_state.at_part(f"saving {step} for --resume"), as_publish_errors(directory):
            refuse_other_than_directory(directory)
            directory.mkdir(exist_ok=True)
            files = [None if of is None else _written(staging_dir, directory, of) for of in state.arrays]
            sync(directory)
            header, records = header_of(self._config, str(self._files[0]), ""), list[Record]()
            if (staging_dir / JOURNAL_NAME).exists():
                header, records = read_journal(staging_dir)
            earlier = header.reading.steps if header.reading and header.reading.read == self._read else {}
            steps = {**earlier, step: SavedStep(facts=state.facts, files=files)}
            changed = {"reading": SavedReading(read=self._read, steps=steps)}
            journal = Journal(staging_dir, header.model_copy(update=changed), records)
            journal.write()
            for path in {*header.files_in(staging_dir)} - {*journal.header.files_in(staging_dir)}:
                path.unlink(missing_ok=True)


def _seen(files: Sequence[Path]) -> list[str]:
    """Return text for each file that changes when the file is written or replaced."""
    return [f"{of.st_dev}-{of.st_ino}-{of.st_size}-{of.st_mtime_ns}-{of.st_ctime_ns}" for of in map(os.stat, files)]


def _column(path: Path) -> pa.ChunkedArray:
    """Return the column of a file, as a view of it."""
    column = pa.ipc.open_file(pa.memory_map(str(path))).read_all().column(0)
    column.validate(full=True)
    return column


def _written(staging_dir: Path, directory: Path, array: Any) -> FileEntry:
    """Write an array into a file of its own."""
    path = directory / f"{secrets.token_hex(8)}.arrow"
    parts, kind = (array.parts(), array.read(0, 0)) if isinstance(array, Spooled) else ([array], array[:0])
    schema = pa.schema([("", pa.array(kind).type)])
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for part in parts:
            writer.write_batch(pa.record_batch([pa.array(part)], schema))
    sync(path)
    return file_entry(staging_dir, path)
