"""`enumerate-on-cluster`: the flow of `flows.enumerate` with a Dask cluster, for deployments.

The cluster is the one at ``DASK_SCHEDULER_ADDRESS``. Without it each run starts processes of its machine, which talk to
it alone (`mbe_stage.runners.clusters`); the cluster that `DaskTaskRunner` starts itself is open to all users there.
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
