"""Candidates for groups: the best biclique of each vertex, and the best of all.

They are collected by a sink in the stream of blocks, which scores each biclique once. Memory depends on the vertices
and the kept bicliques, not on the number of bicliques. The result does not depend on the order of bicliques: scores are
integers, and ties go to the lower key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.errors import InvalidArgument
from mbe_stage.groups import block_scores as at
from mbe_stage.groups import members as group_members
from mbe_stage.groups.block_scores import Side
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.null_model import PAIR_WEIGHTS, NullModel
from mbe_stage.ragged import long_offsets
from mbe_stage.runtime.compile_ahead import CompileStep

TOP = 20_000
"""Default number of the best bicliques of all to keep."""

LOWEST = int(np.iinfo(np.int64).min)
"""Initial best score of a vertex."""

SPARE_MEMBERS_PER_ROW = 64
"""The pool is compacted when it has doubled and has this many more members per row of the top."""

# Arrays that a sink keeps for the vertices of each side.
_OF_VERTICES = ("records", "best_keys", "best_rows")
_HIGHEST = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Bicliques, best first: by descending surprise, then by ascending key.

    Attributes
    ----------
    keys : (n,) int64
        Keys of `mbe_stage.bicliques.keys`.
    surprise : (n,) int64
        In units of ``1 / UNIT`` nat.
    members : GroupMembers
    """

    keys: np.ndarray
    surprise: np.ndarray
    members: GroupMembers

    def __len__(self) -> int:
        return self.keys.size

    def take(self, rows: np.ndarray) -> Candidates:
        """Return some of the bicliques, in the order of `rows`, ``(m,)`` integers."""
        return Candidates(self.keys[rows], self.surprise[rows], self.members.take(rows))

    @classmethod
    def joined(cls, parts: list[Candidates]) -> Candidates:
        """Concatenate candidates; the result is in order only if they are."""
        none = np.empty(0, np.int64)
        return cls(
            np.concatenate([none, *(part.keys for part in parts)]),
            np.concatenate([none, *(part.surprise for part in parts)]),
            GroupMembers.joined([part.members for part in parts]),
        )


class BestBicliques:
    """Common part of the sinks for candidates on the host and on a device.

    Parameters and attributes are those of `CandidateSink`. The records of a side's vertices have the methods `field`
    and `merge`.
    """

    _left: Any
    _right: Any

    def __init__(self, model: NullModel, n_left: int, n_right: int, top: int) -> None:
        if top < 1:
            raise InvalidArgument(f"top is {top}: expected 1 or more")
        of_model = model.left_log_degrees.size, model.right_log_degrees.size
        if (n_left, n_right) != of_model:
            raise InvalidArgument(
                f"n_left and n_right are {n_left} and {n_right}: the model is of a graph of "
                f"{of_model[0]} and {of_model[1]} vertices"
            )
        largest = max(model.left_at_least.size, model.right_at_least.size) - 1
        if model.n_edges * largest > _HIGHEST:
            raise InvalidArgument(
                f"the graph has {model.n_edges:,} edges and a degree of {largest:,}: their product, which bounds the "
                "shares of vertices, has to be below 2^63; score a part of the graph"
            )
        self._model, self._top = model, top
        # Parts of the pool; the first one is the result of the last compaction.
        self._parts: list[Any] = []
        self._n_rows = self._n_members = 0
        # The lowest of the `top` best so far; anything worse is not among them.
        self._threshold = LOWEST, _HIGHEST
        self._allow_growth()

    @property
    def left_share(self) -> np.ndarray:  # noqa: D102 - `CandidateSink` says it
        return self._left.field(at.SHARE)

    @property
    def right_share(self) -> np.ndarray:  # noqa: D102
        return self._right.field(at.SHARE)

    @property
    def n_bicliques_of_left(self) -> np.ndarray:  # noqa: D102
        return self._left.field(at.N_BICLIQUES)

    @property
    def n_bicliques_of_right(self) -> np.ndarray:  # noqa: D102
        return self._right.field(at.N_BICLIQUES)

    def merge(self, other: BestBicliques) -> None:
        """Merge another sink over other bicliques of the same graph, as if this one had taken them in.

        So several devices or machines can share the work.

        Parameters
        ----------
        other : CandidateSink
            A sink for the same graph and `top`; it is not changed. A biclique that both sinks took in counts twice.

        Raises
        ------
        InvalidArgument
            The other sink is this one, or has another graph or `top`.
        """
        if other is self:
            raise InvalidArgument("other is this sink itself: expected one that has taken in other bicliques")
        if self._top != other._top:
            raise InvalidArgument(f"the top of the other sink is {other._top}: expected {self._top}, as here")
        if not self._model.is_same(other._model):
            raise InvalidArgument("the other sink is of a graph of other degrees: expected one of the same graph")
        for mine, theirs in ((self._left, other._left), (self._right, other._right)):
            mine.merge(theirs, self._n_rows)
        self._parts += other._parts
        # Bicliques below either sink's threshold are not among the best of both.
        self._threshold = max(self._threshold, other._threshold, key=lambda pair: (pair[0], -pair[1]))
        self._compact()

    def _worth_keeping(self, scores: Any, keys: Any, marks: Any, xp: Any = np) -> Any:
        """Return the bicliques of a block that are a vertex's best or among the `top` best so far; ascending."""
        high = xp.flatnonzero(marks & at.IS_HIGH)
        if high.size > self._top:
            chosen, self._threshold = highest(scores[high], keys[high], self._top, xp)
            marks &= at.IMPROVES
            marks[high[chosen]] |= at.IS_HIGH
        return xp.flatnonzero(marks)

    def _compact(self) -> None:
        raise NotImplementedError

    def _allow_growth(self) -> None:
        self._most_rows = 2 * self._n_rows + self._top
        self._most_members = 2 * self._n_members + SPARE_MEMBERS_PER_ROW * self._top


