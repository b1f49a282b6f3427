"""Cluster workers that do not see the directory of a run, like those of other hosts. Workers import this file."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Any

from dask.distributed import WorkerPlugin

from mbe_stage.pipeline.stores.failures import StoreFailure
from mbe_stage.pipeline.stores.objects import Objects

__all__ = ["FarWorkers", "allow_uploads", "refuse_uploads", "without_credentials"]

_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


class FarWorkers(WorkerPlugin):
    """Gives workers the environment for a store, and temporary directories of their own."""

    name = "far-workers"

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment

    def setup(self, worker: Any) -> None:  # noqa: ARG002 - the plugin's signature
        os.environ.update(self._environment)
        tempfile.tempdir = self._environment["TMPDIR"]
        if not hasattr(Path, "written_anywhere"):
            Path.written_anywhere = Path.write_text  # type: ignore[attr-defined]
            Path.write_text = elsewhere  # type: ignore[method-assign]


def elsewhere(path: Path, *given: Any, **beside: Any) -> int:
    if path.parent.name.endswith(".parts"):
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return path.written_anywhere(*given, **beside)  # type: ignore[attr-defined]


def without_credentials() -> None:
    for name in _CREDENTIALS:
        os.environ.pop(name, None)
    # Nothing listens at the address where the library then looks for the machine's credentials.
    os.environ["AWS_METADATA_ENDPOINT"] = "http://127.0.0.1:1"


_upload = Objects._upload


def refuse_uploads() -> None:
    """Refuse uploads, as if the worker had lost its permission; small objects are still written."""
    Objects._upload = _refused  # type: ignore[method-assign]


def allow_uploads() -> None:
    Objects._upload = _upload  # type: ignore[method-assign]


def _refused(objects: Objects, _path: Path, name: str, *_given: Any) -> None:
    raise StoreFailure(errno.EACCES, "access denied (403)", f"{objects.address}/{name}", "check the credentials")
