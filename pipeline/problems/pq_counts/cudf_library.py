"""(p, q)-counts for programs with tables in device memory: cuDF in, cuDF out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from mbe_stage.options import Execution
from mbe_stage.pipeline.backends.arrow.edges import EdgeData
from mbe_stage.pipeline.backends.cudf.backend import CudfBackend
from mbe_stage.pipeline.backends.cudf.frames import Frame
from mbe_stage.pipeline.config.model import Config, InputConfig, Key
from mbe_stage.pipeline.config.setting_names import settings_called
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.problems.pq_counts.memory import check_local_memory
from mbe_stage.pipeline.problems.pq_counts.query import detail_of, to_query
from mbe_stage.pipeline.problems.pq_counts.tables import counts_table, edge_batches, vertex_batches
from mbe_stage.pq_counts.count import count_pq_into
from mbe_stage.pq_counts.results import Detail, PqSink

_DEFAULT_INPUT = InputConfig()
_DEFAULT_BUDGET = Execution().memory_budget_bytes


@dataclass(frozen=True, slots=True, eq=False)
class PqTables:
    """The tables of a run as cuDF frames with the columns of `pipeline.problems.pq_counts.schemas`.

    Attributes
    ----------
    pq_vertices : Frame
        Number of bicliques with each vertex: ``side``, ``vertex``, ``key``, ``p``, ``q``, ``count`` and ``count_text``.
    pq_edges : Frame or None
        Number of bicliques with each edge: ``left_key``, ``right_key``, ``p``, ``q``, ``count`` and ``count_text``;
        None if not requested.
    """

    pq_counts: Frame
    pq_vertices: Frame
    pq_edges: Frame | None


def count_pq_bicliques(
    edges: Frame,
    left: Key = _DEFAULT_INPUT.left,
    right: Key | tuple[Key, ...] = _DEFAULT_INPUT.right,
    *,
    p: int = 2,
    q: int = 2,
    table: bool = False,
    local: Literal["vertices", "edges"] | None = None,
    containing_left: tuple[Key, ...] = (),
    containing_right: tuple[Key, ...] = (),
    device_memory: int | None = None,
    memory_budget: int = _DEFAULT_BUDGET,
) -> Frame | PqTables:
    """Count the (p, q)-bicliques of a table of edges and, on request, those of each vertex and edge.

    Only a few numbers pass through host memory. Tables of local counts are made there.

    Parameters
    ----------
    edges : Frame
        One edge a row, duplicates allowed, keys of integers or text without nulls.
    left, right : str or int
        Columns of the frame, by name or position; `right` may be a tuple of columns that form the key together.
    p, q, table, containing_left, containing_right
        See `pipeline.problems.pq_counts.section.PqCountsSection`; `containing_*` holds the frame's own keys.
    local : {"vertices", "edges"}, optional
        Also count per vertex, or per vertex and edge.
    device_memory : int, optional
        Maximum bytes for the search; by default three quarters of the free memory.
    memory_budget : int
        Maximum bytes of host memory for local counts during the count.

    Returns
    -------
    Frame or PqTables
        The table `pq_counts`: ``p``, ``q``, ``count`` (decimal128(38, 0), null if the count has more digits) and
        ``count_text``; with `local` all tables.

    Raises
    ------
    InputError
        The edges cannot be used; the message says where and why.
    ConfigError
        A size is below 1, or the table has too many counts.
    EngineUnavailable
        The CUDA engine cannot run here.
    MemoryBudgetExceeded
        Local counts, or the search, do not fit; the message says what would fit.

    Examples
    --------
    >>> purchases = cudf.DataFrame({"account": ["a", "a", "b", "b"], "item": [1, 2, 1, 2]})  # doctest: +SKIP
    >>> count_pq_bicliques(purchases, "account", "item")["count_text"].to_arrow().to_pylist()  # doctest: +SKIP
    ['1']
    >>> found = count_pq_bicliques(purchases, "account", "item", local="vertices")  # doctest: +SKIP
    >>> found.pq_vertices["count_text"].to_arrow().to_pylist()  # doctest: +SKIP
    ['1', '1', '1', '1']
    """
    section = {
        "p": p,
        "q": q,
        "table": table,
        "local": "none" if local is None else local,
        "containing_left": tuple(containing_left),
        "containing_right": tuple(containing_right),
    }
    config = Config.from_mapping({"problem": "pq_counts", "pq_counts": section})
    backend = CudfBackend()
    clean = ingest(InputConfig(left=left, right=right), edges, backend)
    execution = Execution(device_memory_bytes=device_memory, memory_budget_bytes=memory_budget)
    sink = PqSink(to_query(config.problem_section, clean), detail_of(config.problem_section))
    graph = clean.graph()
    degrees = backend.on_host(graph.left_degrees), backend.on_host(graph.right_degrees)
    # Error messages use the names of this function's parameters.
    with settings_called(lambda key: key.rpartition(".")[2]):
        check_local_memory(sink.query, sink.detail, degrees, memory_budget)
    count_pq_into(sink, graph, execution, "cuda")
    counts = Frame.from_arrow(counts_table(sink.counts()))
    return counts if local is None else _with_local(counts, sink, clean.to_host())


def _with_local(counts: Frame, sink: PqSink, edges: EdgeData) -> PqTables:
    known, cells = sink.local_counts(), sink.query.cells
    of_edges = _frame(*edge_batches(known, cells, edges)) if sink.detail >= Detail.EDGES else None
    return PqTables(counts, _frame(*vertex_batches(known, cells, edges)), of_edges)


def _frame(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Frame:
    """Copy rows to the device; sides become text, as when cuDF reads the published table."""
    table = pa.Table.from_batches(batches, schema)
    plain = [each.with_type(pa.string()) if pa.types.is_dictionary(each.type) else each for each in schema]
    return Frame.from_arrow(table.cast(pa.schema(plain)))
