"""Clusters whose nannies fork workers from a process that has loaded everything, in the place of starting each anew."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import dask

__all__ = ["workers_are_forked"]

LOADED = "tests.pipeline.loaded_by_workers"


@contextmanager
def workers_are_forked() -> Iterator[None]:
    """While the context lasts: for a cluster as long as it has workers, as its nannies start others in its course."""
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        # Behind Dask's own list, which it sets once.
        import_module("distributed.utils").get_mp_context().set_forkserver_preload([LOADED])
        yield
