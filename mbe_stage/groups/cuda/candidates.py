"""Candidates for groups, from blocks in device memory: the counterpart of `mbe_stage.groups.candidates`.

Scores, records and the pool stay on the device; what `finish` gives comes to the host. It is what `CandidateSink` gives
for the same bicliques, to the last bit, whatever the blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import cupy as cp
import numpy as np

from mbe_stage.bicliques.cuda.blocks import DeviceBlock
from mbe_stage.bicliques.results import Detail
from mbe_stage.device.copying import take_lists, take_warp_per_list
from mbe_stage.device.jit import compile_steps_of
from mbe_stage.device.launch import launch_warps
from mbe_stage.groups import block_scores as at
from mbe_stage.groups.candidates import (
    LOWEST,
    SPARE_MEMBERS_PER_ROW,
    TOP,
    BestBicliques,
    Candidates,
    check_size,
    highest,
)
from mbe_stage.groups.cuda import block_scores
from mbe_stage.groups.cuda.block_scores import HIGHEST, Side, Tables
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.null_model import PAIR_WEIGHTS, NullModel
from mbe_stage.runtime.compile_ahead import CompileStep


class DeviceCandidateSink(BestBicliques):
    """Keeps the best biclique of each vertex and the best of all, and sums up what each vertex is in.

    Parameters, attributes and errors are those of `mbe_stage.groups.CandidateSink`; arrays of the attributes are on the
    host.

    Notes
    -----
    Device memory: 40 bytes a vertex, 8 more for each of the larger side, and the numbers by degree; the pool, of 32
    bytes a biclique and 4 a member (`pool_bytes`); while a block is taken in, 9 bytes for each biclique of it, and up
    to 50 more for each that may be among the `top` best of all. In the first block that is each one.
    """

    detail: Literal[Detail.MEMBERS] = Detail.MEMBERS

    def __init__(self, model: NullModel, n_left: int, n_right: int, top: int = TOP) -> None:
        super().__init__(model, n_left, n_right, top)
        self._left = _Vertices.of(model.left_log_degrees, model.left_at_least)
        self._right = _Vertices.of(model.right_log_degrees, model.right_at_least)
        self._tables = Tables(cp.asarray(model.log_factorials), cp.asarray(PAIR_WEIGHTS))
        self._best = np.full(n_left, -1), np.full(n_right, -1)
        self._parts = [_Pool.of_none()]

    @property
    def left_best(self) -> np.ndarray:  # noqa: D102
        return self._best[0]

    @property
    def right_best(self) -> np.ndarray:  # noqa: D102
        return self._best[1]

    @property
    def nbytes(self) -> int:
        """Bytes of device memory held now, between blocks: what is kept of the vertices, and the pool."""
        kept = *self._tables, self._left, self._right, *self._parts
        return sum(int(each.nbytes) for each in kept)

    def accept(self, block: DeviceBlock, keys: cp.ndarray) -> None:
        """Take one block in.

        Parameters
        ----------
        keys : (n_bicliques,) int64
            On the device.

        Raises
        ------
        InvalidArgument
            A biclique is larger than the degrees of the graph allow.
        """
        if block.n_bicliques == 0:
            return
        largest = cp.stack([cp.diff(block.left_offsets).max(), cp.diff(block.right_offsets).max()])
        # A kernel would read behind what it knows of the degrees.
        for n_members, others in zip(cp.asnumpy(largest).tolist(), (self._right, self._left), strict=True):
            check_size(n_members, others.at_least.size - 1)
        found = _Pool(keys, cp.empty(keys.size, cp.int64), block)
        marks = cp.empty(keys.size, cp.uint8)
        self._score(found, marks)
        rows = self._worth_keeping(found.scores, found.keys, marks, cp)
        if rows.size:
            self._keep(found.take(rows))

    def sums(self) -> dict[str, np.ndarray]:
        """All that it keeps, as `CandidateSink.sums`: either sink may take it back."""
        self._compact()
        (kept,) = self._parts
        host, by_key = kept.to_host(), cp.argsort(kept.keys)
        of_sides = (("left", self._left), ("right", self._right))
        return {
            "threshold": np.array(self._threshold, np.int64),
            "keys": host.keys,
            "surprise": host.surprise,
            **{each.name: getattr(host.members, each.name) for each in fields(host.members)},
            **{f"{side}_records": cp.asnumpy(vertices.records) for side, vertices in of_sides},
            **{f"{side}_best_keys": cp.asnumpy(vertices.best_keys) for side, vertices in of_sides},
            **{f"{side}_best_rows": vertices.best_rows(kept.keys[by_key], by_key) for side, vertices in of_sides},
        }

    def restore(self, sums: Mapping[str, np.ndarray]) -> None:
        """Take back what `sums` gave of a sink of the same graph and `top`, as if this one had seen what that has."""
        other = DeviceCandidateSink(self._model, self._left.best_keys.size, self._right.best_keys.size, self._top)
        members = GroupMembers(*(sums[each.name] for each in fields(GroupMembers)))
        lists = members.left_offsets, members.left_members, members.right_offsets, members.right_members
        block = DeviceBlock(*(cp.asarray(array) for array in lists))
        other._parts = [_Pool(cp.asarray(sums["keys"]), cp.asarray(sums["surprise"]), block)]
        score, key = sums["threshold"].tolist()
        other._threshold = score, key
        for side, vertices in (("left", other._left), ("right", other._right)):
            vertices.records[:] = cp.asarray(sums[f"{side}_records"])
            vertices.best_keys[:] = cp.asarray(sums[f"{side}_best_keys"])
        self.merge(other)

    def finish(self) -> Candidates:
        """The best of each vertex, and the `top` best of all: each once, best first, on the host."""
        self._compact()
        (kept,) = self._parts
        kept = kept.take(cp.lexsort(cp.stack([kept.keys, -kept.scores])))
        self._parts = [kept]
        by_key = cp.argsort(kept.keys)
        ascending = kept.keys[by_key]
        self._best = self._left.best_rows(ascending, by_key), self._right.best_rows(ascending, by_key)
        return kept.to_host()

    def _score(self, found: _Pool, marks: cp.ndarray) -> None:
        """Score the bicliques of a block, take them into the records, and mark those that may be worth keeping."""
        kernel = block_scores.score_warp_per_biclique
        numbers = self._model.log_edges, self._model.class_cost, *self._threshold
        sides = self._sides(found.block)
        launch_warps(kernel, len(found), *sides, self._tables, found.keys, *numbers, found.scores, marks)
        self._launch(block_scores.lower_keys_warp_per_biclique, found, marks)
        self._launch(block_scores.drop_overtaken_warp_per_biclique, found, marks)

    def _launch(self, kernel: Any, pool: _Pool, marks: cp.ndarray) -> None:
        launch_warps(kernel, len(pool), *self._sides(pool.block), pool.keys, pool.scores, marks)

    def _sides(self, block: DeviceBlock) -> tuple[Side, Side]:
        return (
            self._left.with_lists(block.left_offsets, block.left_members),
            self._right.with_lists(block.right_offsets, block.right_members),
        )

    def _keep(self, found: _Pool) -> None:
        """Append bicliques to the pool."""
        self._parts.append(found)
        self._n_rows += len(found)
        self._n_members += found.n_members
        if self._n_rows > self._most_rows or self._n_members > self._most_members:
            self._compact()

    def _compact(self) -> None:
        """Drop candidates from the pool that are neither the best of a vertex nor among the `top` best of all."""
        pool = _Pool.joined(self._parts)
        self._parts = []
        if len(pool) > self._top:
            marks = cp.full(len(pool), at.IMPROVES, cp.uint8)
            self._launch(block_scores.drop_overtaken_warp_per_biclique, pool, marks)
            chosen, self._threshold = highest(pool.scores, pool.keys, self._top, cp)
            marks[chosen] |= at.IS_HIGH
            pool = pool.take(cp.flatnonzero(marks))
        self._parts = [pool]
        self._n_rows, self._n_members = len(pool), pool.n_members
        self._allow_growth()


def pool_bytes(n_vertices: int, top: int = TOP) -> int:
    """Bytes of the pool while it is compacted, where every vertex's best is another one, of a few dozen members.

    That is more than it takes on most graphs, and no bound: a pool holds what it has to.
    """
    most_rows = 2 * (top + n_vertices) + top
    # Parts, and what they are joined to or what is taken from that.
    return 2 * most_rows * (32 + 4 * SPARE_MEMBERS_PER_ROW)


def compile_steps() -> Sequence[CompileStep]:
    """Compile the sink's kernels for the current device."""
    return (*block_scores.compile_steps(), *compile_steps_of(take_warp_per_list))


