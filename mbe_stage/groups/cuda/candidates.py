"""Candidates for groups from blocks in device memory: the counterpart of `mbe_stage.groups.candidates`.

Scores, records and the pool stay on the device; `finish` returns its result on the host. The result equals that of
`CandidateSink` for the same bicliques, bit by bit and however they are split into blocks.
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
    """Keeps the best biclique of each vertex and the best of all, with statistics for each vertex.

    Parameters, attributes and errors are those of `mbe_stage.groups.CandidateSink`; arrays in attributes are on the
    host.

    Notes
    -----
    Device memory: 40 bytes per vertex, 8 more for each vertex of the larger side, and numbers by degree; the pool, with
    32 bytes per biclique and 4 per member (`pool_bytes`); for the current block, 9 bytes per biclique, and up to 50
    more for each one that may be among the `top` best. In the first block this is every one.
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
        """Bytes of device memory used between blocks, for vertices and the pool."""
        kept = *self._tables, self._left, self._right, *self._parts
        return sum(int(each.nbytes) for each in kept)

    def accept(self, block: DeviceBlock, keys: cp.ndarray) -> None:
        """Take in a block.

        Parameters
        ----------
        keys : (n_bicliques,) int64
            Keys, on the device.

        Raises
        ------
        InvalidArgument
            A biclique is larger than the degrees of the graph allow.
        """
        if block.n_bicliques == 0:
            return
        largest = cp.stack([cp.diff(block.left_offsets).max(), cp.diff(block.right_offsets).max()])
        # Otherwise a kernel would read beyond the table of degrees.
        for n_members, others in zip(cp.asnumpy(largest).tolist(), (self._right, self._left), strict=True):
            check_size(n_members, others.at_least.size - 1)
        found = _Pool(keys, cp.empty(keys.size, cp.int64), block)
        marks = cp.empty(keys.size, cp.uint8)
        self._score(found, marks)
        rows = self._worth_keeping(found.scores, found.keys, marks, cp)
        if rows.size:
            self._keep(found.take(rows))

    def sums(self) -> dict[str, np.ndarray]:
        """Return the state as arrays, as `CandidateSink.sums`; either kind of sink can restore it."""
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
        """Merge the result of `sums` of a sink for the same graph and `top`."""
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
        """Return each vertex's best and the `top` best of all, without duplicates, best first, on the host."""
        self._compact()
        (kept,) = self._parts
        kept = kept.take(cp.lexsort(cp.stack([kept.keys, -kept.scores])))
        self._parts = [kept]
        by_key = cp.argsort(kept.keys)
        ascending = kept.keys[by_key]
        self._best = self._left.best_rows(ascending, by_key), self._right.best_rows(ascending, by_key)
        return kept.to_host()

    def _score(self, found: _Pool, marks: cp.ndarray) -> None:
        """Score the bicliques of a block, update the records, and mark the bicliques that may be worth keeping."""
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
        """Drop bicliques from the pool that are neither the best of a vertex nor among the `top` best of all."""
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
    """Return the bytes of the pool during compaction, if all vertices have different bests with some dozen members.

    This is more than it takes on most graphs, but not a bound: the pool grows as needed.
    """
    most_rows = 2 * (top + n_vertices) + top
    # The parts, and their concatenation or a selection of it.
    return 2 * most_rows * (32 + 4 * SPARE_MEMBERS_PER_ROW)


def compile_steps() -> Sequence[CompileStep]:
    """Return the steps to compile the sink's kernels for the current device."""
    return (*block_scores.compile_steps(), *compile_steps_of(take_warp_per_list))


@dataclass(frozen=True, slots=True, eq=False)
class _Pool:
    """Bicliques with their keys and scores, in device memory.

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
        """Concatenate pools."""
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
        """Return some of the bicliques, in the order of `rows`."""
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
        """Return the records of vertices without bicliques."""
        records = np.zeros((log_degrees.size, at.FIELDS), np.int64)
        records[:, at.LOG_DEGREE] = log_degrees
        records[:, at.BEST_SCORE] = LOWEST
        return cls(cp.asarray(at_least), cp.asarray(records), cp.full(log_degrees.size, HIGHEST, cp.int64))

    @property
    def nbytes(self) -> int:
        return int(self.at_least.nbytes + self.records.nbytes + self.best_keys.nbytes)

    def with_lists(self, offsets: cp.ndarray, members: cp.ndarray) -> Side:
        """Return this side of a block for kernels."""
        return Side(offsets, members, self.at_least, self.records, self.best_keys)

    def merge(self, other: _Vertices, first_row: int) -> None:  # noqa: ARG002 - rows are found by their keys
        """Merge the same vertices' records from another sink."""
        share, count, best = int(at.SHARE), int(at.N_BICLIQUES), int(at.BEST_SCORE)
        mine, theirs = self.records, other.records
        mine[:, share] = cp.maximum(mine[:, share], theirs[:, share])
        mine[:, count] += theirs[:, count]
        is_tied = (theirs[:, best] == mine[:, best]) & (other.best_keys < self.best_keys)
        is_better = (theirs[:, best] > mine[:, best]) | is_tied
        mine[:, best] = cp.where(is_better, theirs[:, best], mine[:, best])
        self.best_keys[:] = cp.where(is_better, other.best_keys, self.best_keys)

    def field(self, which: np.int64) -> np.ndarray:
        """Return a column of the records, on the host."""
        return cp.asnumpy(self.records[:, int(which)]).copy()

    def best_rows(self, ascending: cp.ndarray, rows: cp.ndarray) -> np.ndarray:
        """Return the row of each vertex's best, given the pool's sorted keys and their rows; -1 if it has none."""
        if not rows.size:
            return np.full(self.best_keys.size, -1)
        # The key of a vertex without bicliques is above all others.
        places = cp.minimum(cp.searchsorted(ascending, self.best_keys), rows.size - 1)
        found = cp.where(self.records[:, int(at.BEST_SCORE)] == LOWEST, -1, rows[places])
        return cp.asnumpy(found)


def _joined_offsets(parts: Sequence[cp.ndarray]) -> cp.ndarray:
    sizes = cp.concatenate([cp.diff(offsets) for offsets in parts])
    offsets = cp.zeros(sizes.size + 1, cp.int64)
    cp.cumsum(sizes, out=offsets[1:])
    return offsets
