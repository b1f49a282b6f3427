"""The sink that publishes from the device: blocks named, summed up, and written by libcudf, beside the engine."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import cupy as cp

from mbe_stage.cliques.results import Detail
from mbe_stage.pipeline.backends.backend import FrameWriter
from mbe_stage.pipeline.backends.cudf.block_writer import BlockWriter
from mbe_stage.pipeline.backends.cudf.frames import Frame
from mbe_stage.pipeline.backends.cudf.plan import WritingPlan
from mbe_stage.pipeline.backends.cudf.writing import writing_of
from mbe_stage.pipeline.execution.journal import Journal
from mbe_stage.pipeline.problems.base import Collecting, DerivedCollector
from mbe_stage.pipeline.problems.cliques.cudf.summary import Summary
from mbe_stage.pipeline.problems.cliques.cudf.tables import ROWS, rows_of
from mbe_stage.pipeline.problems.cliques.query import hashes_of
from mbe_stage.pipeline.problems.cliques.schemas import CLIQUES

__all__ = ["ParquetSink", "sink_of"]


class ParquetSink(BlockWriter):
    """Writes `cliques/` under a run path; keeps a `Summary`.

    Parameters
    ----------
    hashes : (n,) uint64
        Vertex hash of each key as a left one, on the device.
    sort : bool
        Rows in canonical order, ascending by `clique_key`.
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
        hashes: cp.ndarray,
        plan: WritingPlan,
        write_file: FrameWriter,
        *,
        sort: bool = False,
        derived: Sequence[DerivedCollector] = (),
        journal: Journal | None = None,
    ) -> None:
        self.summary = Summary.of(hashes.size)
        order = partial(ROWS.canonical_order, most_bytes=plan.sort_bytes, group_bytes=plan.piece_bytes)
        rows, schemas = rows_of(hashes, self.summary, derived), {"cliques": (CLIQUES, 1)}
        super().__init__(rows, run_path, schemas, plan, write_file, _alone, order if sort else None, journal)


def sink_of(collecting: Collecting) -> ParquetSink:
    """The sink of a run, as its configuration asks for it, within what the run may take of the device's memory."""
    start, config = time.perf_counter(), collecting.config
    hashes = hashes_of(config.asked, collecting.edges, collecting.backend)
    writing = writing_of(collecting)
    sink = ParquetSink(
        collecting.run_path,
        hashes,
        writing.plan,
        writing.write_file,
        sort=config.output.sort,
        derived=collecting.derived,
        journal=collecting.journal,
    )
    return sink.planned(writing.engine, time.perf_counter() - start)


def _alone(frame: Frame) -> Iterator[Frame]:
    yield frame
