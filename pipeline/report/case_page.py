"""A case as one page of HTML, drawn as in the report of its run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

from mbe_stage.pipeline.cases.finding import several
from mbe_stage.pipeline.cases.published import Case, side_names
from mbe_stage.pipeline.cases.sentences import members_name
from mbe_stage.pipeline.problems.base import Page, PageSection
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.report.group_cases import TEMPLATE, CasePages
from mbe_stage.pipeline.report.page import rendered
from mbe_stage.pipeline.report.wording import fragment

_MOST_MEMBERS = 200


def case_page(run_path: Path, manifest: Manifest, case: Case, decisions: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return the page of a case: its evidence, members and groups, the decisions on it, and how the run was made.

    Parameters
    ----------
    decisions : sequence of mapping
        As `pipeline.cases.verdicts.Verdicts.history` returns them.
    """
    names = side_names(manifest.config, manifest.input.columns)
    pages = CasePages(run_path, manifest, [case], names, 0)
    ((_, section),) = pages.written(_MOST_MEMBERS)
    n_left = len(pages.places.keys() - set(pages.by_score))
    accounts = fragment(
        TEMPLATE, "accounts", pages.accounts(1), _MOST_MEMBERS, n_left, names[0], members_name(names[1])
    )
    style = files("mbe_stage.pipeline.report").joinpath("groups.css").read_text(encoding="utf-8")
    sizes = (several(name, case.row[f"n_{side}"]) for name, side in zip(names, ("left", "right"), strict=True))
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
        style=Markup(style),
        sections=(
            PageSection("case", "The case", section),
            PageSection("accounts", "Its members by score", accounts),
        ),
        later_sections=(),
        since="",
        meaning="There may be more cases, and larger ones.",
        footer=Markup(page.footer),
    )
