"""Maximal bicliques and cliques, and counts of (p, q)-bicliques, on arrays: graphs in CSR form, engines, and sinks.

This layer knows arrays and devices only; names, tables, files and reports belong to `pipeline`. Public names are
imported from their modules on first use.
"""

TYPE_CHECKING = False  # as in `typing`
if TYPE_CHECKING:
    from mbe_stage.bicliques.best.find import BestBicliques, best_bicliques
    from mbe_stage.bicliques.enumerate import Progress, RunFacts, enumerate_bicliques, enumerate_into
    from mbe_stage.bicliques.many import ManyBicliques, enumerate_many
    from mbe_stage.bicliques.query import BicliqueQuery
    from mbe_stage.bicliques.results import (
        BicliqueBlock,
        BicliqueTable,
        CountSink,
        Detail,
        DeviceSink,
        HistogramSink,
        RightSink,
        Sink,
        TableSink,
    )
    from mbe_stage.cliques.enumerate import (
        count_maximal_cliques,
        enumerate_cliques_into,
        enumerate_maximal_cliques,
        find_cliques,
    )
    from mbe_stage.cliques.query import CliqueQuery
    from mbe_stage.cliques.results import (
        CliqueBlock,
        CliqueCountSink,
        CliqueHistogramSink,
        CliqueSink,
        CliqueTable,
        CliqueTableSink,
    )
    from mbe_stage.engines import choose_engine, engine_names
    from mbe_stage.errors import EngineUnavailable, InvalidArgument, MemoryBudgetExceeded, StageError
    from mbe_stage.graphs.bipartite import BipartiteCSR
    from mbe_stage.graphs.undirected import UndirectedCSR
    from mbe_stage.options import Execution
    from mbe_stage.pq_counts.count import PqLocalCounts, count_pq_bicliques, count_pq_into, pq_local_counts, pq_table
    from mbe_stage.pq_counts.query import PqQuery
    from mbe_stage.pq_counts.results import PqBlock, PqSink
    from mbe_stage.shared_neighbours.find import shared_neighbour_pairs
    from mbe_stage.shared_neighbours.results import SharedNeighbours
    from mbe_stage.tasks import Task

__all__ = [
    "BestBicliques",
    "BicliqueBlock",
    "BicliqueQuery",
    "BicliqueTable",
    "BipartiteCSR",
    "CliqueBlock",
    "CliqueCountSink",
    "CliqueHistogramSink",
    "CliqueQuery",
    "CliqueSink",
    "CliqueTable",
    "CliqueTableSink",
    "CountSink",
    "Detail",
    "DeviceSink",
    "EngineUnavailable",
    "Execution",
    "HistogramSink",
    "InvalidArgument",
    "ManyBicliques",
    "MemoryBudgetExceeded",
    "PqBlock",
    "PqLocalCounts",
    "PqQuery",
    "PqSink",
    "Progress",
    "RightSink",
    "RunFacts",
    "SharedNeighbours",
    "Sink",
    "StageError",
    "TableSink",
    "Task",
    "UndirectedCSR",
    "best_bicliques",
    "choose_engine",
    "count_maximal_cliques",
    "count_pq_bicliques",
    "count_pq_into",
    "engine_names",
    "enumerate_bicliques",
    "enumerate_cliques_into",
    "enumerate_into",
    "enumerate_many",
    "enumerate_maximal_cliques",
    "find_cliques",
    "pq_local_counts",
    "pq_table",
    "shared_neighbour_pairs",
]

# No module may share its name with a public name: importing the module would overwrite that name.
_NAMES = {
    "engines": ("choose_engine", "engine_names"),
    "bicliques.best.find": ("BestBicliques", "best_bicliques"),
    "bicliques.enumerate": ("Progress", "RunFacts", "enumerate_bicliques", "enumerate_into"),
    "errors": ("EngineUnavailable", "InvalidArgument", "MemoryBudgetExceeded", "StageError"),
    "graphs.bipartite": ("BipartiteCSR",),
    "graphs.undirected": ("UndirectedCSR",),
    "options": ("Execution",),
    "bicliques.many": ("ManyBicliques", "enumerate_many"),
    "bicliques.query": ("BicliqueQuery",),
    "bicliques.results": (
        "BicliqueBlock",
        "BicliqueTable",
        "CountSink",
        "Detail",
        "DeviceSink",
        "HistogramSink",
        "RightSink",
        "Sink",
        "TableSink",
    ),
    "cliques.enumerate": (
        "count_maximal_cliques",
        "enumerate_cliques_into",
        "enumerate_maximal_cliques",
        "find_cliques",
    ),
    "cliques.query": ("CliqueQuery",),
    "cliques.results": (
        "CliqueBlock",
        "CliqueCountSink",
        "CliqueHistogramSink",
        "CliqueSink",
        "CliqueTable",
        "CliqueTableSink",
    ),
    "pq_counts.count": ("PqLocalCounts", "count_pq_bicliques", "count_pq_into", "pq_local_counts", "pq_table"),
    "pq_counts.query": ("PqQuery",),
    "pq_counts.results": ("PqBlock", "PqSink"),
    "shared_neighbours.find": ("shared_neighbour_pairs",),
    "shared_neighbours.results": ("SharedNeighbours",),
    "tasks": ("Task",),
}

if not TYPE_CHECKING:
    from mbe_stage.lazy_names import lazy

    __getattr__, __dir__ = lazy(__name__, _NAMES, __all__)
