"""A first line of counts above an edge list, such as ``4 5 7`` above seven edges."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io.raw import shortened

__all__ = ["may_be_counts", "refuse_count_line"]


def refuse_count_line(
    path: object, config: InputConfig, first: Sequence[Sequence[str]], n_above: int, table: pa.Table
) -> None:
    """Refuse a first line that may be counts, such as ``4 5 7`` above seven edges; `skip_lines` settles it.

    Parameters
    ----------
    first : sequence
        The fields of the first row, or nothing.
    n_above : int
        Lines above that row.
    table : pa.Table
        All rows, with the column `left`.

    Raises
    ------
    InputError
    """
    if config.skip_lines is not None or not may_be_counts(first, table.num_rows):
        return
    fields = [field.strip() for field in first[0][:3]]
    most_left = int(fields[0])
    most_right = most_left + (int(fields[1]) if len(fields) > 2 else 0)
    if _largest(table, "left") > most_left or _largest(table, "right") > most_right:
        # The graph has more vertices than such a line would say.
        return
    raise InputError.at(
        path,
        line=n_above + 1,
        found=f"{shortened(' '.join(first[0]))}, which may be counts: {table.num_rows - 1} lines follow",
        expected="an explicit setting",
        remedy=f"set {setting('input.skip_lines')} to {n_above + 1} if it is not an edge, to 0 if it is",
        settings=[{"input.skip_lines": n_above + 1}, {"input.skip_lines": 0}],
    )


def may_be_counts(first: Sequence[Sequence[str]], n_rows: int) -> bool:
    """Return whether the first row's second or third number is the number of rows that follow."""
    fields = [field.strip() for field in first[0][:3]] if first else []
    return (
        n_rows > 1 and len(fields) > 1 and all(field.isdecimal() for field in fields) and str(n_rows - 1) in fields[1:]
    )


def _largest(table: pa.Table, role: str) -> float:
    """Return the largest key below the first row: infinite if one is negative, 0 if keys are not integers."""
    if role not in table.column_names:
        return 0
    below = pc.utf8_trim_whitespace(table.column(role).slice(1))
    if not pc.all(pc.match_substring_regex(below, r"^-?\d{1,18}$")).as_py():
        return 0
    bounds = pc.min_max(below.cast(pa.int64())).as_py()
    return bounds["max"] if bounds["min"] >= 0 else math.inf
