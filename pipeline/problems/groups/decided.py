"""Verdicts on cases of earlier runs (`pipeline.cases.verdicts`), and the cases of this run that they apply to.

They change neither the groups nor their ranks: only the columns `verdict` and `is_muted`.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pyarrow as pa

from mbe_stage.pipeline.cases.published import Case
from mbe_stage.pipeline.cases.verdicts import Verdicts, verdicts_path
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.problems.derived_inputs import DerivedInput
from mbe_stage.pipeline.problems.groups.known_keys import LABELS
from mbe_stage.pipeline.problems.groups.schemas import VERDICTS
from mbe_stage.pipeline.stores.address import is_address

DECIDED = "verdicts"
"""The key of the section, and the table."""


# Side, key and label of each member.
_Members = set[tuple[str, str, str | None]]


def decided_path(config: Config) -> Path | None:
    """Return the file of verdicts that a run reads: the named one, else the one beside the runs."""
    if (named := config.section("groups").verdicts) is not None:
        return Path(named)
    return None if is_address(config.output.directory) else verdicts_path(config.output.directory)


def read_decisions(config: Config) -> pa.Table:
    """Return the newest decision on each case, with its members: a table of `VERDICTS`."""
    path = decided_path(config)
    if path is not None and config.section("groups").verdicts is not None and not path.exists():
        found = f"no such file, named by {setting(f'groups.{DECIDED}')}"
        remedy = "leave it out until there is a verdict: mbe cases label makes the file"
        raise InputError.at(path, found=found, expected="a file of verdicts", remedy=remedy)
    return VERDICTS.empty_table() if path is None else decisions_in(path)


def decisions_in(path: Path) -> pa.Table:
    """Return the decisions in a file, as `read_decisions`; none if it does not exist."""
    rows = [
        {**{name: row[name] for name in ("case", "verdict", "note", "who", "run")}, "side": side, "key": key}
        | {"at": datetime.fromisoformat(row["at"]).astimezone(UTC).replace(tzinfo=None), "label": label}
        for row in Verdicts(path).current().values()
        for side, key, label in row["members"]
    ]
    return pa.Table.from_pylist(rows, VERDICTS)


def fingerprint_of_decisions(table: pa.Table) -> str:
    """Return the SHA-256 of the rows, each a JSON list ended by a line feed; times are ISO-8601 text."""
    digest = hashlib.sha256()
    for row in table.to_pylist():
        values = [value.isoformat() if isinstance(value, datetime) else value for value in row.values()]
        digest.update(json.dumps(values).encode() + b"\n")
    return digest.hexdigest()


def positive_classes(inputs: Mapping[str, DerivedInput]) -> set[str]:
    """Return the classes of known cases, from a run's `derived_inputs`."""
    classes = inputs[LABELS].classes if LABELS in inputs else ()
    return {each.name for each in classes if each.taken == "positive"}


def verdicts_of(cases: Sequence[Case], decisions: pa.Table, positive: Collection[str]) -> dict[str, str]:
    """Return the verdicts on the cases of a run by their ids; `positive` are the classes of known cases."""
    members: dict[str, _Members] = {
        case.id: {(each["side"], str(each["key"]), each["label"]) for each in case.members} for case in cases
    }
    decided: dict[str, tuple[str, _Members]] = {}
    columns = (decisions[name].to_pylist() for name in ("case", "verdict", "side", "key", "label"))
    for case, verdict, *member in zip(*columns, strict=True):
        decided.setdefault(case, (verdict, set()))[1].add(tuple(member))
    before = {name: _left(of) for name, (_, of) in decided.items()}
    matched = _matched(before, {case: _left(of) for case, of in members.items()})
    return {case: _verdict(members[case], *decided[name], positive) for case, name in matched.items()}


def _left(members: _Members) -> set[str]:
    return {key for side, key, _ in members if side == "left"}


def _matched(decided: Mapping[str, set[str]], cases: Mapping[str, set[str]]) -> dict[str, str]:
    """Return the decision on each case, given the left members of both; a decision applies to one case at most.

    The case has at least half of the left members that were decided on. Among several, a decision follows its own id,
    then the most common members, then the larger Jaccard similarity, then the newer decision, then the smaller id.
    """
    holders: defaultdict[str, list[str]] = defaultdict(list)
    for case, left in cases.items():
        for key in left:
            holders[key].append(case)
    pairs = []
    for number, (name, left) in enumerate(decided.items()):
        for case, n in Counter(case for key in left for case in holders[key]).items():
            if 2 * n >= len(left):
                jaccard = Fraction(n, len(left) + len(cases[case]) - n)
                pairs.append((case != name, -n, -jaccard, -number, case, name))
    found: dict[str, str] = {}
    used: set[str] = set()
    for *_, case, name in sorted(pairs):
        if case not in found and name not in used:
            found[case] = name
            used.add(name)
    return found


def _verdict(members: _Members, verdict: str, before: _Members, positive: Collection[str]) -> str:
    """Return the verdict on a case; a fine one is open again if it has grown by a third or has a new known case."""
    if verdict != "fine":
        return verdict
    n_joined = len(_left(members) - _left(before))
    has_new_known = any(label in positive for _, _, label in members - before)
    return "open" if 3 * n_joined >= len(_left(before)) or has_new_known else "fine"
