"""Sentences about a run, its cases and its groups, with the names of the columns for the sides."""

from __future__ import annotations

import re
from calendar import month_name
from collections.abc import Sequence
from pathlib import Path

from mbe_stage.pipeline.cases.published import Case, side_names
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.views.listed_groups import nothing_significant
from mbe_stage.pipeline.wording import plural

# Words such as "rated", "from" and "dst" are not nouns, so they get no plural.
_NOUN = re.compile("(?!(?:from|to|by|[a-z]{2,}[^e]ed|[^aeiouy]+)$)[a-z]{2,40}")
_MEMBERS = re.compile(r"([0-9,]+) left x ([0-9,]+) right members")
_RUN_DAY = re.compile("([0-9]{4})(0[1-9]|1[0-2])([0-9]{2})T")


def finding_of(run_path: Path, manifest: Manifest, cases: Sequence[Case]) -> str:
    """Return the finding of a run with groups in words, with its full stop.

    `cases` are all cases of the run; muted ones are not part of the finding.
    """
    shown = [case for case in cases if not case.row["is_muted"]]
    if not shown:
        why = nothing_significant(run_path, manifest)
        return f"{'No case is left' if cases else 'No group is significant'}: {why}."
    n = len({member["vertex"] for case in shown for member in case.members if member["side"] == "left"})
    names = side_names(manifest)
    sentence = f"{n:,} of {several(names[0], manifest.input.n_left)} act together in {plural(len(shown), 'case')}"
    n_new = sum(case.row["since"] == "new" for case in shown)
    if any(case.row["since"] is not None for case in shown):
        sentence += f"; {f'{n_new:,}' if n_new else 'none'} {'is' if n_new <= 1 else 'are'} new{since_text(manifest)}"
    return f"{sentence}." + ("" if manifest.truncated is None else f" The run is incomplete: it {manifest.truncated}.")


def several(side: str, n: int) -> str:
    """Format a number of members with the name of their side; a name that does not look like a noun is not inflected.

    Examples
    --------
    >>> several("account", 4814), several("company", 2), several("box", 2), several("left", 3)
    ('4,814 accounts', '2 companies', '2 boxes', '3 left vertices')
    >>> several("user_id", 1), several("rated", 45), several("src", 2)
    ('1 user_id value', '45 rated values', '2 src values')
    """
    if side in ("left", "right"):
        return plural(n, f"{side} vertex", f"{side} vertices")
    if not _NOUN.fullmatch(side):
        return plural(n, f"{side} value")
    if side[-1] == "y" and side[-2] not in "aeiou":
        return plural(n, side, f"{side[:-1]}ies")
    if side.endswith(("ss", "x", "ch", "sh")):
        return plural(n, side, f"{side}es")
    return plural(n, side, side if side[-1] == "s" else f"{side}s")


def since_text(manifest: Manifest) -> str:
    """Return the day of the earlier run that groups were compared with: `` since 25 November``; empty without one.

    The year is included if this run is of another year.
    """
    comparison = manifest.derived_comparison.get("groups")
    found = None if comparison is None or comparison.run_id is None else _RUN_DAY.match(comparison.run_id)
    if found is None:
        return ""
    year, month, day = found.groups()
    return f" since {int(day)} {month_name[int(month)]}" + ("" if manifest.run_id.startswith(year) else f" {year}")


def members_name(side: str) -> str:
    """Return the plural name of a side's members: ``accounts``, ``user_id values``."""
    return several(side, 2).removeprefix("2 ")


def key_name(key: str | None, right: str) -> str:
    """Return the name of a group's key, such as ``same pages only``; empty if one key alone was searched."""
    return f"same {members_name(right)} only" if key == "items" else key or ""


def sentence(explanation: str, names: tuple[str, str]) -> str:
    """Return the explanation of a group with the names of the sides, and with a full stop.

    Examples
    --------
    >>> text = "8 left x 6 right members, all of 48 possible edges; 94 % of the left members' edges are among them"
    >>> print(sentence(text, ("account", "page")))
    8 accounts × 6 pages, all of 48 possible edges; 94 % of the accounts' edges are among them.
    """
    if names == ("left", "right"):
        return f"{explanation.replace(' x ', ' × ', 1)}."

    def members(found: re.Match[str]) -> str:
        sizes = (int(text.replace(",", "")) for text in found.groups())
        return " × ".join(several(name, size) for name, size in zip(names, sizes, strict=True))

    owners = members_name(names[0])
    possessive = f"the {owners}'" if owners.endswith("s") else f"their ({owners})"
    return (
        _MEMBERS.sub(members, explanation, count=1)
        .replace("the left members'", possessive, 1)
        .replace("all edges of these items", f"all edges of these {members_name(names[1])}")
        + "."
    )
