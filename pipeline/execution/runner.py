"""Who does the work of a run: this process, GPUs of this machine, or a Dask cluster that is opened for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mbe_stage.engines import choose_engine
from mbe_stage.options import Runner
from mbe_stage.pipeline.config.model import ExecutionConfig
from mbe_stage.runners.clusters import dask_cluster
from mbe_stage.runners.devices import DeviceRunner

__all__ = ["opened_runner"]


@contextmanager
def opened_runner(execution: ExecutionConfig, problem: str, engine: str) -> Iterator[Runner | None]:
    """The runner that is asked for, None where that is this process; of processes of this machine one a GPU for `cuda`.

    Parameters
    ----------
    problem, engine : str
        Whose tasks it will do, and with what: ``auto`` is ``cuda`` where that runs here.

    Raises
    ------
    EngineUnavailable
        The engine cannot run here, Dask is not installed, or dask-cuda where a worker for each GPU is to be made.
    ClusterLost
        No scheduler is at the address.
    """
    if execution.devices is not None:
        yield DeviceRunner(execution.devices)
        return
    if execution.runner == "local":
        yield None
        return
    if execution.cluster is not None:
        with dask_cluster(execution.cluster) as runner:
            yield runner
        return
    name, _ = choose_engine(problem, engine)
    loaded = problem if name == "cpu" else None
    workers, threads = execution.workers, execution.threads or None
    with dask_cluster(workers=workers, threads=threads, gpus=name == "cuda", problem=loaded) as runner:
        yield runner