@dataclass(frozen=True, slots=True, eq=False)
class _Pool:
    """Some bicliques with their keys and scores, in device memory.

    Attributes
    ----------
    keys, scores : (n,) int64
    """

    keys: cp.ndarray
    scores: cp.ndarray
    block: DeviceBlock

    @classmethod
    def of_none(cls) -> _Pool:
        return cls(cp.empty(0, cp.int64), cp.empty(0, cp.int64), DeviceBlock.empty(0.0))

    @classmethod
    def joined(cls, parts: Sequence[_Pool]) -> _Pool:
        """The bicliques of several, one behind the other."""
        if len(parts) == 1:
            return parts[0]
        blocks = [part.block for part in parts]
        return cls(
            cp.concatenate([part.keys for part in parts]),
            cp.concatenate([part.scores for part in parts]),
            DeviceBlock(
                _joined_offsets([block.left_offsets for block in blocks]),
                cp.concatenate([block.left_members for block in blocks]),
                _joined_offsets([block.right_offsets for block in blocks]),
                cp.concatenate([block.right_members for block in blocks]),
            ),
        )

    def __len__(self) -> int:
        return int(self.keys.size)

    @property
    def n_members(self) -> int:
        return int(self.block.left_members.size + self.block.right_members.size)

    @property
    def nbytes(self) -> int:
        return 32 * len(self) + 4 * self.n_members

    def take(self, rows: cp.ndarray) -> _Pool:
        """Some of them, in the order of `rows`."""
        block = self.block
        lists = (
            *take_lists(block.left_offsets, block.left_members, rows),
            *take_lists(block.right_offsets, block.right_members, rows),
        )
        return _Pool(self.keys[rows], self.scores[rows], DeviceBlock(*lists))

    def to_host(self) -> Candidates:
        block = self.block
        lists = block.left_offsets, block.left_members, block.right_offsets, block.right_members
        return Candidates(cp.asnumpy(self.keys), cp.asnumpy(self.scores), GroupMembers(*map(cp.asnumpy, lists)))


