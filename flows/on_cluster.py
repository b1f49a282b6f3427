"""`enumerate-on-cluster`: the flow of `flows.enumerate` with a Dask cluster, for deployments.

The cluster is the one at ``DASK_SCHEDULER_ADDRESS``, or one of processes of the machine that runs the flow.
"""

from __future__ import annotations

import os

from prefect_dask import DaskTaskRunner

from flows.enumerate import enumerate_bicliques_flow

__all__ = ["enumerate_on_cluster_flow"]

enumerate_on_cluster_flow = enumerate_bicliques_flow.with_options(
    name="enumerate-on-cluster", task_runner=DaskTaskRunner(address=os.environ.get("DASK_SCHEDULER_ADDRESS"))
)
