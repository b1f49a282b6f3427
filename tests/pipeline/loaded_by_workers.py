"""Imports and loads what cluster workers need: a worker forked from a process that imported this starts at once.

Python's fork server imports it; `forked_workers` makes Dask's nannies use that server. `scheduler_nursery` imports it,
too. It leaves no thread running.
"""

from __future__ import annotations

from importlib import import_module

from mbe_stage.bicliques import engine_cpu
from mbe_stage.pipeline.backends.arrow import worker_parts
from mbe_stage.pipeline.problems.bicliques import arrow as sink
from mbe_stage.runtime.compile_ahead import compile_ahead
from tests.pipeline import slow_workers

__all__ = ["engine_cpu", "sink", "slow_workers", "worker_parts"]

for _name in ("distributed", "distributed.nanny", "pandas", "pytest"):
    import_module(_name)
compile_ahead(engine_cpu.compile_steps())
