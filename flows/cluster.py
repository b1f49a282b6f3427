"""Use the Dask cluster of a flow's task runner (`prefect-dask`) for the search, unless the configuration names one.

The tasks still run one after another in the flow's process, which holds the staging lock. Workers share the search
within the task `enumerate`.
"""

from __future__ import annotations

from typing import Any

from prefect.context import FlowRunContext

from mbe_stage.pipeline.config.model import Config

__all__ = ["with_cluster_of_flow"]


def with_cluster_of_flow(config: Config) -> Config:
    """Return the configuration with the scheduler's address of the flow's task runner, if that has a Dask cluster.

    Applies with ``execution.runner: dask`` and neither ``execution.cluster`` nor ``execution.workers``.
    """
    execution = config.execution
    if execution.runner != "dask" or execution.cluster is not None or execution.workers is not None:
        return config
    address = _address(getattr(FlowRunContext.get(), "task_runner", None))
    if address is None:
        return config
    return config.model_copy(update={"execution": execution.model_copy(update={"cluster": address})})


def _address(task_runner: Any) -> str | None:
    # A task runner without a client has no cluster. A `DaskTaskRunner` opens its client at first use.
    client = getattr(task_runner, "client", None)
    return None if client is None else str(client.scheduler.address)
