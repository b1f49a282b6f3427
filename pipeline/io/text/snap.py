"""SNAP edge lists: lines `left right [weight [timestamp]]`, comments begin with `#`; ids are kept."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io.raw import RawEdges, choose_columns
from mbe_stage.pipeline.io.text.decoding import read_sample
from mbe_stage.pipeline.io.text.delimited import read_columns
from mbe_stage.pipeline.io.text.dialect import WHITESPACE, Dialect
from mbe_stage.pipeline.io.text.faults import place_of_row
from mbe_stage.pipeline.io.text.layout import refuse_count_line

_NAMES = ("left", "right", "weight", "timestamp")


def read(path: Path, config: InputConfig, format_name: str = "snap", comment: str = "#") -> RawEdges:
    """Read `left right [weight [timestamp]]` lines; lines that begin with `comment` and blank lines are skipped."""
    if config.comment is None:
        config = config.model_copy(update={"comment": comment})
    rows = [(n, line.split()) for n, line in enumerate(read_sample(path, config).lines) if line.strip()]
    if not rows:
        expected = "lines of left and right ids"
        raise InputError.at(path, found="no data line", expected=expected, remedy="check that it is complete")
    n_above, first = rows[0]
    n_fields = max(2, len(first))
    names = [*_NAMES, *(f"field {i}" for i in range(4, n_fields))][:n_fields]
    dialect = Dialect(WHITESPACE, names, 0)
    chosen = choose_columns(names, config, path, are_named=False)
    columns = read_columns(path, config, dialect, chosen.positions)
    locate = partial(place_of_row, path, config, dialect)
    raw = chosen.edges(format_name, columns, locate, keys="integers", n_columns=n_fields)
    refuse_count_line(path, config, [first], n_above, raw.table)
    return raw
