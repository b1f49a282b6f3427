"""Verdicts on cases of earlier runs (`pipeline.cases.verdicts`), and the cases of this run that they apply to.

They change neither the groups nor their ranks: only the columns `verdict` and `is_muted`.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
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


@dataclass(slots=True)
class Decision:
    """A verdict, or a case of this run: the keys of its left members; side, key and class of members with a label."""

    case: str
    verdict: str = ""
    left: set[str] = field(default_factory=set)
    labelled: set[tuple[str, str, str]] = field(default_factory=set)

    def add(self, side: str, key: str, label: str | None) -> None:
        """Add a member."""
        if side == "left":
            self.left.add(key)
        if label is not None:
            self.labelled.add((side, key, label))


def decided_path(config: Config) -> Path | None:
    """Return the file of verdicts that a run reads: the one that is named, else the one beside the runs."""
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
    """Return the verdicts on the cases of a run by their ids; parameters as in `verdicts_on`."""
    of_run = {case.id: Decision(case.id) for case in cases}
    for case in cases:
        for member in case.members:
            of_run[case.id].add(member["side"], str(member["key"]), member["label"])
    return verdicts_on(of_run, decisions, positive)


def verdicts_on(cases: Mapping[str, Decision], decisions: pa.Table, positive: Collection[str]) -> dict[str, str]:
    """Return the verdicts on cases by their ids; `positive` are the classes of known cases."""
    matched = _matched(_decisions(decisions), cases)
    return {case: _verdict(cases[case], decision, positive) for case, decision in matched.items()}


def _decisions(table: pa.Table) -> list[Decision]:
    found: dict[str, Decision] = {}
    columns = (table[name].to_pylist() for name in ("case", "verdict", "side", "key", "label"))
    for case, verdict, side, key, label in zip(*columns, strict=True):
        found.setdefault(case, Decision(case, verdict)).add(side, key, label)
    return list(found.values())


def _matched(decisions: list[Decision], cases: Mapping[str, Decision]) -> dict[str, Decision]:
    """Return the decision on each case, by its id; a decision applies to one case at most.

    The case has at least half of the left members that were decided on. Among several, a decision follows its own id,
    then the most common members, then the larger Jaccard similarity, then the newer decision, then the smaller id.
    """
    holders: defaultdict[str, list[str]] = defaultdict(list)
    for case in cases.values():
        for key in case.left:
            holders[key].append(case.case)
    pairs = []
    for number, decision in enumerate(decisions):
        for case_id, n in Counter(case for key in decision.left for case in holders[key]).items():
            if 2 * n >= len(decision.left):
                jaccard = Fraction(n, len(decision.left) + len(cases[case_id].left) - n)
                pairs.append((case_id != decision.case, -n, -jaccard, -number, case_id))
    found: dict[str, Decision] = {}
    used: set[int] = set()
    for _, _, _, place, case_id in sorted(pairs):
        if case_id not in found and -place not in used:
            found[case_id] = decisions[-place]
            used.add(-place)
    return found


def _verdict(case: Decision, decision: Decision, positive: Collection[str]) -> str:
    """Return the verdict on a case. What was fine is open again if it has grown by a third, or has a new known case."""
    if decision.verdict != "fine":
        return decision.verdict
    n_joined = len(case.left - decision.left)
    known = {row for row in case.labelled if row[2] in positive}
    return "open" if 3 * n_joined >= len(decision.left) or known - decision.labelled else "fine"
