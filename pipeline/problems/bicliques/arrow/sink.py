"""The sink that publishes: blocks of bicliques into Parquet, summed up on the way, in threads beside the engine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.keys import biclique_keys
from mbe_stage.bicliques.results import Detail
from mbe_stage.pipeline.backends.arrow.member_rows import BlockRows
from mbe_stage.pipeline.backends.arrow.row_sink import RowSink
from mbe_stage.pipeline.backends.arrow.summaries import Summaries
from mbe_stage.pipeline.backends.arrow.worker_parts import sink_within
from mbe_stage.pipeline.problems.base import Collecting, DerivedCollector
from mbe_stage.pipeline.problems.bicliques.arrow.summary import Summary
from mbe_stage.pipeline.problems.bicliques.arrow.tables import ROWS, members_batch
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
    n_shown : int
        How many of the largest the report shows; none are kept for 0.
    derived : sequence of DerivedCollector
        Who else takes each block in, with its keys.
    **writing
        As `RowSink` takes it.
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
        n_shown: int = 20,
        derived: Sequence[DerivedCollector] = (),
        **writing: Any,
    ) -> None:
        sizes = left_hashes.size, right_hashes.size
        rows = BlockRows(
            ROWS,
            lambda block: biclique_keys(block, left_hashes, right_hashes),
            sizes,
            Summaries(lambda: Summary(*sizes, n_shown)),
            derived,
        )
        schemas = ({"bicliques": BICLIQUES} if bicliques else {}) | ({"members": MEMBERS} if members else {})
        super().__init__(rows, run_path, schemas, spread=_with_members if members else None, **writing)


def _with_members(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Rows of `bicliques/`, and in long form those of `members/`."""
    return [batch, members_batch(batch)]


def sink_of(collecting: Collecting) -> ParquetSink:
    """The sink of a run, as its configuration asks for it."""
    output = collecting.config.output
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
    return sink_within(collecting, sink, has_rows=output.bicliques)