@dataclass(frozen=True, slots=True, eq=False)
class _Vertices:
    """Records of the vertices of one side; see `block_scores.Side`."""

    at_least: cp.ndarray
    records: cp.ndarray
    best_keys: cp.ndarray

    @classmethod
    def of(cls, log_degrees: np.ndarray, at_least: np.ndarray) -> _Vertices:
        """No biclique yet."""
        records = np.zeros((log_degrees.size, at.FIELDS), np.int64)
        records[:, at.LOG_DEGREE] = log_degrees
        records[:, at.BEST_SCORE] = LOWEST
        return cls(cp.asarray(at_least), cp.asarray(records), cp.full(log_degrees.size, HIGHEST, cp.int64))

    @property
    def nbytes(self) -> int:
        return int(self.at_least.nbytes + self.records.nbytes + self.best_keys.nbytes)

    def with_lists(self, offsets: cp.ndarray, members: cp.ndarray) -> Side:
        """This side of a block, as kernels take it."""
        return Side(offsets, members, self.at_least, self.records, self.best_keys)

    def merge(self, other: _Vertices, first_row: int) -> None:  # noqa: ARG002 - rows are found by their keys
        """Take in what another sink has kept of the same vertices."""
        share, count, best = int(at.SHARE), int(at.N_BICLIQUES), int(at.BEST_SCORE)
        mine, theirs = self.records, other.records
        mine[:, share] = cp.maximum(mine[:, share], theirs[:, share])
        mine[:, count] += theirs[:, count]
        is_tied = (theirs[:, best] == mine[:, best]) & (other.best_keys < self.best_keys)
        is_better = (theirs[:, best] > mine[:, best]) | is_tied
        mine[:, best] = cp.where(is_better, theirs[:, best], mine[:, best])
        self.best_keys[:] = cp.where(is_better, other.best_keys, self.best_keys)

    def field(self, which: np.int64) -> np.ndarray:
        """A column of the records, on the host."""
        return cp.asnumpy(self.records[:, int(which)]).copy()

    def best_rows(self, ascending: cp.ndarray, rows: cp.ndarray) -> np.ndarray:
        """Row of each vertex's best, given all keys of the pool and the row of each; -1 for a vertex in none."""
        if not rows.size:
            return np.full(self.best_keys.size, -1)
        # A vertex in none has a key behind the last.
        places = cp.minimum(cp.searchsorted(ascending, self.best_keys), rows.size - 1)
        found = cp.where(self.records[:, int(at.BEST_SCORE)] == LOWEST, -1, rows[places])
        return cp.asnumpy(found)


def _joined_offsets(parts: Sequence[cp.ndarray]) -> cp.ndarray:
    sizes = cp.concatenate([cp.diff(offsets) for offsets in parts])
    offsets = cp.zeros(sizes.size + 1, cp.int64)
    cp.cumsum(sizes, out=offsets[1:])
    return offsets
