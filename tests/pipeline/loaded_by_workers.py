"""What workers of a cluster import and load: one that is forked from a process that has imported this begins at once.

It is imported by Python's own server of forks, which Dask's nannies are told to use (`forked_workers`), and by
`scheduler_nursery`. No thread of it goes on.
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
