"""Rows as read, in device memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import cudf

__all__ = ["DeviceRows"]


@dataclass(frozen=True, slots=True)
class DeviceRows:
    """Rows as read, nothing dropped, nothing converted: the twin of `RawEdges`.

    Attributes
    ----------
    columns : dict of str to cudf.Series
        By role: ``left``, ``right``; ``weight`` and ``timestamp`` where a filter needs them.
    n_rows : int
    source, format : str
        As in `InputFacts`.
    reader : str
        What read the rows, for the log.
    keys : {"typed", "inferred", "integers"}
        As in `RawEdges`.
    warnings : tuple of str
        As in `InputFacts`.
    """

    columns: dict[str, cudf.Series]
    n_rows: int
    source: str
    format: str
    reader: str
    keys: Literal["typed", "inferred", "integers"] = "typed"
    warnings: tuple[str, ...] = ()
