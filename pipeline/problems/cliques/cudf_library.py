"""Maximal cliques for programs with tables in device memory: cuDF in, cuDF out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import cupy as cp

from mbe_stage.cliques.enumerate import enumerate_cliques_into
from mbe_stage.cliques.ordering import degeneracy_order
from mbe_stage.cliques.results import Detail
from mbe_stage.options import Execution
from mbe_stage.pipeline.backends.cudf.backend import CudfBackend
from mbe_stage.pipeline.backends.cudf.frame_sink import FrameSink
from mbe_stage.pipeline.backends.cudf.frames import Frame
from mbe_stage.pipeline.clean.facts import InputFacts
from mbe_stage.pipeline.config.model import Config, InputConfig, Key
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.problems.cliques.cudf import Summary, histogram_table, rows_of, vertex_table
from mbe_stage.pipeline.problems.cliques.query import graph_of, hashes_of, keys_of, to_query
from mbe_stage.pipeline.problems.installed import reading_of

_DEFAULT_INPUT = InputConfig()


@dataclass(frozen=True, slots=True, eq=False)
class CliqueTables:
    """The tables of a run as cuDF frames with the columns of `pipeline.problems.cliques.schemas`.

    Attributes
    ----------
    cliques : Frame
        Empty if the frames went to `on_frame`.
    vertices : Frame
        The vertices behind the dense ids in the lists: ``vertex``, ``key``, degree, core number and statistics.
    truncated : str or None
        The limit that stopped the enumeration.
    """

    cliques: Frame
    vertices: Frame
    size_histogram: Frame
    n_cliques: int
    truncated: str | None
    input: InputFacts


def enumerate_cliques(
    edges: object,
    left: Key = _DEFAULT_INPUT.left,
    right: Key | tuple[Key, ...] = _DEFAULT_INPUT.right,
    *,
    min_size: int = 1,
    max_size: int | None = None,
    containing: tuple[Key, ...] = (),
    project: Literal["left", "right"] | None = None,
    min_shared: int = 1,
    max_cliques: int | None = None,
    device_memory: int | None = None,
    on_frame: Callable[[Frame], None] | None = None,
) -> CliqueTables:
    """Enumerate every maximal clique of a table of undirected edges; only the graph is copied to the host.

    The host computes core numbers and projections.

    Parameters
    ----------
    edges : Frame or object
        One edge a row, in either direction or both, duplicates allowed, keys of integers or text without nulls. A row
        with the same key twice is a vertex. Or a `cugraph.Graph`, including its vertices without edges.
    left, right : str or int
        Columns of the frame, by name or position. With `project`, `right` may be a tuple of columns that form the key
        together.
    min_size, max_size, containing, project, min_shared
        See `pipeline.problems.cliques.section.CliquesSection`; `containing` holds the frame's own keys.
    max_cliques : int, optional
        Stop after this many.
    device_memory : int, optional
        Maximum bytes for the enumeration; by default three quarters of the free memory.
    on_frame : callable, optional
        Receives the rows of `cliques` in pieces: for results larger than one column or the device memory.

    Raises
    ------
    InputError
        The edges cannot be used; the message says where and why.
    ConfigError
        The conditions contradict each other.
    InvalidArgument
        There are more members than a column holds, and no `on_frame`.
    EngineUnavailable
        The CUDA engine cannot run here.

    Examples
    --------
    >>> friends = cudf.DataFrame({"src": ["a", "b", "c", "c"], "dst": ["b", "c", "a", "d"]})  # doctest: +SKIP
    >>> enumerate_cliques(friends, "src", "dst").n_cliques  # doctest: +SKIP
    2
    """
    section = {
        "min_size": min_size,
        "max_size": max_size,
        "containing": tuple(containing),
        "project": project,
        "min_shared": min_shared,
    }
    config = Config.from_mapping({"problem": "cliques", "input": {"left": left, "right": right}, "cliques": section})
    backend = CudfBackend()
    clean = ingest(reading_of(config), edges, backend)
    query, graph = to_query(config.problem_section, clean), graph_of(config, clean)
    sink = _FrameSink(hashes_of(config.problem_section, clean, backend), on_frame)
    execution = Execution(max_cliques=max_cliques, device_memory_bytes=device_memory)
    run = enumerate_cliques_into(sink, graph, query, execution, "cuda")
    _, cores = degeneracy_order(graph.on_host())
    summary = sink.summary
    return CliqueTables(
        cliques=sink.rows(),
        vertices=vertex_table(
            keys_of(config.problem_section, clean), graph.degrees, cores, summary.vertex_statistics()
        ),
        size_histogram=histogram_table(*summary.sizes.sorted_rows()),
        n_cliques=summary.fingerprint.n_items,
        truncated=run.truncated,
        input=clean.facts,
    )


class _FrameSink(FrameSink):
    """Compute keys and sums of cliques, and pass them on as frames."""

    detail: Literal[Detail.MEMBERS] = Detail.MEMBERS

    def __init__(self, hashes: cp.ndarray, on_frame: Callable[[Frame], None] | None) -> None:
        self.summary = Summary.of(hashes.size)
        rows = rows_of(hashes, self.summary)
        super().__init__(rows, on_frame, lambda: self.summary.members, "ask for larger cliques (min_size)")
