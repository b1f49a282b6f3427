"""Open stores, published runs and inputs by path or address."""

from __future__ import annotations

import glob
import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mbe_stage.errors import StageError
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.publish import run_store
from mbe_stage.pipeline.stores.address import STANDARD_INPUT, is_address, parse_address, place_of

if TYPE_CHECKING:
    from mbe_stage.pipeline.publish.manifest import Manifest
    from mbe_stage.pipeline.publish.staging import Store

_LATEST = "latest"
log = logging.getLogger(__name__)


def store_at(directory: str | Path) -> Store:
    """Return the store of an output directory, on this machine or at an address.

    Raises
    ------
    ConfigError
        The address cannot be used, or its package is not installed.
    """
    place = place_of(directory)
    if not is_address(place):
        return run_store.RunStore(place)
    from mbe_stage.pipeline.stores.remote_store import RemoteStore

    return RemoteStore(str(place))


@contextmanager
def opened_run(place: str | Path, *, may_be_odd: bool = False) -> Iterator[Path]:
    """Open a published run during the context; a run at an address is copied to this machine completely.

    Errors within the context name the address.

    Parameters
    ----------
    place : path or str
        A run, or an output directory for its latest run; or an address of either.
    may_be_odd : bool
        See `pipeline.publish.run_store.resolve_run`.

    Raises
    ------
    PublishError
        There is no run, or it cannot be copied.
    """
    place = place_of(place)
    if not is_address(place):
        yield run_store.resolve_run(place, may_be_odd=may_be_odd)
        return
    from mbe_stage.pipeline.stores.remote_store import RemoteStore, found_run

    address, name = found_run(str(place))
    store = RemoteStore(address)
    try:
        yield store.with_source(store.whole(store.run_called(name)))
    except StageError as error:
        store.copies.naming(error)
        raise
    finally:
        store.copies.close()


@contextmanager
def kept_if_done(store: Store) -> Iterator[None]:
    """Close a store if the work within fails; on success, the result keeps the store."""
    try:
        yield
    except BaseException:
        store.close()
        raise


@contextmanager
def opened_runs(old: str | Path, new: str | Path) -> Iterator[tuple[str | Path, str | Path]]:
    """Open two runs, each as `opened_run`; ``latest`` is the latest run next to the other, unless such a file exists.

    Yields
    ------
    path
        Path of each run, or the word ``latest`` next to a run on this machine, which
        `pipeline.views.diff.job.resolve_both` resolves.
    """
    old, new = place_of(old), place_of(new)
    both = [_beside(old, new), _beside(new, old)]
    with ExitStack() as ends:
        yield tuple(ends.enter_context(opened_run(each)) if is_address(each) else each for each in both)  # type: ignore[misc]


def whole_run(store: Store | None, run: Path, manifest: Manifest) -> Path:
    """Return a run with all files of its manifest; missing ones are fetched from its store.

    Raises
    ------
    PublishError
        They cannot be read.
    """
    is_whole = all((run / entry.path).exists() for entry in manifest.files)
    return run if store is None or is_whole else store.whole(run)


def holds_runs(place: str) -> bool:
    """Return whether a place is a published run or an output directory with one.

    A directory of other Parquet files is neither.

    Raises
    ------
    ConfigError
        It is an address that cannot be used.
    """
    place = place_of(place)
    if is_address(place):
        from mbe_stage.pipeline.stores.remote_store import RemoteStore, without_latest

        # Each check would be a request to a server without runs.
        if parse_address(place).is_http:
            return False
        is_pointer = without_latest(place) != place.rstrip("/")
        store = RemoteStore(without_latest(place))
        try:
            with store.copies:
                if is_pointer:
                    return store.latest() is not None
                return store.is_run() or store.latest() is not None or bool(store.runs())
        except PublishError:
            # The reader of the input reports the problem in better words.
            return False
    path = Path(place)
    if not path.is_dir():
        return False
    store_here = run_store.RunStore(path)
    try:
        return (path / run_store.MANIFEST_NAME).is_file() or store_here.latest() is not None or bool(store_here.runs())
    except PublishError:
        # Links of these names in an unrelated directory.
        return False


def _beside(name: str | Path, other: str | Path) -> str | Path:
    """Resolve ``latest`` next to an address."""
    if str(name) != _LATEST or Path(name).exists() or not is_address(other):
        return name
    from mbe_stage.pipeline.stores.remote_store import found_run

    try:
        return found_run(str(other))[0]
    except PublishError:
        return name


def is_there(place: str | Sequence[str]) -> bool:
    """Return whether a place exists; if it cannot be reached, log a warning and return False.

    All of several places must exist. Standard input does not exist any more: it was read once.
    """
    if not isinstance(place, str):
        return all(map(is_there, place))
    try:
        place = place_of(place)
        if not is_address(place):
            return place != STANDARD_INPUT and (Path(place).exists() or bool(glob.glob(place, recursive=True)))
        from mbe_stage.pipeline.stores.inputs import something_is_at

        return something_is_at(place)
    except StageError as error:
        log.warning("%s", error)
        return False


def was_in_memory(source: str) -> bool:
    """Return whether an input was a Python object, by its name in a manifest (``memory:pandas``)."""
    return source.startswith("memory:") and not is_address(source)
