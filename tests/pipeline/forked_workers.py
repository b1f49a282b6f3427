"""Clusters whose nannies fork workers from a process with everything loaded, instead of starting each from scratch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import dask

__all__ = ["workers_are_forked"]

LOADED = "tests.pipeline.loaded_by_workers"


@contextmanager
def workers_are_forked() -> Iterator[None]:
    """Fork workers within this context; keep it open as long as the cluster, since nannies restart workers."""
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        # After Dask has set its own list, which it does once.
        import_module("distributed.utils").get_mp_context().set_forkserver_preload([LOADED])
        yield
