"""The sink that publishes: blocks of bicliques into Parquet, summed up on the way, in threads beside the engine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.keys import biclique_keys
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.pipeline.backends.arrow.block_rows import BlockRows
from mbe_stage.pipeline.backends.arrow.row_sink import RowSink
from mbe_stage.pipeline.backends.arrow.summaries import Summaries
from mbe_stage.pipeline.backends.arrow.worker_parts import parts_of
from mbe_stage.pipeline.problems.base import Collecting, DerivedCollector
from mbe_stage.pipeline.problems.bicliques.arrow.summary import Summary
from mbe_stage.pipeline.problems.bicliques.arrow.tables import (
    biclique_batch,
    block_of,
    canonical_order,
    left_in_spills,
    members_batch,
)
from mbe_stage.pipeline.problems.bicliques.largest import n_shown
from mbe_stage.pipeline.publish.schemas import BICLIQUES, MEMBERS

__all__ = ["ParquetSink", "sink_of"]


class ParquetSink(RowSink[Summary]):
    """Writes `bicliques/` unless it is left out, and `members/` when asked, under a run path; keeps a `Summary`.

    Parameters
    ----------
    left_hashes, right_hashes : (n,) uint64
        Vertex hashes, as `pipeline.backends.arrow.hashes.key_hashes` gives them.
    bicliques : bool
        Write the table; without it there is no long form and no order, and nothing grows with what passes.
    members : bool
        Also write the long form.
    sort : bool
        Rows in canonical order, ascending by `biclique_key`.
    n_shown : int
        How many of the largest the report shows; none are kept for 0.
    derived : sequence of DerivedCollector
        Who else takes each block in, with its keys.
    spills : bool
        With `sort`: leave the rows in spill files, for the sink that puts those of several workers in order.
    **writing
        As `RowSink` takes it: `compression`, `block_bytes`, `memory_budget`, `journal`, `parts`.
    """

    detail: Literal[Detail.MEMBERS] = Detail.MEMBERS

    def __init__(
        self,
        run_path: Path,
        left_hashes: np.ndarray,
        right_hashes: np.ndarray,
        *,
        bicliques: bool = True,
        members: bool = False,
        sort: bool = False,
        n_shown: int = 20,
        derived: Sequence[DerivedCollector] = (),
        spills: bool = False,
        **writing: Any,
    ) -> None:
        rows = BlockRows(
            keys=lambda block: biclique_keys(block, left_hashes, right_hashes),
            batch=biclique_batch,
            n_bytes=_member_bytes,
            block_of=block_of,
            members={"left": ("n_left", left_hashes.size), "right": ("n_right", right_hashes.size)},
            summaries=Summaries(lambda: Summary(left_hashes.size, right_hashes.size, n_shown)),
            derived=derived,
        )
        schemas = ({"bicliques": BICLIQUES} if bicliques else {}) | ({"members": MEMBERS} if members else {})
        super().__init__(
            rows,
            run_path,
            schemas,
            spread=_with_members if members else None,
            order=(left_in_spills if spills else canonical_order) if sort else None,
            **writing,
        )


def _member_bytes(block: BicliqueBlock) -> int:
    assert block.left_members is not None
    assert block.right_members is not None
    return block.left_members.nbytes + block.right_members.nbytes


def _with_members(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Rows of `bicliques/`, and in long form those of `members/`."""
    return [batch, members_batch(batch)]


def sink_of(collecting: Collecting) -> ParquetSink:
    """The sink of a run, as its configuration asks for it."""
    output, execution = collecting.config.output, collecting.config.execution
    left_hashes, right_hashes = collecting.edges.key_hashes()
    sink = partial(
        ParquetSink,
        left_hashes=left_hashes,
        right_hashes=right_hashes,
        compression=output.compression,
        bicliques=output.bicliques,
        members=output.members,
        sort=output.sort,
        n_shown=n_shown(output),
    )
    return sink(
        collecting.run_path,
        block_bytes=execution.block_bytes,
        memory_budget=execution.memory_budget,
        derived=collecting.derived,
        journal=collecting.journal,
        parts=parts_of(collecting, sink, has_rows=output.bicliques),
    )
