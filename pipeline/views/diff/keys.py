"""Bicliques of only one of two runs: the difference of two sets of int64 keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numba import int64

from mbe_stage.pipeline.publish.reading import bicliques_parts, open_part, reading
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import LONGS, compiled, readonly, steps_of

_ROWS = 1 << 18


def run_keys(run_path: Path) -> np.ndarray:
    """Return every `biclique_key` of a run, ascending; ``(n_bicliques,) int64``, 8 bytes each."""
    parts = bicliques_parts(run_path)
    keys = np.empty(sum(pq.read_metadata(part).num_rows for part in parts), np.int64)
    end = 0
    with reading(run_path):
        for batch in _key_batches(parts):
            keys[end : end + batch.size] = batch
            end += batch.size
    keys.sort()
    return keys


def differing_keys(old: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the keys only in `old` and those only in `new`; all are ascending and distinct."""
    return _only_in_first(old, new), _only_in_first(new, old)


class KeySet:
    """Ascending keys with an index of their leading bits: keys are hashes, so each lookup touches two cache lines.

    Parameters
    ----------
    keys : (n,) int64
        Ascending and distinct.
    """

    def __init__(self, keys: np.ndarray) -> None:
        self.keys = keys
        self._bits = min(max(int(keys.size).bit_length() - 2, 1), 24)
        edges = (np.arange(1, 1 << self._bits) << (64 - self._bits)) + np.iinfo(np.int64).min
        self._starts = np.concatenate([[0], np.searchsorted(keys, edges), [keys.size]])

    def positions_in(self, keys: np.ndarray) -> np.ndarray:
        """Return the positions in `keys` (in any order) whose key is in the set."""
        return _positions(keys, self.keys, self._starts, self._bits)


def _key_batches(parts: list[Path]) -> Iterator[np.ndarray]:
    for part in parts:
        with open_part(part) as file:
            for batch in file.iter_batches(_ROWS, columns=["biclique_key"]):
                yield batch.column(0).to_numpy()


@compiled(LONGS, LONGS)
def _only_in_first(first, second):
    n = j = 0
    for i in range(first.size):
        while j < second.size and second[j] < first[i]:
            j += 1
        n += j == second.size or second[j] != first[i]
    only = np.empty(n, np.int64)
    n = j = 0
    for i in range(first.size):
        while j < second.size and second[j] < first[i]:
            j += 1
        if j == second.size or second[j] != first[i]:
            only[n] = first[i]
            n += 1
    return only


@compiled(readonly(LONGS), LONGS, LONGS, int64)
def _positions(keys, wanted, starts, bits):
    positions = np.empty(keys.size, np.int64)
    n = 0
    for i in range(keys.size):
        key = keys[i]
        bucket = (key >> (64 - bits)) + (1 << (bits - 1))
        low, high = starts[bucket], starts[bucket + 1]
        while low < high:
            middle = (low + high) >> 1
            if wanted[middle] < key:
                low = middle + 1
            else:
                high = middle
        if low < starts[bucket + 1] and wanted[low] == key:
            positions[n] = i
            n += 1
    return positions[:n]


def compile_steps() -> tuple[CompileStep, ...]:
    """List the compiled functions of this module."""
    return steps_of(_only_in_first, _positions)
