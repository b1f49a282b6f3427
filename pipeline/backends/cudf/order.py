"""Rows in the order of a key, sorted on the device as far as there is room: as `backends.arrow.order` has them.

1. every frame that comes is sorted by itself and kept, cut into 1024 ranges of keys (a hash: nearly equally many each);
2. at the end, consecutive ranges that together make a part are taken from all of them, joined, sorted, handed on.

A result that outgrows its share of the device continues on the host: what is kept moves into the `KeyOrder` of Arrow,
which spills to disk, and comes back part by part. At a checkpoint that has a copy of all rows, in files that stay.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path

import cudf
import cupy as cp
import pyarrow as pa

from mbe_stage.pipeline.backends.arrow.order import GROUP_BYTES, N_RANGES, RANGE_BITS, range_groups
from mbe_stage.pipeline.backends.arrow.order import KeyOrder as HostOrder
from mbe_stage.pipeline.backends.cudf.parts import frame_bytes
from mbe_stage.pipeline.config.setting_names import setting

__all__ = ["KeyOrder"]

log = logging.getLogger(__name__)


class KeyOrder:
    """Takes rows in and gives them back in the order of a key.

    Parameters
    ----------
    schema : pa.Schema
        Of the rows.
    key : str
        The column to sort by: int64, uniformly distributed.
    row_bytes : callable
        Bytes in memory of each row of a frame, (n,) float64.
    on_device : callable
        Takes rows in host memory, and gives a frame of them as `add` takes it.
    on_host : callable
        Takes how many bytes are to be handed on at once, and gives the order that continues on the host.
    most_bytes : int
        Rows kept on the device.
    group_bytes : int
        Rows sorted and handed on at once.
    """

    def __init__(
        self,
        schema: pa.Schema,
        key: str,
        row_bytes: Callable[[cudf.DataFrame], cp.ndarray],
        on_device: Callable[[pa.RecordBatch], cudf.DataFrame],
        on_host: Callable[[int], HostOrder],
        most_bytes: int,
        group_bytes: int,
    ) -> None:
        self._schema = schema
        self._key = key
        self._row_bytes = row_bytes
        self._on_device, self._on_host = on_device, on_host
        self._most_bytes = most_bytes
        self._group_bytes = group_bytes
        self._runs: list[cudf.DataFrame] = []
        # So many of them, the first, the host's order has too.
        self._n_booked = 0
        self._bytes = 0
        self._range_bytes = cp.zeros(N_RANGES, cp.float64)
        self._is_on_host = False

    def add(self, frame: cudf.DataFrame) -> None:
        """Take in some rows."""
        if self._is_on_host:
            self._hand_over(frame)
            return
        self._keep(self._sorted(frame))
        if self._bytes > self._most_bytes:
            self._move_to_host()

    def checkpoint(self) -> list[Path]:
        """Have all rows in spill files, and leave these where they are; returns those that are new since the last.

        What is on the device stays there beside its copy.
        """
        if not self._is_on_host:
            for run in self._runs[self._n_booked :]:
                self._hand_over(run)
            self._n_booked = len(self._runs)
        return self._host.checkpoint()

    def restore(self, spill: Path) -> Iterator[pa.RecordBatch]:
        """Take in what an earlier process has spilled, and left there; yields its rows."""
        # In one: each is uploaded by itself.
        rows = pa.concat_batches(list(self._host.restore(spill)))
        yield rows
        if not self._is_on_host and self._bytes + rows.nbytes > self._most_bytes:
            self._move_to_host()
        if not self._is_on_host:
            # They stand in their order there.
            self._keep(self._on_device(rows))
            self._n_booked = len(self._runs)

    def frames(self) -> Iterator[cudf.DataFrame]:
        """All rows, ascending by key, a group at a time."""
        if self._is_on_host:
            for batch in self._host.batches():
                yield cudf.DataFrame.from_arrow(pa.Table.from_batches([batch]))
            return
        bounds = [self._bounds(run) for run in self._runs]
        for first, stop in range_groups(cp.asnumpy(self._range_bytes), self._group_bytes):
            rows = [run.iloc[at[first] : at[stop]] for run, at in zip(self._runs, bounds, strict=True)]
            yield self._sorted(cudf.concat(rows, ignore_index=True))

    def _move_to_host(self) -> None:
        log.info(
            "sorting on the host: the result is larger than the %d MiB that sorting may keep on the device, an eighth "
            f"of what {setting('execution.device_memory')} leaves beside the graph",
            self._most_bytes >> 20,
        )
        self._is_on_host = True
        while len(self._runs) > self._n_booked:
            self._hand_over(self._runs.pop())
        self._runs.clear()

    @cached_property
    def _host(self) -> HostOrder:
        # What comes back goes into device memory, which the groups are to fit.
        return self._on_host(min(GROUP_BYTES, self._group_bytes))

    def _keep(self, run: cudf.DataFrame) -> None:
        self._runs.append(run)
        self._bytes += frame_bytes(run)
        self._range_bytes += self._bytes_per_range(run)

    def _sorted(self, frame: cudf.DataFrame) -> cudf.DataFrame:
        return frame.sort_values(self._key, ignore_index=True)

    def _ranges(self, frame: cudf.DataFrame) -> cp.ndarray:
        return (frame[self._key].values >> (64 - RANGE_BITS)) + N_RANGES // 2

    def _bytes_per_range(self, frame: cudf.DataFrame) -> cp.ndarray:
        return cp.bincount(self._ranges(frame), weights=self._row_bytes(frame), minlength=N_RANGES)

    def _bounds(self, run: cudf.DataFrame) -> list[int]:
        return cp.searchsorted(self._ranges(run), cp.arange(N_RANGES + 1)).tolist()

    def _hand_over(self, frame: cudf.DataFrame) -> None:
        for batch in frame.to_arrow(preserve_index=False).cast(self._schema).to_batches():
            self._host.add(batch)
