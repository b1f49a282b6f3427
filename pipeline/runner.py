"""Who does the work of a run: this process, GPUs of this machine, or a Dask cluster that is opened for it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from mbe_stage.options import Runner
from mbe_stage.runners.dask_runner import DaskRunner, dask_cluster
from mbe_stage.runners.devices import DeviceRunner
from pipeline.config import ExecutionConfig

__all__ = ["opened_runner"]

log = logging.getLogger(__name__)


@contextmanager
def opened_runner(execution: ExecutionConfig) -> Iterator[Runner | None]:
    """The runner that is asked for, None where that is this process; what each worker did is logged in the end.

    Raises
    ------
    EngineUnavailable
        Dask is not installed.
    ClusterLost
        No scheduler is at the address.
    """
    if execution.devices is not None:
        devices = DeviceRunner(execution.devices)
        yield devices
        _log(devices)
        return
    if execution.runner == "local":
        yield None
        return
    threads = execution.threads or None if execution.cluster is None else None
    with dask_cluster(execution.cluster, workers=execution.workers, threads=threads) as cluster:
        yield cluster
        _log(cluster)


def _log(runner: DaskRunner | DeviceRunner) -> None:
    """What each worker or device did."""
    for rank, busy in zip(runner.ranks, runner.busy, strict=True):
        log.info(
            "worker %s: %s results, %s bytes, %d leases, busy %.2f of %.1f s",
            rank.address,
            f"{rank.n_found:,}",
            f"{rank.n_bytes:,}",
            rank.n_leases,
            busy,
            runner.seconds,
        )
