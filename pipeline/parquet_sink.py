"""The sink that publishes: blocks of bicliques into Parquet, summed up on the way, in a thread beside the engine."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa

from mbe_stage.keys import Fingerprint, biclique_keys
from mbe_stage.participation import Participation, SizeCounts
from mbe_stage.results import BicliqueBlock, Detail
from pipeline.canonical import CanonicalOrder
from pipeline.parquet_parts import ROW_GROUP_BYTES, PartWriter
from pipeline.publish import as_publish_errors
from pipeline.schemas import BICLIQUES, MEMBERS
from pipeline.tables import biclique_batch, members_batch

__all__ = ["ParquetSink", "Summary"]

# Most blocks that wait for the writer, however small they are.
_MOST_QUEUED = 64


class Summary:
    """What is known of all bicliques after they have streamed past.

    Attributes
    ----------
    fingerprint : Fingerprint
    sizes : SizeCounts
    left, right : Participation
    left_members, right_members : int
        Summed over all bicliques.
    """

    def __init__(self, n_left: int, n_right: int) -> None:
        self.fingerprint = Fingerprint()
        self.sizes = SizeCounts()
        self.left = Participation.of(n_left)
        self.right = Participation.of(n_right)
        self.left_members = 0
        self.right_members = 0

    def add(self, block: BicliqueBlock, keys: np.ndarray) -> None:
        """Take in one block and the keys of its bicliques."""
        left_sizes, left_members = block.left_sizes, block.left_members
        right_sizes, right_members = block.right_sizes, block.right_members
        assert left_sizes is not None
        assert left_members is not None
        assert right_sizes is not None
        assert right_members is not None
        n_edges = left_sizes.astype(np.int64) * right_sizes
        self.fingerprint.add(keys)
        self.sizes.add(left_sizes, right_sizes)
        self.left.add(left_sizes, left_members, n_edges, keys)
        self.right.add(right_sizes, right_members, n_edges, keys)
        self.left_members += left_members.size
        self.right_members += right_members.size


class ParquetSink:
    """Writes `bicliques/`, and `members/` when asked, under a run path, and keeps a `Summary`.

    Parameters
    ----------
    run_path : Path
    left_hashes, right_hashes : (n,) uint64
        Vertex hashes, as `pipeline.ids.key_hashes` gives them.
    compression : str
    members : bool
        Also write the long form.
    sort : bool
        Rows in canonical order, ascending by `biclique_key`.
    block_bytes : int
        Size of the blocks that will come. As many may wait as make a row group, so that the engine goes on while one
        is encoded; at least one.

    Notes
    -----
    `accept` only hands the block to the writer thread, and waits while that one is behind. Use it as a context
    manager: leaving it closes the files, and raises what went wrong in the writer.
    """

    detail = Detail.MEMBERS

    def __init__(
        self,
        run_path: Path,
        left_hashes: np.ndarray,
        right_hashes: np.ndarray,
        *,
        compression: str = "zstd",
        members: bool = False,
        sort: bool = False,
        block_bytes: int = 16 << 20,
    ) -> None:
        self.summary = Summary(left_hashes.size, right_hashes.size)
        self._path = run_path
        self._hashes = left_hashes, right_hashes
        self._bicliques = PartWriter(run_path / "bicliques", BICLIQUES, compression)
        self._order = CanonicalOrder(run_path / ".sort") if sort else None
        self._members = PartWriter(run_path / "members", MEMBERS, compression) if members else None
        self._blocks: queue.Queue[BicliqueBlock | None] = queue.Queue(
            min(_MOST_QUEUED, max(1, (64<<20) // block_bytes))
        )
        self._failure: BaseException | None = None
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name="parquet-writer", daemon=True)
        self._thread.start()

    def accept(self, block: BicliqueBlock) -> None:
        """Take one block in; its arrays are kept until they are written.

        Raises
        ------
        PublishError
            An earlier block could not be written.
        """
        if self._failure is not None:
            raise self._failure
        if block.n_bicliques:
            self._blocks.put(block)

    def __enter__(self) -> ParquetSink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._stopped = kind is not None
            self._blocks.put(None)
            self._thread.join()
        except BaseException:
            # Ctrl-C while the last rows are written: the thread must be gone before anybody removes its files.
            self._stopped = True
            self._blocks.put(None)
            self._thread.join()
            raise
        if kind is None and self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        """The writer thread: until the sentinel; after a failure it only empties the queue, so nobody waits for it."""
        while (block := self._blocks.get()) is not None:
            self._attempt(self._write, block)
            # Not kept alive while waiting for the next one.
            del block
        self._attempt(self._finish)
        if self._failure is not None or self._stopped:
            for writer in self._writers():
                writer.abort()

    def _attempt(self, action: Callable[..., None], *arguments: object) -> None:
        if self._failure is not None or self._stopped:
            return
        try:
            with as_publish_errors(self._path):
                action(*arguments)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that accepts
            self._failure = error

    def _writers(self) -> list[PartWriter]:
        return [writer for writer in (self._bicliques, self._members) if writer is not None]

    def _write(self, block: BicliqueBlock) -> None:
        keys = biclique_keys(block, *self._hashes)
        self.summary.add(block, keys)
        batch = biclique_batch(block, keys)
        if self._order is None:
            self._emit(batch)
        else:
            self._order.add(batch)

    def _emit(self, batch: pa.RecordBatch) -> None:
        self._bicliques.write(batch)
        if self._members is not None:
            self._members.write(members_batch(batch))

    def _finish(self) -> None:
        for batch in self._order.batches() if self._order is not None else ():
            if self._stopped:
                return
            self._emit(batch)
        for writer in self._writers():
            writer.close()