class CandidateSink(BestBicliques):
    """Keeps the best biclique of each vertex and the best of all, with statistics for each vertex.

    The best has the highest surprise; ties go to the lowest key.

    Parameters
    ----------
    model : NullModel
        Model of the graph in which the bicliques are maximal.
    n_left, n_right : int
        Number of vertices of the graph.
    top : int
        Number of the best bicliques of all to keep.

    Attributes
    ----------
    left_best, right_best : (n,) int64
        Row of each vertex's best biclique in the result of `finish`; -1 for a vertex without bicliques.
    left_share : (n_left,) int64
        Largest ``b b a`` over the vertex's bicliques with `a` left and `b` right vertices; 0 if there are none.
        (`vertex_scores.share_size` turns it into a score.)
    right_share : (n_right,) int64
        The same for ``a a b``.
    n_bicliques_of_left, n_bicliques_of_right : (n,) int64
        Number of bicliques that contain each vertex.

    Raises
    ------
    InvalidArgument
        `top` is below 1, the numbers of vertices differ from the model's, or the share numerators of so large a graph
        exceed 64 bits.

    Examples
    --------
    >>> from mbe_stage import BipartiteCSR
    >>> graph = BipartiteCSR.from_edges([0, 0, 1, 1, 2], [0, 1, 0, 1, 2])
    >>> sink = CandidateSink(NullModel.of(graph), graph.n_left, graph.n_right)
    >>> sizes = np.array([2, 1], np.int32)
    >>> members = np.array([0, 1, 2], np.int32)
    >>> sink.accept(BicliqueBlock(2, sizes, sizes, members, members), keys=np.array([7, 3]))
    >>> sink.finish().keys.tolist(), sink.left_best.tolist(), sink.left_share.tolist()
    ([7, 3], [0, 0, 1], [8, 8, 1])

    Merge sinks over other bicliques of the same graph:

    >>> one, other = (CandidateSink(NullModel.of(graph), 3, 3) for _ in range(2))
    >>> pair, ids = np.array([2], np.int32), np.array([0, 1], np.int32)
    >>> one.accept(BicliqueBlock(1, pair, pair, ids, ids), keys=np.array([7]))
    >>> other.accept(BicliqueBlock(1, pair // 2, pair // 2, ids[:1] + 2, ids[:1] + 2), keys=np.array([3]))
    >>> one.merge(other)
    >>> one.finish().keys.tolist(), one.left_best.tolist()
    ([7, 3], [0, 0, 1])
    """

    detail = Detail.MEMBERS

    def __init__(self, model: NullModel, n_left: int, n_right: int, top: int = TOP) -> None:
        super().__init__(model, n_left, n_right, top)
        self._left, self._right = _Vertices(model.left_log_degrees), _Vertices(model.right_log_degrees)
        self._parts = [Candidates.joined([])]

    @property
    def left_best(self) -> np.ndarray:  # noqa: D102
        return self._left.best_rows

    @property
    def right_best(self) -> np.ndarray:  # noqa: D102
        return self._right.best_rows

    @property
    def nbytes(self) -> int:
        """Bytes used now for vertices and pool."""
        pool = sum(part.keys.nbytes + part.surprise.nbytes + part.members.nbytes for part in self._parts)
        return self._left.nbytes + self._right.nbytes + pool

    def accept(self, block: BicliqueBlock, keys: np.ndarray) -> None:
        """Take in a block.

        Parameters
        ----------
        block : BicliqueBlock
            A block with members.
        keys : (n_bicliques,) int64

        Raises
        ------
        InvalidArgument
            A biclique is larger than the degrees of the graph allow.
        TypeError
            The block has no members.
        """
        if block.n_bicliques == 0:
            return
        model = self._model
        at_least = model.left_at_least, model.right_at_least
        left = self._left.with_block(block.left_sizes, block.left_members, *at_least)
        right = self._right.with_block(block.right_sizes, block.right_members, *reversed(at_least))
        scores, marks = np.empty(keys.size, np.int64), np.empty(keys.size, np.uint8)
        score, key = self._threshold
        null = at.Null(model.log_factorials, PAIR_WEIGHTS, np.int64(model.log_edges), np.int64(model.class_cost))
        at.score_block(left, right, keys, null, np.int64(score), np.int64(key), scores, marks)
        at.drop_overtaken(left, right, marks)
        rows = self._worth_keeping(scores, keys, marks)
        if rows.size:
            members = GroupMembers(long_offsets(left.sizes), left.members, long_offsets(right.sizes), right.members)
            self._keep(rows, Candidates(keys[rows], scores[rows], members.take(rows)))

    def sums(self) -> dict[str, np.ndarray]:
        """Return the state as arrays, for `restore`."""
        self._compact()
        (kept,) = self._parts
        names = [each.name for each in fields(GroupMembers)]
        return {
            "threshold": np.array(self._threshold, np.int64),
            "keys": kept.keys,
            "surprise": kept.surprise,
            **{name: getattr(kept.members, name) for name in names},
            **{
                f"{side}_{name}": getattr(vertices, name)
                for side, vertices in (("left", self._left), ("right", self._right))
                for name in _OF_VERTICES
            },
        }

    def restore(self, sums: Mapping[str, np.ndarray]) -> None:
        """Merge the result of `sums` of a sink for the same graph and `top`."""
        other = CandidateSink(self._model, self._left.best_rows.size, self._right.best_rows.size, self._top)
        names = [each.name for each in fields(GroupMembers)]
        members = GroupMembers(*(sums[name] for name in names))
        other._parts = [Candidates(sums["keys"], sums["surprise"], members)]
        score, key = sums["threshold"].tolist()
        other._threshold = score, key
        for side, vertices in (("left", other._left), ("right", other._right)):
            for name in _OF_VERTICES:
                setattr(vertices, name, sums[f"{side}_{name}"])
        self.merge(other)

    def finish(self) -> Candidates:
        """Return the best biclique of each vertex and the `top` best of all, without duplicates, best first."""
        self._compact()
        (kept,) = self._parts
        order = np.lexsort((kept.keys, -kept.surprise))
        new_rows = np.empty_like(order)
        new_rows[order] = np.arange(order.size)
        self._parts = [kept.take(order)]
        self._left.move(new_rows)
        self._right.move(new_rows)
        return self._parts[0]

    def _keep(self, rows: np.ndarray, found: Candidates) -> None:
        """Append the bicliques `rows` of the current block to the pool."""
        members = found.members
        first = np.int64(self._n_rows)
        at.settle(members.left_offsets, members.left_members, self._left.best_rows, rows, first)
        at.settle(members.right_offsets, members.right_members, self._right.best_rows, rows, first)
        self._parts.append(found)
        self._n_rows += len(found)
        self._n_members += members.left_members.size + members.right_members.size
        if self._n_rows > self._most_rows or self._n_members > self._most_members:
            self._compact()

    def _compact(self) -> None:
        """Drop bicliques that are neither some vertex's best nor among the `top` best of all."""
        keys, surprise = (
            np.concatenate([getattr(part, name) for part in self._parts]) for name in ("keys", "surprise")
        )
        is_kept = np.ones(keys.size, np.bool_)
        if keys.size > self._top:
            is_kept[:] = False
            chosen, self._threshold = highest(surprise, keys, self._top)
            is_kept[chosen] = True
            for vertices in (self._left, self._right):
                is_kept[vertices.best_rows[vertices.best_rows >= 0]] = True
        # Part by part, so that dropped rows are not copied.
        ends = np.cumsum([len(part) for part in self._parts])
        self._parts = [
            Candidates.joined(
                [
                    part.take(np.flatnonzero(is_kept[end - len(part) : end]))
                    for part, end in zip(self._parts, ends.tolist(), strict=True)
                ]
            )
        ]
        new_rows = np.cumsum(is_kept) - 1
        self._left.move(new_rows)
        self._right.move(new_rows)
        kept = self._parts[0].members
        self._n_rows, self._n_members = len(kept), kept.left_members.size + kept.right_members.size
        self._allow_growth()


