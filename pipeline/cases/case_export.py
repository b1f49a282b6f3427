"""A case as files to hand on: the rows of the input behind it, its members, a summary and a report of one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from markupsafe import Markup

from mbe_stage.pipeline.cases.finding import several
from mbe_stage.pipeline.cases.input_rows import rows_behind
from mbe_stage.pipeline.cases.looking import Looking, plain
from mbe_stage.pipeline.cases.published import Case
from mbe_stage.pipeline.cases.verdicts import Verdicts
from mbe_stage.pipeline.problems.base import Page, PageSection
from mbe_stage.pipeline.publish.manifest import Manifest, read_manifest
from mbe_stage.pipeline.publish.new_directory import check_free, new_directory
from mbe_stage.pipeline.report.group_cases import TEMPLATE, CasePages, file_of_page
from mbe_stage.pipeline.report.page import rendered
from mbe_stage.pipeline.report.wording import fragment
from mbe_stage.pipeline.views.export import export_table

_MOST_MEMBERS = 200


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
    read = manifest.input.source if source is None else source
    summary = {
        **{name: view.values[name] for name in ("run", "case")},
        "input": {"source": read, "fingerprint": manifest.input.fingerprint, "rows": rows.num_rows},
        "verdicts": decisions,
    }
    with new_directory(out, summary) as growing:
        for name, table in (("rows", rows), ("members", pa.Table.from_pylist([dict(each) for each in view.records]))):
            pq.write_table(table, growing / f"{name}.parquet", compression="zstd")
            with (growing / f"{name}.csv").open("wb") as file:
                export_table(table, file)
        page = _page(run_path, manifest, case, decisions)
        (growing / "report.html").write_text(page, encoding="utf-8")
    return plain(summary)


def _page(run_path: Path, manifest: Manifest, case: Case, decisions: Sequence[Mapping[str, Any]]) -> str:
    """Return the page of the case: its evidence, members, groups and decisions, and facts about the run."""
    pages = CasePages(run_path, manifest, [case], 0)
    ((_, section),) = pages.written(_MOST_MEMBERS)
    sizes = (several(name, case.row[f"n_{side}"]) for name, side in zip(pages.names, ("left", "right"), strict=True))
    page = Page(
        title="Case",
        heading=" and ".join(sizes),
        lede=fragment(TEMPLATE, "exported", case.id, manifest.run_id, decisions),
        footer=fragment(TEMPLATE, "footer", case.id),
    )
    return rendered(
        manifest,
        about=page.title,
        finding=page,
        style=Markup(file_of_page("groups.css")),
        sections=(
            PageSection("case", "The case", section),
            PageSection("accounts", "Its members by score", pages.accounts(1, _MOST_MEMBERS)),
        ),
        later_sections=(),
        since="",
        meaning="There may be more cases, and larger ones.",
        footer=Markup(page.footer),
    )
