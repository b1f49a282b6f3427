"""The sink that publishes from the device: blocks named, summed up, and written by libcudf, beside the engine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal

import cupy as cp

from mbe_stage.bicliques.cuda.blocks import DeviceBlock
from mbe_stage.bicliques.cuda.keys import biclique_keys
from mbe_stage.bicliques.results import Detail
from pipeline.backends.backend import FrameWriter
from pipeline.backends.cudf.frames import Frame
from pipeline.backends.cudf.parts import DataSet, WriterPool
from pipeline.backends.cudf.plan import LONG_FORM, WritingPlan
from pipeline.backends.cudf.writing import EngineShare, plan_writing
from pipeline.installed_publications import derived_of
from pipeline.outputs.bicliques.cudf.summary import Summary
from pipeline.outputs.bicliques.cudf.tables import biclique_frame, canonical_order, members_frame, pieces
from pipeline.publication import Collecting, DerivedCollector
from pipeline.schemas import BICLIQUES, MEMBERS

__all__ = ["ParquetSink", "sink_of"]


class ParquetSink:
    """Writes `bicliques/` unless it is left out, and `members/` when asked, under a run path; keeps a `Summary`.

    Parameters
    ----------
    run_path : Path
    hashes : pair of (n,) uint64
        Vertex hashes of the left and of the right side, on the device.
    plan : WritingPlan
    write_file : FrameWriter
    bicliques : bool
        Write the table; without it there is no long form and no order, and nothing grows with what passes.
    members : bool
        Also write the long form.
    sort : bool
        Rows in canonical order, ascending by `biclique_key`.
    derived : sequence of DerivedCollector
        Who else takes each piece of a block in, with its keys.

    Notes
    -----
    `accept` names and sums up, and hands frames to the writers' threads; it waits while those are behind. Use it as a
    context manager: leaving it writes the last parts, and raises what went wrong in a writer.

    Attributes
    ----------
    summary : Summary
    seconds : dict
        Wall time of `accept` and of leaving: ``name`` for keys, fingerprint and sums, ``write`` for sorting, making
        frames and waiting for the writers.
    shares : EngineShare or None
        What the engine may take beside the sink; None where that was not planned.
    write_file : FrameWriter
        How the other tables of the run are to be written.
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
        bicliques: bool = True,
        members: bool = False,
        sort: bool = False,
        derived: Sequence[DerivedCollector] = (),
    ) -> None:
        self.summary = Summary.of(hashes[0].size, hashes[1].size)
        self.seconds = {"name": 0.0, "write": 0.0}
        self.shares: EngineShare | None = None
        self.write_file = write_file
        self._hashes = hashes
        self._derived = derived
        self._piece_bytes = plan.piece_bytes
        self._order = canonical_order(run_path / ".sort", plan.sort_bytes, plan.piece_bytes) if sort else None
        self._writers = WriterPool(plan.n_writers, write_file)
        self._bicliques: DataSet | None = None
        if bicliques:
            self._bicliques = DataSet(run_path / "bicliques", BICLIQUES, self._writers, plan.piece_bytes)
        self._members: DataSet | None = None
        if members:
            part_bytes = LONG_FORM * plan.piece_bytes
            self._members = DataSet(run_path / "members", MEMBERS, self._writers, part_bytes)

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
            for each in self._derived:
                each.accept(piece, keys)
            cp.cuda.get_current_stream().synchronize()
            named = time.perf_counter()
            self.seconds["name"] += named - start
            if self._bicliques is None:
                continue
            frame = biclique_frame(piece, keys)
            if self._order is None:
                self._emit(frame)
            else:
                self._order.add(frame)
            self.seconds["write"] += time.perf_counter() - named

    def __enter__(self) -> ParquetSink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._writers.__exit__(kind, error, trace)
            return
        start = time.perf_counter()
        with self._writers:
            for frame in self._order.frames() if self._order is not None else ():
                self._emit(frame)
            self._finish()
        self.seconds["write"] += time.perf_counter() - start

    def _emit(self, frame: Frame) -> None:
        assert self._bicliques is not None
        self._bicliques.add(frame)
        if self._members is not None:
            self._members.add(members_frame(frame))

    def _finish(self) -> None:
        if self._bicliques is None:
            return
        empty = biclique_frame(DeviceBlock.empty(work_done=1.0), cp.zeros(0, cp.int64))
        self._bicliques.finish(empty)
        if self._members is not None:
            self._members.finish(members_frame(empty))


def sink_of(collecting: Collecting) -> ParquetSink:
    """The sink of a run, as its configuration asks for it, within what the run may take of the device's memory."""
    output, start = collecting.config.output, time.perf_counter()
    writing = plan_writing(
        collecting.backend.pool,
        output.compression,
        members=output.members,
        sort=output.sort,
        set_aside_bytes=sum(each.device_bytes(collecting) for each in derived_of(collecting.config)),
    )
    sink = ParquetSink(
        collecting.run_path,
        collecting.edges.key_hashes(),
        writing.plan,
        writing.write_file,
        bicliques=output.bicliques,
        members=output.members,
        sort=output.sort,
        derived=collecting.derived,
    )
    sink.shares = writing.engine
    sink.seconds = {"plan": time.perf_counter() - start} | sink.seconds
    return sink
