"""Sort rows by a key on the device if they fit, in the order of `backends.arrow.order`.

1. every incoming frame is sorted by itself and kept, cut into 1024 ranges of keys (a hash: nearly equally many each);
2. at the end, consecutive ranges that together make a part are taken from all frames, joined, sorted, and passed on.

A result that outgrows its share of the device continues on the host. The kept frames move into Arrow's `KeyOrder`,
which spills to disk, and come back part by part. At a checkpoint the host order has a copy of all rows, in files that
stay.
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

log = logging.getLogger(__name__)


class KeyOrder:
    """Takes rows and returns them sorted by a key.

    Parameters
    ----------
    schema : pa.Schema
        Schema of the rows.
    key : str
        The column to sort by: int64, uniformly distributed.
    row_bytes : callable
        Returns the in-memory bytes of each row of a frame, (n,) float64.
    on_device : callable
        Takes rows in host memory, and returns a frame as `add` takes it.
    on_host : callable
        Takes the number of bytes to pass on at once, and returns the order that continues on the host.
    most_bytes : int
        Limit for rows on the device.
    group_bytes : int
        Bytes of rows to sort and pass on at once.
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
        # Number of leading frames that the host's order has too.
        self._n_booked = 0
        self._bytes = 0
        self._range_bytes = cp.zeros(N_RANGES, cp.float64)
        self._is_on_host = False

    def add(self, frame: cudf.DataFrame) -> None:
        """Add some rows."""
        if self._is_on_host:
            self._hand_over(frame)
            return
        self._keep(self._sorted(frame))
        if self._bytes > self._most_bytes:
            self._move_to_host()

    def checkpoint(self) -> list[Path]:
        """Write all rows to spill files that stay, and return the files that are new since the last checkpoint.

        Rows on the device stay there as well.
        """
        if not self._is_on_host:
            for run in self._runs[self._n_booked :]:
                self._hand_over(run)
            self._n_booked = len(self._runs)
        return self._host.checkpoint()

    def restore(self, spill: Path) -> Iterator[pa.RecordBatch]:
        """Add the rows that an earlier process has spilled, keep the file, and yield the rows."""
        # In one batch, because each batch is uploaded separately.
        rows = pa.concat_batches(list(self._host.restore(spill)))
        yield rows
        if not self._is_on_host and self._bytes + rows.nbytes > self._most_bytes:
            self._move_to_host()
        if not self._is_on_host:
            # They are sorted there already.
            self._keep(self._on_device(rows))
            self._n_booked = len(self._runs)

    def frames(self) -> Iterator[cudf.DataFrame]:
        """Yield all rows, ascending by key, a group at a time."""
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
            f"of {setting('execution.device_memory')} without the graph",
            self._most_bytes >> 20,
        )
        self._is_on_host = True
        while len(self._runs) > self._n_booked:
            self._hand_over(self._runs.pop())
        self._runs.clear()

    @cached_property
    def _host(self) -> HostOrder:
        # Returning rows go into device memory, which the groups must fit.
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
