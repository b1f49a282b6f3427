"""The sink that publishes from the device: blocks named, summed up, and written by libcudf, beside the engine."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import cupy as cp

from mbe_stage.bicliques.results import Detail
from mbe_stage.pipeline.backends.backend import FrameWriter
from mbe_stage.pipeline.backends.cudf.block_writer import BlockWriter
from mbe_stage.pipeline.backends.cudf.frames import Frame
from mbe_stage.pipeline.backends.cudf.plan import LONG_FORM, WritingPlan
from mbe_stage.pipeline.backends.cudf.writing import writing_of
from mbe_stage.pipeline.execution.journal import Journal
from mbe_stage.pipeline.problems.base import Collecting, DerivedCollector
from mbe_stage.pipeline.problems.bicliques.cudf.summary import Summary
from mbe_stage.pipeline.problems.bicliques.cudf.tables import ROWS, members_frame, rows_of
from mbe_stage.pipeline.problems.bicliques.largest import n_shown
from mbe_stage.pipeline.publish.schemas import BICLIQUES, MEMBERS

__all__ = ["ParquetSink", "sink_of"]


class ParquetSink(BlockWriter):
    """Writes `bicliques/` unless it is left out, and `members/` when asked, under a run path; keeps a `Summary`.

    Parameters
    ----------
    hashes : pair of (n,) uint64
        Vertex hashes of the left and of the right side, on the device.
    bicliques : bool
        Write the table; without it there is no long form and no order, and nothing grows with what passes.
    members : bool
        Also write the long form.
    sort : bool
        Rows in canonical order, ascending by `biclique_key`.
    n_shown : int
        How many of the largest the report shows; none are kept for 0.
    derived : sequence of DerivedCollector
        Who else takes each piece of a block in, with its keys.
    journal : Journal, optional
        As of `BlockWriter`.

    Attributes
    ----------
    summary : Summary
    """

    detail: Literal[Detail.MEMBERS] = Detail.MEMBERS

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
        n_shown: int = 0,
        derived: Sequence[DerivedCollector] = (),
        journal: Journal | None = None,
    ) -> None:
        self.summary = Summary.of(hashes[0].size, hashes[1].size, n_shown)
        schemas = ({"bicliques": (BICLIQUES, 1)} if bicliques else {}) | (
            {"members": (MEMBERS, LONG_FORM)} if members else {}
        )

        def spread(frame: Frame) -> Iterator[Frame]:
            yield frame
            if members:
                yield members_frame(frame)

        order = partial(ROWS.canonical_order, most_bytes=plan.sort_bytes, group_bytes=plan.piece_bytes)
        rows = rows_of(hashes, self.summary, derived)
        super().__init__(rows, run_path, schemas, plan, write_file, spread, order if sort else None, journal)


def sink_of(collecting: Collecting) -> ParquetSink:
    """The sink of a run, as its configuration asks for it, within what the run may take of the device's memory."""
    output, start = collecting.config.output, time.perf_counter()
    writing = writing_of(collecting, members=output.members)
    sink = ParquetSink(
        collecting.run_path,
        collecting.edges.key_hashes(),
        writing.plan,
        writing.write_file,
        bicliques=output.bicliques,
        members=output.members,
        sort=output.sort,
        n_shown=n_shown(output),
        derived=collecting.derived,
        journal=collecting.journal,
    )
    return sink.planned(writing.engine, time.perf_counter() - start)
