"""Canonical order on the device: rows ascending by `biclique_key`, as `pipeline.canonical` has them on the host.

1. every frame that comes is sorted by itself and kept, cut into 1024 ranges of keys (a hash: nearly equally many each);
2. at the end, consecutive ranges that together make a part are taken from all of them, joined, sorted, handed on.

A result that outgrows its share of the device continues on the host: what is kept moves into `CanonicalOrder`, which
spills to disk, and comes back part by part.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import cudf
import cupy as cp
import pyarrow as pa

from pipeline.canonical import GROUP_BYTES, N_RANGES, RANGE_BITS, CanonicalOrder, range_groups
from pipeline.naming import setting
from pipeline.rapids.parts import frame_bytes
from pipeline.schemas import BICLIQUES

__all__ = ["DeviceOrder"]

log = logging.getLogger(__name__)


class DeviceOrder:
    """Takes rows of `bicliques/` in and gives them back sorted.

    Parameters
    ----------
    scratch : Path
        Directory for spill files of the host; made when first needed, removed when the last row has been given back.
    most_bytes : int
        Rows kept on the device.
    group_bytes : int
        Rows sorted and handed on at once.
    """

    def __init__(self, scratch: Path, most_bytes: int, group_bytes: int) -> None:
        self._scratch = scratch
        self._most_bytes = most_bytes
        self._group_bytes = group_bytes
        self._runs: list[cudf.DataFrame] = []
        self._bytes = 0
        self._range_bytes = cp.zeros(N_RANGES, cp.float64)
        self._host: CanonicalOrder | None = None

    def add(self, frame: cudf.DataFrame) -> None:
        """Take in some rows."""
        if self._host is None:
            self._runs.append(_sorted(frame))
            self._bytes += frame_bytes(frame)
            self._range_bytes += _bytes_per_range(frame)
            if self._bytes > self._most_bytes:
                self._move_to_host()
        else:
            _hand_over(frame, self._host)

    def frames(self) -> Iterator[cudf.DataFrame]:
        """All rows, ascending by key, a group at a time."""
        if self._host is not None:
            for batch in self._host.batches():
                yield cudf.DataFrame.from_arrow(pa.Table.from_batches([batch]))
            return
        bounds = [_bounds(run) for run in self._runs]
        for first, stop in range_groups(cp.asnumpy(self._range_bytes), self._group_bytes):
            rows = [run.iloc[at[first] : at[stop]] for run, at in zip(self._runs, bounds, strict=True)]
            yield _sorted(cudf.concat(rows, ignore_index=True))

    def _move_to_host(self) -> None:
        log.info(
            "sorting on the host: the result is larger than the %d MiB that sorting may keep on the device, an eighth "
            f"of what {setting('execution.device_memory')} leaves beside the graph",
            self._most_bytes >> 20,
        )
        # What comes back goes into device memory, which the groups are to fit.
        self._host = CanonicalOrder(self._scratch, group_bytes=min(GROUP_BYTES, self._group_bytes))
        while self._runs:
            _hand_over(self._runs.pop(), self._host)


def _sorted(frame: cudf.DataFrame) -> cudf.DataFrame:
    return frame.sort_values("biclique_key", ignore_index=True)


def _ranges(frame: cudf.DataFrame) -> cp.ndarray:
    return (frame["biclique_key"].values >> (64 - RANGE_BITS)) + N_RANGES // 2


def _bytes_per_range(frame: cudf.DataFrame) -> cp.ndarray:
    # Of one row: key, sizes, edges, offsets, members.
    weights = 32 + 4 * (frame["n_left"].values.astype(cp.float64) + frame["n_right"].values)
    return cp.bincount(_ranges(frame), weights=weights, minlength=N_RANGES)


def _bounds(run: cudf.DataFrame) -> list[int]:
    return cp.searchsorted(_ranges(run), cp.arange(N_RANGES + 1)).tolist()


def _hand_over(frame: cudf.DataFrame, host: CanonicalOrder) -> None:
    for batch in frame.to_arrow(preserve_index=False).cast(BICLIQUES).to_batches():
        host.add(batch)
