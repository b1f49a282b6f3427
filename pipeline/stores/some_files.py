"""Files of a published run that are needed here: some of them, or all, fetched where they are not here yet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipeline.manifest import Manifest
from pipeline.publish import as_publish_errors
from pipeline.stores.failures import as_store_publish_errors
from pipeline.stores.layout import RUNS
from pipeline.stores.protocol import Store

__all__ = ["whole_run", "with_files"]


def whole_run(store: Store | None, run: Path, manifest: Manifest) -> Path:
    """A run with all files of its manifest; a store is asked only where one is not here.

    Raises
    ------
    PublishError
        They cannot be read.
    """
    is_whole = all((run / entry.path).exists() for entry in manifest.files)
    return run if store is None or is_whole else store.whole(run)


def with_files(store: Store, run: Path, names: Sequence[str]) -> Path:
    """A run with its files of these names, and perhaps no others.

    Raises
    ------
    PublishError
        One is not there, cannot be read, or this disk is full.
    """
    from pipeline.stores.remote_store import RemoteStore

    if isinstance(store, RemoteStore):
        size_of = store.sizes(run)
        missing = {
            f"{RUNS}/{run.name}/{name}": run / name
            for name in names
            if not ((run / name).exists() and (run / name).stat().st_size == size_of(name))
        }
        outcome = "nothing was changed"
        with as_publish_errors(run, outcome), as_store_publish_errors(outcome):
            store.objects.download(missing)
    return run
