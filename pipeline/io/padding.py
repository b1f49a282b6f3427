"""Blanks around keys in a text: removed where they only align columns, asked about where they tell keys apart."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.backends.backend import is_key
from pipeline.config import InputConfig
from pipeline.errors import InputError
from pipeline.io.raw import RawEdges
from pipeline.naming import switch

__all__ = ["without_padding"]


def without_padding(raw: RawEdges, config: InputConfig) -> RawEdges:
    """The same rows without blanks that pad their fields.

    Blanks are padding where every value of the column begins or ends with one, where all values are equally wide, and
    around weights and times.

    Raises
    ------
    InputError
        Keys differ only in blanks around them, and nothing says whether they are one key.
    """
    if config.trim is False:
        return raw
    columns = {role: _unpadded(raw, role, raw.table.column(role), config) for role in raw.table.column_names}
    return replace(raw, table=pa.table(columns))


def _unpadded(raw: RawEdges, role: str, values: pa.ChunkedArray, config: InputConfig) -> pa.ChunkedArray:
    try:
        trimmed = pc.utf8_trim(values, " \t")
    except pa.ArrowInvalid:
        # No UTF-8: the check of the keys names the row.
        return values
    is_padded = pc.not_equal(trimmed, values)
    if not pc.any(is_padded).as_py():
        return values
    # What is blank altogether is no value.
    trimmed = pc.if_else(pc.equal(trimmed, ""), None, trimmed)
    if config.trim or not is_key(role):
        return trimmed
    if pc.count_distinct(trimmed).as_py() == pc.count_distinct(values).as_py():
        return trimmed if _aligns(values) else values
    row = int(pc.index(is_padded, True).as_py())
    place = raw.locate(row)
    raise InputError.at(
        place.where,
        column=raw.names[role],
        found=f"the key {values[row].as_py()!r}, which differs from others only in blanks around it",
        expected="to be told whether these are one key",
        remedy=f"say with {switch('input.trim')} whether to remove blanks around keys",
        settings=[{"input.trim": True}, {"input.trim": False}],
    )


def _aligns(values: pa.ChunkedArray) -> bool:
    """Whether all values are equally wide, or all have a blank on one side."""
    widths = pc.min_max(pc.utf8_length(values)).as_py()
    return widths["min"] == widths["max"] or any(
        pc.all(affix(values, " ")).as_py() for affix in (pc.starts_with, pc.ends_with)
    )