def check_size(n_members: int, most: int) -> None:
    """Raise an error if a biclique has more members on a side than the graph's degrees allow."""
    if n_members > most:
        raise InvalidArgument(
            f"a biclique has {n_members} members on a side where degrees allow {most}: "
            "expected bicliques of the graph that the model is of"
        )


def highest(scores: Any, keys: Any, n: int, xp: Any = np) -> tuple[Any, tuple[int, int]]:
    """Return the rows of the `n` highest scores, ties by lower key, and score and key of the last of them.

    Parameters
    ----------
    scores, keys : (more than n,) int64
        NumPy or CuPy arrays.
    xp : module
        The module of these arrays.
    """
    lowest = xp.partition(scores, scores.size - n)[scores.size - n]
    above, tied = xp.flatnonzero(scores > lowest), xp.flatnonzero(scores == lowest)
    n_tied = n - above.size
    tied = tied[xp.argpartition(keys[tied], n_tied - 1)[:n_tied]]
    return xp.concatenate([above, tied]), (int(lowest), int(keys[tied].max()))


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the steps to compile for the sink."""
    return *at.compile_steps(), *group_members.compile_steps()


class _Vertices:
    """Records of the vertices of one side; see `block_scores.Side`."""

    def __init__(self, log_degrees: np.ndarray) -> None:
        n = log_degrees.size
        self.records = np.zeros((n, at.FIELDS), np.int64)
        self.records[:, at.LOG_DEGREE] = log_degrees
        self.records[:, at.BEST_SCORE] = LOWEST
        self.best_keys = np.full(n, _HIGHEST)
        self.best_rows = np.full(n, -1, np.int64)

    def field(self, which: np.int64) -> np.ndarray:
        """Return a copy of a column of the records."""
        return self.records[:, which].copy()

    @property
    def nbytes(self) -> int:
        return self.records.nbytes + self.best_keys.nbytes + self.best_rows.nbytes

    def with_block(
        self, sizes: np.ndarray | None, members: np.ndarray | None, at_least: np.ndarray, others: np.ndarray
    ) -> Side:
        """Return this side of a block for compiled code; `others` is `at_least` of the other side."""
        if sizes is None or members is None:
            raise TypeError("this block has no members: ask the engine for Detail.MEMBERS")
        check_size(int(sizes.max()), others.size - 1)
        return Side(sizes, members, at_least, self.records, self.best_keys, self.best_rows)

    def merge(self, other: _Vertices, first_row: int) -> None:
        """Merge the same vertices' records from another sink, whose rows now start at `first_row`."""
        mine, theirs = self.records, other.records
        for field, best_of in ((at.SHARE, np.maximum), (at.N_BICLIQUES, np.add)):
            best_of(mine[:, field], theirs[:, field], out=mine[:, field])
        score, other_score = mine[:, at.BEST_SCORE], theirs[:, at.BEST_SCORE]
        is_better = (other_score > score) | ((other_score == score) & (other.best_keys < self.best_keys))
        mine[is_better, at.BEST_SCORE] = other_score[is_better]
        self.best_keys[is_better] = other.best_keys[is_better]
        self.best_rows[is_better] = other.best_rows[is_better] + first_row

    def move(self, new_rows: np.ndarray) -> None:
        """Renumber the rows."""
        has_one = self.best_rows >= 0
        self.best_rows[has_one] = new_rows[self.best_rows[has_one]]
