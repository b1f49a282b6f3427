"""The runner of a search: this process, GPUs of this machine, or a Dask cluster opened for it."""

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
    """Open the configured runner; None for this process. For `cuda`, local workers run one process per GPU.

    Parameters
    ----------
    problem, engine : str
        The problem and engine to run; ``auto`` is ``cuda`` if that runs here.

    Raises
    ------
    EngineUnavailable
        The engine cannot run here, Dask is not installed, or dask-cuda is missing for a worker per GPU.
    ClusterLost
        There is no scheduler at the address.
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
