"""Write results outside of the runs to a new or empty directory, completely or not at all."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.publish.run_files import as_publish_errors
from mbe_stage.pipeline.publish.run_store import refuse_among_published
from mbe_stage.pipeline.publish.staging import synced_beside

_NOTHING = "nothing was written"


def check_free(directory: Path) -> None:
    """Refuse early a directory that `new_directory` would refuse."""
    refuse_among_published(directory)
    with as_publish_errors(directory, _NOTHING):
        if directory.is_symlink() or (directory.exists() and not directory.is_dir()):
            raise PublishError(f"{directory}: is not a directory; expected a new or empty one; name another")
        if directory.is_dir() and any(directory.iterdir()):
            raise PublishError(f"{directory}: is not empty; expected a new or empty directory; name another")
        directory.absolute().parent.mkdir(parents=True, exist_ok=True)
        if not os.access(directory.absolute().parent, os.W_OK | os.X_OK):
            raise PublishError(f"{directory.absolute().parent}: is not writable for this user; {_NOTHING}")


@contextmanager
def new_directory(directory: str | Path, summary: Mapping[str, Any] | None = None) -> Iterator[Path]:
    """Yield a directory to write into; at the end it moves to `directory` in one step, with its ``summary.json``."""
    directory = Path(directory)
    check_free(directory)
    growing = directory.absolute().parent / f".{directory.absolute().name}.{secrets.token_hex(4)}"
    with as_publish_errors(directory, _NOTHING):
        try:
            growing.mkdir()
            yield growing
            if summary is not None:
                text = json.dumps(summary, indent=2, ensure_ascii=False) + "\n"
                (growing / "summary.json").write_text(text, encoding="utf-8")
            with synced_beside(growing):
                pass
            os.rename(growing, directory)
        finally:
            if growing.exists():
                shutil.rmtree(growing)
