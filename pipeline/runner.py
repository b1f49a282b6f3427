"""Who does the work of a run: this process, GPUs of this machine, or a Dask cluster that is opened for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mbe_stage.options import Runner
from mbe_stage.runners.dask_runner import dask_cluster
from mbe_stage.runners.devices import DeviceRunner
from pipeline.config import ExecutionConfig

__all__ = ["opened_runner"]


@contextmanager
def opened_runner(execution: ExecutionConfig) -> Iterator[Runner | None]:
    """The runner that is asked for, None where that is this process.

    Raises
    ------
    EngineUnavailable
        Dask is not installed.
    ClusterLost
        No scheduler is at the address.
    """
    if execution.devices is not None:
        yield DeviceRunner(execution.devices)
        return
    if execution.runner == "local":
        yield None
        return
    threads = execution.threads or None if execution.cluster is None else None
    with dask_cluster(execution.cluster, workers=execution.workers, threads=threads) as runner:
        yield runner
