"""The sink that publishes from the device: blocks named, summed up, and written by libcudf, beside the engine."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal

import cudf
import cupy as cp

from mbe_stage.bicliques.cuda.blocks import DeviceBlock
from mbe_stage.bicliques.cuda.keys import add_to, biclique_keys
from mbe_stage.bicliques.cuda.participation import DeviceParticipation, DeviceSizeCounts
from mbe_stage.bicliques.keys import Fingerprint
from mbe_stage.bicliques.results import Detail
from pipeline.rapids.columns import pieces
from pipeline.rapids.order import DeviceOrder
from pipeline.rapids.parts import DataSet, FrameWriter, WriterCrew
from pipeline.rapids.plan import LONG_FORM, WritingPlan
from pipeline.rapids.tables import biclique_frame, members_frame
from pipeline.schemas import BICLIQUES, MEMBERS

__all__ = ["DeviceParquetSink", "DeviceSummary"]


@dataclass(slots=True)
class DeviceSummary:
    """What is known of all bicliques after they have streamed past; the device's twin of `summary.Summary`.

    Attributes
    ----------
    left, right : DeviceParticipation
    sizes : DeviceSizeCounts
    fingerprint : Fingerprint
    left_members, right_members : int
        Summed over all bicliques.
    """

    left: DeviceParticipation
    right: DeviceParticipation
    sizes: DeviceSizeCounts = field(default_factory=DeviceSizeCounts)
    fingerprint: Fingerprint = field(default_factory=Fingerprint)
    left_members: int = 0
    right_members: int = 0

    @classmethod
    def of(cls, n_left: int, n_right: int) -> DeviceSummary:
        """No biclique yet, of a graph of so many vertices."""
        return cls(DeviceParticipation.of(n_left), DeviceParticipation.of(n_right))

    def add(self, block: DeviceBlock, keys: cp.ndarray) -> None:
        """Take in one block and the keys of its bicliques."""
        n_edges = block.n_edges
        add_to(self.fingerprint, keys)
        self.sizes.add(block.left_sizes, block.right_sizes)
        self.left.add(block.left_offsets, block.left_members, n_edges, keys)
        self.right.add(block.right_offsets, block.right_members, n_edges, keys)
        self.left_members += block.left_members.size
        self.right_members += block.right_members.size


class DeviceParquetSink:
    """Writes `bicliques/`, and `members/` when asked, under a run path, and keeps a `DeviceSummary`.

    Parameters
    ----------
    run_path : Path
    hashes : pair of (n,) uint64
        Vertex hashes of the left and of the right side, on the device.
    plan : WritingPlan
    write_file : FrameWriter
    members : bool
        Also write the long form.
    sort : bool
        Rows in canonical order, ascending by `biclique_key`.

    Notes
    -----
    `accept` names and sums up, and hands frames to the writers' threads; it waits while those are behind. Use it as a
    context manager: leaving it writes the last parts, and raises what went wrong in a writer.

    Attributes
    ----------
    seconds : dict
        Wall time of `accept` and of leaving: ``name`` for keys, fingerprint and sums, ``write`` for sorting, making
        frames and waiting for the writers.
    """

    detail: Literal[Detail.MEMBERS] = Detail.MEMBERS
    on_device: Literal[True] = True

    def __init__(
        self,
        run_path: Path,
        hashes: tuple[cp.ndarray, cp.ndarray],
        plan: WritingPlan,
        write_file: FrameWriter,
        *,
        members: bool = False,
        sort: bool = False,
    ) -> None:
        self.summary = DeviceSummary.of(hashes[0].size, hashes[1].size)
        self.seconds = {"name": 0.0, "write": 0.0}
        self._hashes = hashes
        self._piece_bytes = plan.piece_bytes
        self._order = DeviceOrder(run_path / ".sort", plan.sort_bytes, plan.piece_bytes) if sort else None
        self._crew = WriterCrew(plan.n_writers, write_file)
        self._bicliques = DataSet(run_path / "bicliques", BICLIQUES, self._crew, plan.piece_bytes)
        self._members: DataSet | None = None
        if members:
            part_bytes = LONG_FORM * plan.piece_bytes
            self._members = DataSet(run_path / "members", MEMBERS, self._crew, part_bytes)

    def accept(self, block: DeviceBlock) -> None:
        """Take one block in; its arrays are kept until they are written.

        Raises
        ------
        PublishError
            An earlier part could not be written.
        """
        for piece in pieces(block, self._piece_bytes):
            start = time.perf_counter()
            keys = biclique_keys(piece, *self._hashes)
            self.summary.add(piece, keys)
            cp.cuda.get_current_stream().synchronize()
            named = time.perf_counter()
            frame = biclique_frame(piece, keys)
            if self._order is None:
                self._emit(frame)
            else:
                self._order.add(frame)
            self.seconds["name"] += named - start
            self.seconds["write"] += time.perf_counter() - named

    def __enter__(self) -> DeviceParquetSink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._crew.__exit__(kind, error, trace)
            return
        start = time.perf_counter()
        with self._crew:
            for frame in self._order.frames() if self._order is not None else ():
                self._emit(frame)
            self._finish()
        self.seconds["write"] += time.perf_counter() - start

    def _emit(self, frame: cudf.DataFrame) -> None:
        self._bicliques.add(frame)
        if self._members is not None:
            self._members.add(members_frame(frame))

    def _finish(self) -> None:
        empty = biclique_frame(DeviceBlock.empty(work_done=1.0), cp.zeros(0, cp.int64))
        self._bicliques.finish(empty)
        if self._members is not None:
            self._members.finish(members_frame(empty))
