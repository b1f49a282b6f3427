"""Differing bicliques with their members' keys, and the largest of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from mbe_stage.pipeline.publish.reading import bicliques_parts, open_part, reading, vertex_keys
from mbe_stage.pipeline.views.diff.job import PAIRED, RunDiff, Status
from mbe_stage.pipeline.views.diff.keys import KeySet
from mbe_stage.pipeline.views.diff.rows import Side
from mbe_stage.pipeline.views.top import Biclique

# Rows with member lists to decode at once.
_DECODED_ROWS = 1 << 14
_COLUMNS = ["biclique_key", "left", "right"]

_OF_OLD = ("gone", "only_in_old")


def bicliques_with(run_path: Path, keys: np.ndarray) -> dict[int, Biclique]:
    """Return the bicliques of a run with these keys, by key; row groups without one of them are not decoded."""
    wanted = KeySet(np.unique(keys))
    found: dict[int, Biclique] = {}
    if not keys.size:
        return found
    names = _names(run_path)
    with reading(run_path):
        for part in bicliques_parts(run_path):
            with open_part(part) as file:
                for group in range(file.metadata.num_row_groups):
                    here = file.read_row_group(group, columns=["biclique_key"]).column(0).to_numpy()
                    if not wanted.positions_in(here).size:
                        continue
                    for batch in file.iter_batches(_DECODED_ROWS, row_groups=[group], columns=_COLUMNS):
                        at = wanted.positions_in(batch.column("biclique_key").to_numpy())
                        found |= {one.key: one for one in _bicliques(batch.take(pa.array(at)), names)}
    return found


def rows_with_members(side: Side, chosen: np.ndarray) -> Iterator[tuple[np.ndarray, pa.ListArray, pa.ListArray]]:
    """Yield chosen bicliques of a side in batches: positions, and the own keys of left and right members.

    Parameters
    ----------
    chosen : (n,) bool
    """
    names = _names(side.run_path)
    of_side = KeySet(np.sort(side.keys))
    first = 0
    with reading(side.run_path):
        for part in bicliques_parts(side.run_path):
            with open_part(part) as file:
                for batch in file.iter_batches(_DECODED_ROWS, columns=_COLUMNS):
                    # Rows of a side are in file order.
                    at = of_side.positions_in(batch.column("biclique_key").to_numpy())
                    positions = np.arange(first, first + at.size)
                    first += at.size
                    kept = chosen[positions]
                    if kept.any():
                        rows = batch.take(pa.array(at[kept]))
                        left, right = (_named(rows.column(name), names[name]) for name in ("left", "right"))
                        yield positions[kept], left, right


def _names(run_path: Path) -> dict[str, pa.Array]:
    return {side: _one_array(vertex_keys(run_path, side)) for side in ("left", "right")}


def _one_array(keys: pa.ChunkedArray) -> pa.Array:
    whole = keys.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def _named(members: pa.ListArray, names: pa.Array) -> pa.ListArray:
    return pa.ListArray.from_arrays(members.offsets, names.take(members.values))


def _bicliques(rows: pa.RecordBatch, names: dict[str, pa.Array]) -> Iterator[Biclique]:
    lists = (_named(rows.column(side), names[side]).to_pylist() for side in ("left", "right"))
    for key, left, right in zip(rows.column("biclique_key").to_pylist(), *lists, strict=True):
        yield Biclique(key=key, left=tuple(left), right=tuple(right), n_edges=len(left) * len(right))


@dataclass(frozen=True, slots=True)
class Difference:
    """A biclique of one run only, and its partner in the other run, if any.

    Attributes
    ----------
    biclique : Biclique
        From the new run; from the old one if the status is ``gone`` or ``only_in_old``.
    partner : Biclique or None
        The partner, from the old run.
    jaccard : float or None
        Common members divided by all members of the two, of both sides.
    """

    status: Status
    biclique: Biclique
    partner: Biclique | None = None
    jaccard: float | None = None


def largest_differences(diff: RunDiff, limit: int, only: Iterable[Status] | None = None) -> list[Difference]:
    """Return the bicliques with the most edges per status, at most `limit` each; `only` selects statuses.

    Returns
    -------
    list of Difference
        By status in the order of `STATUSES`, then most edges first; ties go to the smaller key.
    """
    statuses = [status for status, count in diff.counts.items() if count and (only is None or status in set(only))]
    chosen = {status: _largest(*_rows_with(diff, status), limit) for status in statuses}
    found = {
        of_old: bicliques_with(run, _keys(diff, chosen, of_old))
        for of_old, run in ((False, diff.new), (True, diff.old))
    }
    return [_difference(diff, status, int(at), found) for status in statuses for at in chosen[status]]


def _rows_with(diff: RunDiff, status: Status) -> tuple[Side, np.ndarray]:
    """Return a side, and the positions in it with this status."""
    if status in _OF_OLD:
        partners = None if diff.pairs is None else diff.pairs.partner_of_gone
        return diff.only_old, np.arange(len(diff.only_old)) if partners is None else np.flatnonzero(partners < 0)
    if diff.pairs is None:
        return diff.only_new, np.arange(len(diff.only_new))
    kind = PAIRED.index(status) + 1 if status in PAIRED else 0
    return diff.only_new, np.flatnonzero(diff.pairs.kind == kind)


def _largest(side: Side, positions: np.ndarray, limit: int) -> np.ndarray:
    edges = side.n_left[positions].astype(np.int64) * side.n_right[positions]
    if edges.size > limit:
        # All candidates for the first places, including ties at the end.
        kept = edges >= np.partition(edges, edges.size - limit)[edges.size - limit]
        positions, edges = positions[kept], edges[kept]
    return positions[np.lexsort((side.keys[positions], -edges))[:limit]]


def _keys(diff: RunDiff, chosen: dict[Status, np.ndarray], of_old: bool) -> np.ndarray:
    side = diff.only_old if of_old else diff.only_new
    keys = [side.keys[at] for status, at in chosen.items() if (status in _OF_OLD) is of_old]
    if of_old and diff.pairs is not None:
        partners = [diff.pairs.partner_of_new[at] for status, at in chosen.items() if status in PAIRED]
        keys += [side.keys[at] for at in partners]
    return np.concatenate([np.zeros(0, np.int64), *keys])


def _difference(diff: RunDiff, status: Status, at: int, found: dict[bool, dict[int, Biclique]]) -> Difference:
    if status in _OF_OLD:
        return Difference(status, found[True][int(diff.only_old.keys[at])])
    biclique = found[False][int(diff.only_new.keys[at])]
    if diff.pairs is None or status not in PAIRED:
        return Difference(status, biclique)
    partner = found[True][int(diff.only_old.keys[diff.pairs.partner_of_new[at]])]
    return Difference(status, biclique, partner, float(diff.pairs.jaccard[at]))
