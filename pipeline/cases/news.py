"""The new cases of a run compared with the run before, for flows to report."""

from __future__ import annotations

from pathlib import Path

from mbe_stage.pipeline.cases.finding import finding_of
from mbe_stage.pipeline.cases.looking import plain
from mbe_stage.pipeline.cases.published import Case, cases_of, side_names
from mbe_stage.pipeline.cli.terminal import shortened
from mbe_stage.pipeline.problems.display import News
from mbe_stage.pipeline.publish.manifest import Manifest

_ROWS = 20
_KEYS, _KEY = 200, 200
# Values of `Case.row` that hold no key of the input.
_VALUES = (
    "n_groups",
    "n_left",
    "n_right",
    "first_time",
    "last_time",
    "largest_weight_total",
    "n_known",
    "surprise",
    "p_bound",
)


def news(run_path: Path, manifest: Manifest) -> News:
    """Return the new cases of a published run, without muted ones; none are new if there is no earlier run."""
    every_case = cases_of(run_path)
    cases = [case for case in every_case if not case.row["is_muted"]]
    new = [case for case in cases if case.row["since"] == "new"]
    is_compared = any(case.row["since"] is not None for case in cases)
    left, right = names = side_names(manifest)
    return News(
        kind="case",
        headline=finding_of(run_path, manifest, every_case),
        columns=("case", left, right, "members", "why"),
        rows=[_row(case) for case in (new if is_compared else cases)[:_ROWS]],
        new=[(case.id, _values(case, names), _keys(case)) for case in new],
    )


def _row(case: Case) -> tuple[str, ...]:
    keys = _keys(case)["left"]
    shown = ", ".join(keys[:6]) + (f" and {case.row['n_left'] - 6:,} more" if case.row["n_left"] > 6 else "")
    return case.id, f"{case.row['n_left']:,}", f"{case.row['n_right']:,}", shown, f"{case.row['explanation']}."


def _values(case: Case, names: tuple[str, str]) -> dict[str, object]:
    about = {name: plain(case.row[name]) for name in _VALUES}
    return {"case": case.id, "left": names[0], "right": names[1], **about, "explanation": case.row["explanation"]}


def _keys(case: Case) -> dict[str, list[str]]:
    keys: dict[str, list[str]] = {"left": [], "right": []}
    for member in case.members:
        if len(keys[member["side"]]) < _KEYS:
            keys[member["side"]].append(shortened(member["key"], _KEY))
    return keys
