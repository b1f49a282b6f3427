"""The Dask cluster of a flow's task runner (`prefect-dask`) does the search, where the configuration names no other.

The tasks themselves run one after another in the flow's process, which holds the staging lock; it is the search within
one of them that workers share ([scale.md](../docs/scale.md)).
"""

from __future__ import annotations

from typing import Any

from prefect.context import FlowRunContext

from mbe_stage.pipeline.config.model import Config

__all__ = ["with_cluster_of_flow"]


def with_cluster_of_flow(config: Config) -> Config:
    """The configuration with the scheduler's address of the flow's task runner, where that has a Dask cluster.

    Only with ``execution.runner: dask``, and neither ``execution.cluster`` nor ``execution.workers``.
    """
    execution = config.execution
    if execution.runner != "dask" or execution.cluster is not None or execution.workers is not None:
        return config
    address = _address(getattr(FlowRunContext.get(), "task_runner", None))
    if address is None:
        return config
    return config.model_copy(update={"execution": execution.model_copy(update={"cluster": address})})


def _address(task_runner: Any) -> str | None:
    # Whoever has no client has no cluster; that of a `DaskTaskRunner` is opened when it is first asked for.
    client = getattr(task_runner, "client", None)
    return None if client is None else str(client.scheduler.address)
