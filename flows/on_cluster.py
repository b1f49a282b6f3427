"""`enumerate-on-cluster`: the flow of `flows.enumerate` with a Dask cluster, for deployments.

It uses the cluster at ``DASK_SCHEDULER_ADDRESS``. Without one, each run starts private worker processes on its machine
(`mbe_stage.runners.clusters`). The cluster that `DaskTaskRunner` itself starts would be open to all local users.
"""

from __future__ import annotations

import os

from prefect_dask import DaskTaskRunner

from mbe_stage.flows.enumerate import enumerate_bicliques_flow

__all__ = ["enumerate_on_cluster_flow"]

_address = os.environ.get("DASK_SCHEDULER_ADDRESS")
enumerate_on_cluster_flow = enumerate_bicliques_flow.with_options(
    name="enumerate-on-cluster", task_runner=DaskTaskRunner(address=_address) if _address else None
)
