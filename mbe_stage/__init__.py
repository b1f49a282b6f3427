"""Maximal biclique enumeration on arrays: a graph in CSR form, engines, and sinks that take the bicliques in.

This layer knows arrays and devices only; names, tables, files and reports belong to `pipeline`. A name is imported from
its module when it is first asked for.
"""

TYPE_CHECKING = False  # as in `typing`
if TYPE_CHECKING:
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

# No module has the name of one of its names: importing it would put the module in the name's place.
_NAMES = {
    "engines": ("choose_engine", "engine_names"),
    "enumerate": ("Progress", "RunFacts", "enumerate_bicliques", "enumerate_into"),
    "errors": ("EngineUnavailable", "InvalidArgument", "MemoryBudgetExceeded", "StageError"),
    "graph": ("BipartiteCSR",),
    "options": ("BicliqueQuery", "Execution"),
    "results": (
        "BicliqueBlock",
        "BicliqueTable",
        "CountSink",
        "Detail",
        "DeviceSink",
        "HistogramSink",
        "Sink",
        "TableSink",
    ),
}

if not TYPE_CHECKING:

    def __getattr__(name):
        for module, names in _NAMES.items():
            if name in names:
                from importlib import import_module

                value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *__all__})
