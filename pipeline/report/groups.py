"""The report of a run with groups: the finding, its cases, each case, accounts by score, and definitions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from markupsafe import Markup

from mbe_stage.pipeline.cases.finding import finding_of, key_name, members_name, since_text
from mbe_stage.pipeline.cases.published import SINCE, Case, cases_of
from mbe_stage.pipeline.problems.base import Page, PageSection
from mbe_stage.pipeline.publish.manifest import Comparison, Manifest
from mbe_stage.pipeline.report.group_cases import TEMPLATE, CasePages, file_of_page, kind_of, since_name
from mbe_stage.pipeline.report.request import right_key
from mbe_stage.pipeline.report.wording import count, fragment, key
from mbe_stage.pipeline.views.listed_groups import chance_text, nothing_significant
from mbe_stage.pipeline.wording import plural

_LISTS = {"labels": "Labels", "allow": "Known good", "verdicts": "Verdicts"}
_MOST_MEMBERS = 200
_MEMBERS = (_MOST_MEMBERS, 100, 50, 24, 12, 6)
"""Maximum lengths of member lists, tried from the longest."""
_MOST_BYTES = 5_750_000
_ACCOUNTS_OPEN = 100
_MANY = 30  # With more sections than this, each is laid out only when it comes into view.
_BOUNDS = ("0.01", "1e-6", "1e-12", "1e-30")


def page(run_path: Path, manifest: Manifest, top: int) -> Page:
    """Build the report of a run's groups; see `pipeline.problems.base.DerivedPublication`.

    It shows cases up to 5.75 MB of HTML, with at most 200 members per side, and `top` of the muted groups.
    """
    every = cases_of(run_path)
    cases = [case for case in every if not case.row["is_muted"]]
    muted = [group for case in every if case.row["is_muted"] for group in case.groups]
    pages = CasePages(run_path, manifest, cases, top)
    rows, sections, most = _fitting(pages)
    members = members_name(pages.names[0]), members_name(pages.names[1])
    body = [_incomplete(manifest), *_list(pages, rows, most), _about(run_path, manifest)]
    body.append(fragment(TEMPLATE, "muted", muted[:top], len(muted)))
    found = [PageSection("cases", "Cases", "".join(body))]
    if cases:
        found.append(PageSection("case-by-case", "Case by case", fragment(TEMPLATE, "sections", sections, _MANY)))
    if pages.by_score:
        text = pages.accounts(len(rows), _ACCOUNTS_OPEN)
        found.append(PageSection("accounts", f"{_capital(members[0])} by score", text))
    has_times = manifest.config.input.timestamp is not None
    found.append(PageSection("definitions", "Definitions", fragment(TEMPLATE, "definitions", members, has_times)))
    parts = [(section.anchor, section.heading) for section in found]
    return Page(
        title="Groups",
        heading=_heading(run_path, manifest, every),
        lede=fragment(TEMPLATE, "lede", [*parts, ("statistics", "Statistics"), ("next-steps", "Next steps")]),
        figures=[
            ("cases", count(len(cases))),
            ("groups", count(sum(len(case.groups) for case in cases))),
            (f"{members[0]} in groups", count(len(pages.places))),
        ],
        sides=members,
        first_sections=found,
        footer=fragment(TEMPLATE, "footer", every[0].id) if every else "",
        style=file_of_page("groups.css"),
        script=file_of_page("groups.js"),
    )


def _heading(run_path: Path, manifest: Manifest, cases: list[Case]) -> str:
    """Return the finding without its reasons and limits, which follow on the page."""
    if all(case.row["is_muted"] for case in cases):
        return "No case is left." if cases else "No group is significant."
    return finding_of(run_path, manifest.model_copy(update={"truncated": None}), cases)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _fitting(pages: CasePages) -> tuple[list[str], list[str], int]:
    """Return the rows and sections of cases that fit the page, and the maximum length of member lists.

    Member lists are shortened before cases are left out. The first case is always shown.
    """
    left = _MOST_BYTES - len(pages.accounts(len(pages.cases), _ACCOUNTS_OPEN).encode())
    for most in _MEMBERS:
        rows, sections, n_bytes = list[str](), list[str](), 0
        for row, section in pages.written(most):
            n_bytes += len(row.encode()) + len(section.encode())
            if n_bytes > left and rows:
                break
            rows.append(row)
            sections.append(section)
        if len(rows) == len(pages.cases):
            break
    return rows, sections, most


def _list(pages: CasePages, rows: list[str], most: int) -> list[str]:
    """Return the controls and the list of cases, or the reason why there is none."""
    if not pages.cases:
        which = "left" if pages.manifest.derived["groups"]["groups"] else "significant"
        return [fragment(TEMPLATE, "nothing", which, _capital(nothing_significant(pages.run_path, pages.manifest)))]
    rows_of = [case.row for case in pages.cases]
    sinces = [value for value in SINCE if any(row["since"] == value for row in rows_of)]
    kinds = dict.fromkeys(kind_of(group) for case in pages.cases for group in case.groups)
    keys = [(at, key_name(name, pages.names[1])) for at, name in enumerate(pages.keys)]
    filters = {
        "p": [(bound, f"below {bound}") for bound in _BOUNDS],
        "since": [(value, since_name(value)) for value in sinces],
        "kind": [(kind, kind) for kind in sorted(kinds)] if len(kinds) > 1 else [],
        "key": keys if len(keys) > 1 else [],
    }
    has_known = any(row["n_known"] for row in rows_of)
    is_cut = any(max(row["n_left"], row["n_right"]) > most for row in rows_of)
    return [
        fragment(TEMPLATE, "controls", pages.names[0], members_name(pages.names[0]), filters, has_known),
        fragment(TEMPLATE, "case_list", [text for _, text in pages.columns], list(map(Markup, rows))),
        fragment(TEMPLATE, "left_out", len(rows), len(pages.cases), most if is_cut else 0),
    ]


def _about(run_path: Path, manifest: Manifest) -> str:
    """Describe chance, the lists of known keys, and the changes since the last run."""
    text = chance_text(run_path)
    lists = manifest.derived_inputs.get("groups", {})
    return "".join(
        [
            f'<p class="quiet">By chance: {text}.</p>' if text else "",
            *(fragment(TEMPLATE, "input_list", _LISTS[name], facts) for name, facts in lists.items()),
            since_last(manifest.derived_comparison.get("groups"), right_key(manifest.config), since_text(manifest)),
        ]
    )


def _incomplete(manifest: Manifest) -> str:
    if manifest.truncated is not None:
        return "<p>This run is incomplete, so better groups may be missing.</p>"
    if manifest.derived["groups"].get("half_later_truncated"):
        return "<p>A limit stopped the search with buckets shifted by half, so better groups may be missing.</p>"
    if n := manifest.derived["groups"].get("keys_not_searched"):
        return f"<p>The time was too short to try {plural(n, 'key')} to the end, so better groups may be missing.</p>"
    return ""


def since_last(comparison: Comparison | None, right: Callable[[object], str] = key, since: str = "") -> str:
    """Describe the changes since the run before, with the lost groups folded; `right` formats right keys."""
    return "" if comparison is None else fragment(TEMPLATE, "since_last", comparison, right, since)
