"""Maximal biclique enumeration on arrays: a graph in CSR form, engines, and sinks that take the bicliques in.

This layer knows arrays and devices only; names, tables, files and reports belong to `pipeline`.
"""

from pathlib import Path

from mbe_stage.compiled import drop_stale_code
from mbe_stage.engines import choose_engine, engine_names
from mbe_stage.enumerate import Progress, RunFacts, enumerate_bicliques, enumerate_into
from mbe_stage.errors import EngineUnavailable, InvalidArgument, MemoryBudgetExceeded, StageError
from mbe_stage.graph import BipartiteCSR
from mbe_stage.options import BicliqueQuery, Execution
from mbe_stage.results import (
    BicliqueBlock,
    BicliqueTable,
    CountSink,
    Detail,
    DeviceSink,
    HistogramSink,
    Sink,
    TableSink,
)

__all__ = [
    "BicliqueBlock",
    "BicliqueQuery",
    "BicliqueTable",
    "BipartiteCSR",
    "CountSink",
    "Detail",
    "DeviceSink",
    "EngineUnavailable",
    "Execution",
    "HistogramSink",
    "InvalidArgument",
    "MemoryBudgetExceeded",
    "Progress",
    "RunFacts",
    "Sink",
    "StageError",
    "TableSink",
    "choose_engine",
    "engine_names",
    "enumerate_bicliques",
    "enumerate_into",
]

# Before anything compiled is loaded.
drop_stale_code(Path(__file__).parent)
