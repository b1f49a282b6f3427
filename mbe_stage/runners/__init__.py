"""Runners: execute a problem's tasks in this process, on several GPUs, or on a Dask cluster."""
