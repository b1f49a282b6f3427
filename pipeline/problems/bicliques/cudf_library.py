"""Maximal bicliques for programs with tables in device memory: cuDF in, cuDF out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

import cupy as cp

from mbe_stage.bicliques.enumerate import enumerate_into
from mbe_stage.bicliques.results import Detail
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.pipeline.backends.backend import GraphFacts
from mbe_stage.pipeline.backends.cudf.backend import CudfBackend
from mbe_stage.pipeline.backends.cudf.edges import DeviceEdges
from mbe_stage.pipeline.backends.cudf.frame_sink import FrameSink
from mbe_stage.pipeline.backends.cudf.frames import Frame, Series, frame_of
from mbe_stage.pipeline.backends.cudf.graph_facts import graph_facts
from mbe_stage.pipeline.backends.cudf.parquet import read_frame
from mbe_stage.pipeline.clean.facts import InputFacts
from mbe_stage.pipeline.config.model import Config, InputConfig, Key, QueryConfig
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.problems.base import Collecting, DerivedCollector
from mbe_stage.pipeline.problems.bicliques.cudf import histogram_table, rows_of, vertex_table
from mbe_stage.pipeline.problems.bicliques.cudf_summary import Summary
from mbe_stage.pipeline.problems.derived import GuardedCollector, derived_collectors
from mbe_stage.pipeline.problems.query import to_query

if TYPE_CHECKING:
    import cugraph

_DEFAULT_INPUT = InputConfig()


@dataclass(frozen=True, slots=True)
class DerivedFrames:
    """The collectors of the derived outputs in a configuration; there may be none.

    Attributes
    ----------
    collectors : sequence of GuardedCollector
        They receive the blocks.
    directory : Path
        Directory of their tables.
    """

    collectors: Sequence[GuardedCollector]
    directory: Path

    def finish(self) -> dict[str, Frame]:
        """Return their tables by name; called after the last block."""
        for each in self.collectors:
            each.finish()
        return {path.stem: read_frame(path) for path in sorted(self.directory.glob("*.parquet"))}


@contextmanager
def derived_frames(config: Config, edges: DeviceEdges, graph: BipartiteCSR) -> Iterator[DerivedFrames]:
    """Open the collectors of derived outputs; their files are removed when the context ends.

    All backends write these tables as files. They are made on the host and small, so reading them back is cheap.
    """
    with TemporaryDirectory(prefix="mbe-") as directory, ExitStack() as ends:
        collecting = Collecting(Path(directory), config, edges, graph, CudfBackend())
        collectors = tuple(ends.enter_context(each) for each in derived_collectors(collecting))
        yield DerivedFrames(collectors, Path(directory))


@dataclass(frozen=True, slots=True, eq=False)
class BicliqueTables:
    """The tables of a run as cuDF frames with the columns of `pipeline.publish.schemas`.

    Attributes
    ----------
    bicliques : Frame
        Empty if the frames went to `on_frame`.
    left_vertices, right_vertices : Frame
        The vertices behind the dense ids in the lists: ``vertex``, ``key``, degrees, and each vertex's statistics.
    truncated : str or None
        The limit that stopped the enumeration.
    groups : mapping of str to Frame
        If groups were requested, their tables by the names of the published files, such as ``group_members``.
    """

    bicliques: Frame
    left_vertices: Frame
    right_vertices: Frame
    size_histogram: Frame
    n_bicliques: int
    truncated: str | None
    input: InputFacts
    groups: Mapping[str, Frame]


def enumerate_bicliques(
    edges: Frame | cugraph.Graph,
    left: Key = _DEFAULT_INPUT.left,
    right: Key | tuple[Key, ...] = _DEFAULT_INPUT.right,
    *,
    min_left: int = 1,
    min_right: int = 1,
    max_left: int | None = None,
    max_right: int | None = None,
    min_edges: int = 1,
    containing_left: tuple[Key, ...] = (),
    containing_right: tuple[Key, ...] = (),
    left_vertices: Series | None = None,
    max_bicliques: int | None = None,
    device_memory: int | None = None,
    two_hop_steps: int | None = None,
    on_frame: Callable[[Frame], None] | None = None,
    groups: Mapping[str, Any] | None = None,
) -> BicliqueTables:
    """Enumerate every maximal biclique of a table of edges; only a few numbers pass through host memory.

    Parameters
    ----------
    edges : Frame or cugraph.Graph
        One edge a row, duplicates allowed, keys of integers or text without nulls; or a graph.
    left, right : str or int
        Columns of the frame, by name or position; `right` may be a tuple of columns that form the key together.
    min_left, min_right, max_left, max_right, min_edges, containing_left, containing_right
        See `QueryConfig`; `containing_*` holds the frame's own keys.
    left_vertices : Series, optional
        The left vertices of an undirected graph. In a directed graph, sources are left and destinations right.
    max_bicliques : int, optional
        Stop after this many.
    device_memory : int, optional
        Maximum bytes for the enumeration; by default all free memory.
    two_hop_steps : int, optional
        See `OutputConfig.two_hop_steps`.
    on_frame : callable, optional
        Receives the rows of `bicliques` in pieces: for results larger than one column or the device memory.
    groups : mapping, optional
        The section ``groups`` of a configuration; ``{}`` for its defaults. Groups are selected on the host, so edges
        and candidates are copied there.

    Raises
    ------
    InputError
        The edges cannot be used; the message says where and why.
    ConfigError
        `groups` has invalid settings.
    InvalidArgument
        The conditions contradict each other, or there are more members than a column holds and no `on_frame`.
    EngineUnavailable
        The CUDA engine cannot run here.

    Examples
    --------
    >>> purchases = cudf.DataFrame({"account": ["a", "a", "b", "b"], "item": [1, 2, 1, 2]})
    >>> enumerate_bicliques(purchases, "account", "item").n_bicliques
    1
    """
    if _is_graph(edges):
        edges, left, right = edges_of_graph(edges, left_vertices), "left", "right"
    clean = ingest(InputConfig(left=left, right=right), edges, CudfBackend())
    wanted = QueryConfig(
        min_left=min_left,
        min_right=min_right,
        max_left=max_left,
        max_right=max_right,
        min_edges=min_edges,
        containing_left=tuple(containing_left),
        containing_right=tuple(containing_right),
    )
    sections = {} if groups is None else {"groups": dict(groups)}
    config = Config.from_mapping({"query": wanted.model_dump(), **sections})
    query, graph = to_query(wanted, clean), clean.graph()
    most_steps = clean.facts.most_two_hop_steps(two_hop_steps)
    facts = graph_facts(graph, most_steps, cp.cuda.Device().mem_info[0] // 4)
    execution = Execution(max_bicliques=max_bicliques, device_memory_bytes=device_memory)
    with derived_frames(config, clean, graph) as derived:
        sink = _FrameSink(clean, on_frame, derived.collectors)
        run = enumerate_into(sink, graph, query, execution, "cuda")
        tables_of_groups = derived.finish()
    return _tables(sink, clean, facts, run.truncated, tables_of_groups)


def edges_of_graph(graph: cugraph.Graph, left_vertices: Series | None = None) -> Frame:
    """Return the edges of a graph as rows ``left``, ``right`` of its own vertices.

    Raises
    ------
    InputError
        The graph is undirected and `left_vertices` is missing, an edge does not have exactly one end in it, or vertices
        are named by several columns.
    """
    listed = graph.decompress_to_edgelist()
    if not {"src", "dst"} <= set(listed.columns):
        raise _bad_graph("vertices named by several columns", "one column for each end", "join them into one")
    ends = frame_of({"left": listed["src"], "right": listed["dst"]})
    if graph.is_directed():
        return ends
    if left_vertices is None:
        found = "an undirected graph, which does not say which of its vertices are left"
        raise _bad_graph(found, "its left vertices", "pass left_vertices")
    # An undirected graph lists every edge in both directions.
    from_left, to_left = ends["left"].isin(left_vertices), ends["right"].isin(left_vertices)
    n_odd = int((from_left == to_left).sum()) // 2
    if n_odd:
        found = f"{n_odd} edges with both ends or neither among left_vertices"
        raise _bad_graph(found, "one end of each", "correct left_vertices")
    return ends[from_left].reset_index(drop=True)


def _is_graph(edges: Any) -> bool:
    imported = sys.modules.get("cugraph")
    return imported is not None and isinstance(edges, imported.Graph)


class _FrameSink(FrameSink):
    """Compute keys and sums of bicliques, and pass them on as frames."""

    detail: Literal[Detail.MEMBERS] = Detail.MEMBERS

    def __init__(
        self, edges: DeviceEdges, on_frame: Callable[[Frame], None] | None, derived: Sequence[DerivedCollector]
    ) -> None:
        self.summary = Summary.of(edges.facts.n_left, edges.facts.n_right)
        rows = rows_of(edges.key_hashes(), self.summary, derived)
        super().__init__(rows, on_frame, self._most_members, "ask for larger groups (min_left, min_right)")

    def _most_members(self) -> int:
        """The larger number of members in the two list columns."""
        return max(self.summary.left_members, self.summary.right_members)


def _tables(
    sink: _FrameSink, edges: DeviceEdges, facts: GraphFacts, truncated: str | None, groups: Mapping[str, Frame]
) -> BicliqueTables:
    summary = sink.summary
    histogram = histogram_table(summary.sizes.sorted_rows())
    left, right = summary.left.to_host(), summary.right.to_host()
    return BicliqueTables(
        bicliques=sink.rows(),
        left_vertices=vertex_table(edges.left_keys, facts.left_degrees, facts.left_two_hop, left),
        right_vertices=vertex_table(edges.right_keys, facts.right_degrees, facts.right_two_hop, right),
        size_histogram=histogram,
        n_bicliques=int(histogram["n_bicliques"].sum()),
        truncated=truncated,
        input=edges.facts,
        groups=groups,
    )


def _bad_graph(found: str, expected: str, remedy: str) -> InputError:
    return InputError.at("memory:cugraph", found=found, expected=expected, remedy=remedy)
