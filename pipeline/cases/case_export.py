"""A case as files to hand on: the rows of the input behind it, its members, a summary and a report of one page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage.pipeline.cases.input_rows import rows_behind
from mbe_stage.pipeline.cases.looking import Looking, plain
from mbe_stage.pipeline.cases.verdicts import Verdicts
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.publish.new_directory import check_free, new_directory
from mbe_stage.pipeline.report.groups import case_page
from mbe_stage.pipeline.views.export import export_table


def export_case(
    run_path: Path, place: str, wanted: str, out: Path, source: str | None = None, verdicts: Verdicts | None = None
) -> dict[str, Any]:
    """Write a case to a new directory, and return its summary.

    The files are ``rows.csv`` and ``rows.parquet`` (`rows_behind`), ``members.csv`` and ``members.parquet``,
    ``report.html`` and ``summary.json``. CSV has the formula guard of `export_table`, Parquet the exact values.
    The directory is new or empty, and appears complete or not at all. The summary has the history of the verdicts.
    """
    check_free(out)
    looking, manifest = Looking(run_path, place, verdicts), read_manifest(run_path)
    case = looking.case_of(wanted)
    view = looking.case(case.id)
    rows = rows_behind(run_path, manifest, case, source)
    decisions = [] if verdicts is None else verdicts.history(case.id)
    summary = {
        **{name: view.values[name] for name in ("run", "case")},
        "input": {"source": manifest.input.source, "fingerprint": manifest.input.fingerprint, "rows": rows.num_rows},
        "verdicts": decisions,
    }
    with new_directory(out, summary) as growing:
        for name, table in (("rows", rows), ("members", pa.Table.from_pylist([dict(each) for each in view.records]))):
            pq.write_table(table, growing / f"{name}.parquet", compression="zstd")
            with (growing / f"{name}.csv").open("wb") as file:
                export_table(table, file)
        page = case_page(run_path, manifest, case, decisions)
        (growing / "report.html").write_text(page, encoding="utf-8")
    return plain(summary)
