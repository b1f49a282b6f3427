"""A case as files to hand on: the rows of the input behind it, its members, a summary and a report of one page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from mbe_stage.pipeline.cases.input_rows import rows_behind
from mbe_stage.pipeline.cases.looking import Looking, plain
from mbe_stage.pipeline.cases.verdicts import Verdicts
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.publish.new_directory import check_free, new_directory
from mbe_stage.pipeline.report.case_page import case_page
from mbe_stage.pipeline.views.export import harmless

# Spreadsheets read these as the number that they are.
_NUMBER = r"^[+-]?[0-9]+([.,][0-9]+)?([eE][+-]?[0-9]+)?$"


def export_case(
    run_path: Path, place: str, wanted: str, out: Path, source: str | None = None, verdicts: Verdicts | None = None
) -> dict[str, Any]:
    """Write a case to a new directory, and return its summary.

    The files are ``rows.csv`` and ``rows.parquet`` (`rows_behind`), ``members.csv`` and ``members.parquet``,
    ``report.html`` and ``summary.json``. CSV files have the formula guard of `harmless`; Parquet has the exact values.

    Parameters
    ----------
    place : str
        The run as the user named it.
    wanted : str
        The id of the case, or the beginning of it.
    out : Path
        A new or empty directory. It appears complete or not at all.
    source : str, optional
        The input; by default at its original place.
    verdicts : Verdicts, optional
        The verdicts of today, with their history for the summary.

    Raises
    ------
    InputError
        There is no such case, or the input is not that of the run.
    PublishError
        The directory is not empty, or cannot be written.
    """
    check_free(out)
    looking, manifest = Looking(run_path, place, verdicts), read_manifest(run_path)
    case = looking.case_of(wanted)
    view = looking.case(case.id)
    rows = rows_behind(run_path, manifest, case, source)
    summary = {
        **{name: view.values[name] for name in ("run", "case")},
        "input": {"source": manifest.input.source, "fingerprint": manifest.input.fingerprint, "rows": rows.num_rows},
        "verdicts": [] if verdicts is None else verdicts.history(case.id),
    }
    with new_directory(out, summary) as growing:
        for name, table in (("rows", rows), ("members", pa.Table.from_pylist([dict(each) for each in view.records]))):
            pq.write_table(table, growing / f"{name}.parquet", compression="zstd")
            _write_csv(table, growing / f"{name}.csv")
        (growing / "report.html").write_text(case_page(run_path, manifest, case), encoding="utf-8")
    return plain(summary)


def _write_csv(table: pa.Table, path: Path) -> None:
    """Write a table as CSV: names and texts that spreadsheets would take for formulas begin with an apostrophe."""
    names = harmless(pa.array(table.column_names, pa.string())).to_pylist()
    columns = [_guarded(_as_text(column)) for column in table.columns]
    with path.open("wb") as file:
        pa.csv.write_csv(pa.table(columns, names=names), file, pa.csv.WriteOptions(quoting_style="needed"))


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return numbers and texts unchanged, and other values as text."""
    kind = column.type
    if any(
        getattr(pa.types, f"is_{name}")(kind) for name in ("integer", "floating", "boolean", "string", "large_string")
    ):
        return column
    try:
        return column.cast(pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        values = (None if value is None else json.dumps(value, default=str) for value in column.to_pylist())
        return pa.chunked_array([pa.array(values, pa.large_string())])


def _guarded(column: pa.ChunkedArray) -> Any:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    text = column.cast(pa.large_string())
    return pc.if_else(pc.match_substring_regex(text, _NUMBER), text, pa.chunked_array([harmless(text)]))
