"""Weights and times in text formats that `pipeline.clean` does not read by default."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.io.raw import RawEdges, shortened

__all__ = ["with_measures"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def with_measures(raw: RawEdges, config: InputConfig) -> RawEdges:
    """Return the same rows, with text weights and times parsed by `config.decimal` and `config.date_format`.

    Raises
    ------
    InputError
        A time does not match that format.
    """
    table = raw.table
    for role in ("weight", "timestamp"):
        if role not in table.column_names:
            continue
        values = table.column(role)
        if role == "timestamp" and config.date_format is not None and pa.types.is_integer(values.type):
            # Dates such as 20240131.
            values = values.cast(pa.string())
        if not _is_text(values.type):
            continue
        if role == "timestamp" and config.date_format is not None:
            values = _moments(raw, values, config.date_format)
        elif config.decimal == ",":
            values = pc.replace_substring(values, ",", ".")
        table = table.set_column(table.column_names.index(role), role, values)
    return replace(raw, table=table)


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _moments(raw: RawEdges, values: Any, date_format: str) -> pa.ChunkedArray:
    coded = pc.dictionary_encode(values.combine_chunks())
    microseconds: list[int | None] = []
    for code, text in enumerate(coded.dictionary.to_pylist()):
        try:
            moment = datetime.strptime(text, date_format)
        except ValueError:
            raise raw.refusal(
                int(pc.index(coded.indices, code).as_py()),
                "timestamp",
                found=f"{shortened(text)}",
                expected=f"a time written as {date_format}",
                remedy=f"correct it, or set {setting('input.date_format')}",
            ) from None
        delta = (moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment) - _EPOCH
        microseconds.append((delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds)
    moments = pa.array([*microseconds, None], pa.timestamp("us"))
    return pa.chunked_array([moments.take(pc.fill_null(coded.indices, len(microseconds)))])
