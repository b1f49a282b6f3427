"""Walk the engine's tree one child at a time: walk a subtree for a while, and keep the rest as subtrees.

A node holds all that its children need. So with a copy of its part of the arenas, its children can be visited later in
any order (`cpu.worker.split_subproblem` shares work between threads in the same way).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mbe_stage.bicliques.constraints import size_constraints
from mbe_stage.bicliques.cpu import layout
from mbe_stage.bicliques.cpu.layout import Output, Sizes, subgraph_parts
from mbe_stage.bicliques.cpu.tree import run_quantum
from mbe_stage.bicliques.cpu.worker import columns_of, new_sizes, new_state, short_of
from mbe_stage.bicliques.estimation.growth import N_FEATURES, child_features, list_degrees, word_degrees
from mbe_stage.bicliques.ordering import arranged
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.reduction import core_of
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.search.cpu.quanta import DONE, OUTPUT_FULL, QUANTUM_OVER, grown

_MEMBERS, _BICLIQUES = 1 << 18, 1 << 14


@dataclass(frozen=True, slots=True, eq=False)
class OpenNode:
    """A copy of an open node, with all that its children need.

    Attributes
    ----------
    frame : (FRAME_FIELDS,) int64
        Its positions are relative to the copies.
    words : uint64
    ints : int32
        For a bitset frame, its columns come before its part of the arena.
    path : int32
    """

    frame: np.ndarray
    words: np.ndarray
    ints: np.ndarray
    path: np.ndarray


class Left(NamedTuple):
    """Unvisited children ``first`` to ``end`` of a node, and their features."""

    node: OpenNode
    first: int
    end: int
    features: np.ndarray


class Visit(NamedTuple):
    """Result of walking a subtree: bicliques and members found, elementary steps, and the remaining subtrees."""

    n_bicliques: int
    n_members: int
    n_steps: int
    left: list[Left]


class Walk:
    """The tree of a graph and a query.

    Parameters
    ----------
    collects : bool
        True to count members too; False for the engine's counting walk, which is faster.
    """

    def __init__(self, graph: BipartiteCSR, query: BicliqueQuery, collects: bool = True) -> None:
        made = arranged(core_of(graph, query))
        self._graph = made.node
        self._worker = new_state(made.rows.n)
        self._sizes: Sizes = new_sizes(
            made.columns.multiplicities,
            made.rows.multiplicities,
            size_constraints(query, made.rows_are_left),
            n_bicliques=_BICLIQUES if collects else 0,
            has_members=collects,
        )
        self._output: Output | None = None
        if collects:
            self._output = Output(np.empty(_MEMBERS, np.int32), np.empty(_MEMBERS, np.int32))
        self.root = self._whole(made.rows.n, made.columns.n)

    def _whole(self, n_rows: int, n_columns: int) -> Left:
        frame = np.zeros(layout.FRAME_FIELDS, np.int64)
        frame[layout.KIND] = layout.WHOLE_GRAPH
        frame[layout.N_ROWS], frame[layout.N_COLUMNS] = n_rows, n_columns
        frame[layout.END] = n_rows
        none = np.empty(0, np.int32)
        node = OpenNode(frame, np.empty(0, np.uint64), none, none)
        return Left(node, 0, n_rows, self._features(node, 0, n_rows))

    def visit(self, node: OpenNode, child: int, most_steps: int) -> Visit:
        """Visit a child and its subtree for at most `most_steps` steps; with 1, visit the child alone."""
        self._load(node, child)
        n_bicliques = n_members = n_steps = 0
        while True:
            control = self._worker.control
            control[layout.N_OUT] = control[layout.LEFT_USED] = control[layout.RIGHT_USED] = control[layout.COUNT] = 0
            status = run_quantum(self._graph, self._worker, self._sizes, self._output, max(1, most_steps - n_steps))
            n_bicliques += int(control[layout.COUNT])
            n_steps += int(control[layout.WORK])
            n_members += self._n_members()
            if status == DONE:
                return Visit(n_bicliques, n_members, n_steps, [])
            if status == QUANTUM_OVER:
                return Visit(n_bicliques, n_members, n_steps, self._left())
            if status == OUTPUT_FULL:
                if control[layout.N_OUT] == 0:
                    self._make_room()
            else:
                self._worker = grown(self._worker, short_of(self._worker, status))

    def _n_members(self) -> int:
        control, output, sizes = self._worker.control, self._output, self._sizes
        if output is None:
            return 0
        left, right = output.left[: control[layout.LEFT_USED]], output.right[: control[layout.RIGHT_USED]]
        return int(sizes.left_multiplicities[left].sum()) + int(sizes.right_multiplicities[right].sum())

    def _make_room(self) -> None:
        assert self._output is not None
        n = 2 * self._output.left.size
        self._output = self._output._replace(left=np.empty(n, np.int32), right=np.empty(n, np.int32))

    def _load(self, node: OpenNode, child: int) -> None:
        worker = self._worker
        for status, needed, size in (
            (layout.WORDS_SHORT, node.words.size, worker.words.size),
            (layout.INTS_SHORT, node.ints.size, worker.ints.size),
        ):
            if needed > size:
                worker.control[layout.NEEDED] = needed
                worker = self._worker = grown(worker, short_of(worker, status))
        worker.words[: node.words.size] = node.words
        worker.ints[: node.ints.size] = node.ints
        worker.path[: node.path.size] = node.path
        frame = worker.frames[0]
        frame[:] = node.frame
        frame[layout.FIRST] = frame[layout.CURSOR] = child
        frame[layout.END] = child + 1
        worker.control[layout.DEPTH] = 0

    def _left(self) -> list[Left]:
        """Return the unvisited children on the stack, with their nodes."""
        left = []
        for frame in self._worker.frames[: int(self._worker.control[layout.DEPTH]) + 1]:
            first, end = int(frame[layout.CURSOR]), int(frame[layout.END])
            if first < end:
                node = self._kept(frame)
                left.append(Left(node, first, end, self._features(node, first, end)))
        return left

    def _kept(self, frame: np.ndarray) -> OpenNode:
        worker = self._worker
        words = worker.words[frame[layout.WORDS] : frame[layout.WORDS_TOP]].copy()
        own, columns = worker.ints[frame[layout.INTS] : frame[layout.INTS_TOP]], worker.ints[:0]
        if frame[layout.KIND] == layout.BITSET:
            columns = columns_of(frame, worker.ints, self._output is not None)
        copy = frame.copy()
        copy[layout.WORDS], copy[layout.WORDS_TOP] = 0, words.size
        copy[layout.COLUMNS] = 0
        copy[layout.INTS], copy[layout.INTS_TOP] = columns.size, columns.size + own.size
        return OpenNode(copy, words, np.concatenate([columns, own]), worker.path[: frame[layout.N_PATH]].copy())

    def _features(self, node: OpenNode, first: int, end: int) -> np.ndarray:
        """Return the features of children ``first`` to ``end``, ``(end - first, N_FEATURES) float64``."""
        frame = node.frame
        n_rows, n_columns = int(frame[layout.N_ROWS]), int(frame[layout.N_COLUMNS])
        if frame[layout.KIND] == layout.BITSET:
            columns, edges = np.empty(n_rows, np.int64), np.empty(n_rows, np.int64)
            word_degrees(node.words, n_rows, columns, edges)
            columns, edges = columns[first:], edges[first:]
        else:
            part = self._graph if frame[layout.KIND] == layout.WHOLE_GRAPH else node.ints
            columns, edges = np.empty(n_rows - first, np.int64), np.empty(n_rows - first, np.int64)
            _, offsets_at, other_offsets_at, members_at, _, _ = subgraph_parts(n_rows, n_columns, 0)
            list_degrees(part[offsets_at:other_offsets_at], part[members_at:], n_columns, first, columns, edges)
        features = np.empty((end - first, N_FEATURES))
        child_features(columns[: end - first], edges[: end - first], n_rows, first, features)
        return features
