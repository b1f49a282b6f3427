"""Checks of the verdicts on cases: the snapshot in the run, and the columns that follow from it.

Written from docs/reference/groups.md, with plain sets.
"""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.verify.group_tables import Groups, compare, refuse_first
from mbe_stage.pipeline.verify.job import Job

_OF_DECISION = ("case", "verdict", "note", "who", "at", "run")
_WORDS = ("fraud", "fine", "open")
_MEMBER = tuple[str, str, str | None]


def check_verdicts(job: Job, groups: Groups, positive: set[str], allowed: list[bool]) -> None:
    """Check the snapshot, `verdict` and `is_muted`.

    `positive` are the classes of known cases; `allowed` is True for groups with a known good side.
    """
    decisions = _read_decisions(job)
    cases: dict[str, set[_MEMBER]] = {case: set() for case in groups.column("case")}
    owners, (sides, keys, labels) = groups.column("case"), (groups.members[name] for name in ("side", "key", "label"))
    texts = zip(sides.to_pylist(), keys.cast(pa.large_string()).to_pylist(), labels.to_pylist(), strict=True)
    for row, member in zip(groups.of_row.tolist(), texts, strict=True):
        cases[owners[row]].add(member)
    found = _verdicts(decisions, cases, positive)
    expected = [found.get(case) for case in owners]
    compare(groups.path, "verdict", np.array(groups.column("verdict"), object), np.array(expected, object))
    is_muted = [good or verdict == "fine" for good, verdict in zip(allowed, expected, strict=True)]
    compare(groups.path, "is_muted", groups.column("is_muted"), is_muted)
    if decisions:
        job.passed("verdicts", f"{len(found):,} of {len(decisions):,} apply to a case")


def _read_decisions(job: Job) -> list[tuple[str, str, set[_MEMBER]]]:
    """Read case, verdict and members of each decision; check the order, and the manifest's facts."""
    path = job.run / "verdicts.parquet"
    rows = pq.read_table(path).to_pylist()
    blocks = [
        (first, list(of))
        for first, of in groupby(range(len(rows)), lambda row: tuple(rows[row][name] for name in _OF_DECISION))
    ]
    names = [first[0] for first, _ in blocks]
    if len(set(names)) < len(names):
        raise VerificationError(f"{path}: a case has two verdicts; expected the newest one")
    decisions = []
    for (case, verdict, *others), places in blocks:
        members = [(rows[row]["side"], rows[row]["key"], rows[row]["label"]) for row in places]
        known = all(side in ("left", "right") and key is not None for side, key, _ in members)
        if verdict not in _WORDS or None in (case, *others) or not known:
            raise VerificationError(f"{path}, row {places[0]}: {verdict!r:.80}: not a verdict with its members")
        order = [(side, key.encode()) for side, key, _ in members]
        is_behind = [False, *(after <= before for before, after in pairwise(order))]
        refuse_first(path, np.array(is_behind), "out of order; expected members by side and key", places[0])
        decisions.append((case, verdict, set(members)))
    _check_input(job, rows, len(decisions))
    return decisions


def _check_input(job: Job, rows: list[dict[str, Any]], n: int) -> None:
    section, stated = job.manifest.config.section("groups"), job.manifest.derived_inputs.get("groups", {})
    place = f"{job.run / 'manifest.json'}: derived_inputs.groups"
    given = [name for name in ("labels", "allow") if getattr(section, name) is not None] + ["verdicts"] * bool(n)
    if sorted(stated) != sorted(given):
        raise VerificationError(f"{place} has {sorted(stated)}; the config and the tables name {sorted(given)}")
    if not n:
        return
    digest = hashlib.sha256()
    for row in rows:
        digest.update((json.dumps(list((row | {"at": row["at"].isoformat()}).values())) + "\n").encode())
    facts, source = stated["verdicts"], section.verdicts or f"{job.manifest.config.output.directory}/verdicts.sqlite"
    expected = {"source": str(Path(source)), "rows": n, "fingerprint": digest.hexdigest()}
    for what, value in expected.items():
        if getattr(facts, what) != value:
            raise VerificationError(f"{place}.verdicts.{what} is {getattr(facts, what)!r}; recomputed {value!r}")


def _verdicts(
    decisions: list[tuple[str, str, set[_MEMBER]]], cases: dict[str, set[_MEMBER]], positive: set[str]
) -> dict[str, str]:
    """Return the verdict on each case: the best pair of decision and case first, each in one pair at most."""
    lefts = {case: _left(members) for case, members in cases.items()}
    cases_with: dict[str, set[str]] = {}
    for case, keys in lefts.items():
        for key in keys:
            cases_with.setdefault(key, set()).add(case)
    pairs = []
    for place, (decided, _, members) in enumerate(decisions):
        before = _left(members)
        for case in set().union(*(cases_with.get(key, set()) for key in before)):
            both = len(before & lefts[case])
            if both >= Fraction(len(before), 2):
                share = Fraction(both, len(before | lefts[case]))
                pairs.append(((case == decided, both, share, place), case, place))
    pairs.sort(key=lambda pair: pair[1])
    pairs.sort(key=lambda pair: pair[0], reverse=True)
    found: dict[str, str] = {}
    used = set()
    for _, case, place in pairs:
        if case in found or place in used:
            continue
        used.add(place)
        _, verdict, members = decisions[place]
        before = _left(members)
        has_grown = len(lefts[case] - before) >= Fraction(len(before), 3)
        has_new_known = any(member[2] in positive for member in cases[case] - members)
        found[case] = "open" if verdict == "fine" and (has_grown or has_new_known) else verdict
    return found


def _left(members: set[_MEMBER]) -> set[str]:
    return {key for side, key, _ in members if side == "left"}
