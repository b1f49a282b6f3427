"""Steps of reading within a memory budget that are saved for `--resume`, in the staging directory of the run.

The header of the journal lists them. They count for the same settings of the input, and while the status of its files
is the same: a write or a replacement changes inode, size or the times of the last changes.
"""

from __future__ import annotations

import logging
import math
import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.backends.arrow.spooled import ReadingSteps, SavedState, Spooled
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.execution.journal import VERSION, Journal, SavedStep, damage_of, read_journal
from mbe_stage.pipeline.execution.unfinished import header_of
from mbe_stage.pipeline.problems.installed import publication_of
from mbe_stage.pipeline.publish.manifest import FileEntry, file_entry
from mbe_stage.pipeline.publish.run_files import JOURNAL_NAME, refuse_other_than_directory, sync

log = logging.getLogger(__name__)


class SavedSteps(ReadingSteps):
    """The steps of a run's reading, saved once `output.checkpoint_seconds` have gone by.

    `staging_dir` is called when it is needed, and returns `Staging.path.parent`, held by this process. If the run is
    resumed, an earlier process may have saved steps.
    """

    def __init__(self, config: Config, staging_dir: Callable[[], Path], *, is_resumed: bool) -> None:
        self._config, self._staging_dir, self._is_resumed = config, staging_dir, is_resumed
        seconds = config.output.checkpoint_seconds if publication_of(config.problem).is_resumable else None
        self._due = time.monotonic() + (math.inf if seconds is None else seconds)
        self._seen: Callable[[], list[str]] = list
        self._read = list[str]()

    def begin(self, files: Callable[[], Sequence[Path]], settings: str) -> None:
        """Implement `ReadingSteps.begin`."""
        # Files may appear between listing and reading, so they are listed again before a step is saved.
        self._seen = lambda: [settings, *map(_status, files())]
        self._read = self._seen()

    def load(self, step: str, restore: Callable[[SavedState], Any]) -> Any:
        """Implement `ReadingSteps.load`."""
        if not self._is_resumed or not ((staging_dir := self._staging_dir()) / JOURNAL_NAME).exists():
            return None
        saved = read_journal(staging_dir)[0].reading.get(step)
        if saved is None or saved.read != self._read:
            return None

        def opened(entry: FileEntry | None) -> pa.RecordBatchFileReader | None:
            if entry is not None and (damage := damage_of(staging_dir, entry)) is not None:
                raise ValueError(damage)
            return entry and pa.ipc.open_file(pa.OSFile(str(staging_dir / entry.path)))

        try:
            with ThreadPoolExecutor(4) as pool:
                arrays = list(pool.map(opened, saved.files))
            restored = restore(SavedState(arrays, saved.facts))
        except Exception as error:  # noqa: BLE001 - files in a shared directory may be anything
            reason = str(error).partition("\n")[0]
            log.warning("%s: the saved %s cannot be used and are made again (%s)", staging_dir, step, reason)
            return None
        log.info("resumed with the saved %s of the input", step)
        return restored

    def save(self, step: str, state: SavedState) -> None:
        """Implement `ReadingSteps.save`."""
        if time.monotonic() < self._due:
            return
        try:
            if self._seen() == self._read:
                with run_state.at_part(f"saving {step} for --resume"):
                    self._write(step, state)
        except OSError as error:
            log.warning("the %s of the input are not saved for --resume (%s)", step, error)

    def _write(self, step: str, state: SavedState) -> None:
        staging_dir = self._staging_dir()
        directory = staging_dir / "read"
        refuse_other_than_directory(directory)
        directory.mkdir(exist_ok=True)
        with ExitStack() as undo:
            paths = [None if of is None else directory / f"{secrets.token_hex(8)}.arrow" for of in state.arrays]
            for path in filter(None, paths):
                undo.callback(path.unlink, missing_ok=True)
            files = [path and _written(staging_dir, path, of) for path, of in zip(paths, state.arrays, strict=True)]
            sync(directory)
            begun = (staging_dir / JOURNAL_NAME).exists()
            header, records = (
                read_journal(staging_dir) if begun else (header_of(self._config, str(self._config.input.path), ""), [])
            )
            reading = header.reading | {step: SavedStep(read=self._read, facts=state.facts, files=files)}
            changed = {"reading": reading, "version": VERSION}
            journal = Journal(staging_dir, header.model_copy(update=changed), records)
            journal.write()
            undo.pop_all()
        for path in {*header.files_in(staging_dir)} - {*journal.header.files_in(staging_dir)}:
            path.unlink(missing_ok=True)


def _status(file: Path) -> str:
    of = file.stat()
    return f"{of.st_dev}-{of.st_ino}-{of.st_size}-{of.st_mtime_ns}-{of.st_ctime_ns}"


def _written(staging_dir: Path, path: Path, array: Any) -> FileEntry:
    """Write an array into a file of its own."""
    parts, kind = (array.parts(), array.read(0, 0)) if isinstance(array, Spooled) else ([array], array[:0])
    schema = pa.schema([("", pa.array(kind).type)])
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for part in parts:
            writer.write_batch(pa.record_batch([pa.array(part)], schema))
    sync(path)
    return file_entry(staging_dir, path)
