"""Comparison of groups with the run before: cases keep their ids, and each group gets its change."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.bicliques import keys
from mbe_stage.pipeline.backends.arrow.parts import write_table
from mbe_stage.pipeline.cases.published import cases_of
from mbe_stage.pipeline.cli.terminal import shortened
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.problems.base import Completed, Completing
from mbe_stage.pipeline.problems.derived_inputs import DerivedInput
from mbe_stage.pipeline.problems.groups.cases import case_ids, inherited_ids, members_of_cases
from mbe_stage.pipeline.problems.groups.decided import (
    DECIDED,
    decided_path,
    fingerprint_of_decisions,
    positive_classes,
    verdicts_of,
)
from mbe_stage.pipeline.problems.groups.group_changes import GroupRows, Since, read_group_rows, since_last
from mbe_stage.pipeline.problems.groups.known_keys import ALLOW, LABELS, classes_of, fingerprint_of
from mbe_stage.pipeline.problems.groups.one_list import with_columns
from mbe_stage.pipeline.publish.manifest import ComparedGroup, Comparison, Manifest
from mbe_stage.pipeline.stores.local_copies import addresses_in
from mbe_stage.pipeline.views.comparison import last_complete, not_sought
from mbe_stage.pipeline.views.diff.remarks import unlike_queries
from mbe_stage.runtime.compile_ahead import compile_ahead

log = logging.getLogger(__name__)

_NAMED = 5
_SHOWN_GONE = 20
_SHOWN_KEYS = 12
_KEY_CHARACTERS = 200
_STATUSES = ("new", "grown", "shrunk", "changed")


def complete(completing: Completing) -> Completed:
    """Fill the columns `case`, `since` and `verdict` of `groups`, mute cases that are fine, and return the facts.

    Raises
    ------
    PublishError
        The table cannot be rewritten. Problems with the earlier run become remarks of the comparison.
    """
    inputs = _inputs(completing)
    warnings = [
        f"{setting(f'groups.{name}')}: none of the {each.rows:,} keys is a vertex of this graph; expected keys as "
        "written in the edges, and their side"
        for name, each in inputs.items()
        if each.rows and each.n_not_in_graph == each.rows
    ]
    last = _last(completing)
    if isinstance(last, _Last):
        _write_changes(completing, last)
    n_muted = _write_verdicts(completing, inputs) if DECIDED in inputs else None
    counts = {} if n_muted is None else {"muted": n_muted}
    if not isinstance(last, _Last):
        return Completed(inputs, last, warnings, counts=counts)
    return Completed(inputs, _comparison(completing, last), warnings, last.prepared, counts)


@dataclass(frozen=True, slots=True, eq=False)
class _Last:
    """The groups of the run before and of this run, and the changes between them."""

    run: Path
    old: GroupRows
    new: GroupRows
    since: Since | None
    prepared: Mapping[str, float]


def _last(completing: Completing) -> _Last | Comparison | None:
    """Compare with the run before; return the remarks instead if that is not possible."""
    if completing.store is None:
        return None
    try:
        last = last_complete(completing.store, completing.config_fingerprint)
    except PublishError as error:
        return not_sought(error)
    if last is None:
        return Comparison(run_id=None, remarks=("no complete run of the same query is published here",))
    before, manifest = last
    if unlike := [*unlike_queries(manifest, completing), *_half_searched(manifest, completing)]:
        return Comparison(run_id=before.name, remarks=tuple(unlike))
    # Hashing keys compiles code that a run with tables in device memory has not needed so far.
    prepared = compile_ahead(keys.compile_steps())
    try:
        old = read_group_rows(completing.store.whole(before))
        new = read_group_rows(completing.run_path)
        return _Last(before, old, new, _since(completing, old, new), prepared)
    except (PublishError, MemoryError) as error:
        # This run is complete. Its report names the problem with the earlier run.
        reason = addresses_in(error) or "out of memory"
        log.warning("the groups of run %s could not be compared with: %s", before.name, reason)
        return Comparison(run_id=before.name, remarks=(f"the two could not be compared: {reason}",))


def _half_searched(before: Manifest, completing: Completing) -> Iterator[str]:
    """Yield the reasons why new and lost groups are unknown, although both runs have all their bicliques."""
    for name, counts in (("the run before", before.derived["groups"]), ("this run", completing.counts)):
        if counts.get("half_later_truncated"):
            yield f"{name} did not search all groups with buckets shifted by half; new groups are unknown"
        if counts.get("keys_not_searched"):
            yield f"{name} did not try all keys to the end; new groups are unknown"


def _since(completing: Completing, old: GroupRows, new: GroupRows) -> Since | None:
    """Return the changes; None if this run is incomplete or too much differs."""
    n_differing = np.setxor1d(old.keys, new.keys).size
    if completing.truncated is not None or n_differing > completing.config.output.compare:
        return None
    return since_last(old, new)


def _cases(old: GroupRows, new: GroupRows) -> list[str]:
    """Return the id of each group's case, kept from the earlier run if most of the case is still there."""
    (_, before, names), (numbers, members, _) = (_members_by_case(rows) for rows in (old, new))
    ids = case_ids(members, inherited_ids(members, before, names))
    return [ids[case] for case in numbers.tolist()]


def _members_by_case(rows: GroupRows) -> tuple[np.ndarray, list[np.ndarray], list[str]]:
    """Return the case of each group, and the members and id of each case, in the order of their first groups."""
    encoded = rows.table["case"].combine_chunks().dictionary_encode()
    numbers = encoded.indices.to_numpy().astype(np.int64)
    is_left = ~rows.is_right
    return (
        numbers,
        members_of_cases(numbers, rows.owners[is_left], rows.hashes[is_left]),
        encoded.dictionary.to_pylist(),
    )


def _write_changes(completing: Completing, last: _Last) -> None:
    words = [None] * last.new.table.num_rows if last.since is None else last.since.words
    changes = {"case": _cases(last.old, last.new), "since": words}
    columns = {name: pa.array(values, pa.string()) for name, values in changes.items()}
    _write(completing, last.new.table, **columns)


def _write_verdicts(completing: Completing, inputs: Mapping[str, DerivedInput]) -> int:
    """Add the verdicts that this run has read; return the number of muted groups."""
    groups, decisions = (pq.read_table(completing.run_path / f"{name}.parquet") for name in ("groups", DECIDED))
    found = verdicts_of(cases_of(completing.run_path), decisions, positive_classes(inputs))
    verdicts = pa.array([found.get(case) for case in groups["case"].to_pylist()], pa.string())
    is_muted = pc.or_(groups["is_muted"], pc.fill_null(pc.equal(verdicts, "fine"), False))
    _write(completing, groups, verdict=verdicts, is_muted=is_muted)
    return int(pc.sum(is_muted).as_py() or 0)


def _write(completing: Completing, groups: pa.Table, **columns: Any) -> None:
    """Write `groups` with other values in some columns."""
    path = completing.run_path / "groups.parquet"
    write_table(with_columns(groups, columns), path, completing.config.output.compression)


def _comparison(completing: Completing, last: _Last) -> Comparison:
    """Summarise the changes. Muted groups are not counted, because they need no attention."""
    before, old, since = last.run, last.old, last.since
    if since is None:
        if completing.truncated is not None:
            remark = f"this run is incomplete: it {completing.truncated}; new and lost groups are unknown"
        else:
            remark = f"more groups differ than {setting('output.compare')}; the changes of each were not determined"
        return Comparison(run_id=before.name, remarks=(remark,))
    is_muted = pq.read_table(completing.run_path / "groups.parquet", columns=["is_muted"])["is_muted"].to_pylist()
    unmuted = [word for word, muted in zip(since.words, is_muted, strict=True) if not muted]
    gone = since.gone[~old.is_muted[since.gone]]
    counts = {status: unmuted.count(status) for status in _STATUSES} | {"gone": gone.size}
    return Comparison(
        run_id=before.name,
        counts={status: count for status, count in counts.items() if count},
        n_same=unmuted.count("same"),
        largest=tuple(_gone(old, int(row)) for row in gone[:_SHOWN_GONE]),
    )


def _gone(old: GroupRows, row: int) -> ComparedGroup:
    of_group = pa.array(old.owners == row)
    sides = []
    for is_right in (False, True):
        chosen = pc.and_(of_group, pa.array(old.is_right == is_right))
        shown = old.members["key"].filter(chosen).slice(0, _SHOWN_KEYS).to_pylist()
        sides.append(tuple(shortened(key, _KEY_CHARACTERS) for key in shown))
    group = old.table.slice(row, 1).to_pylist()[0]
    return ComparedGroup(
        status="gone",
        biclique_key=group["group_key"],
        n_left=group["n_left"],
        n_right=group["n_right"],
        left=sides[0],
        right=sides[1],
    )


def _inputs(completing: Completing) -> dict[str, DerivedInput]:
    """Return the facts about the lists of keys and the verdicts, from the published tables of them."""
    section = completing.config.section("groups")
    paths = {LABELS: section.labels, ALLOW: section.allow}
    found = {}
    decisions = pq.read_table(completing.run_path / f"{DECIDED}.parquet")
    if decisions.num_rows:
        found[DECIDED] = DerivedInput(
            source=str(decided_path(completing.config)),
            rows=pc.count_distinct(decisions["case"]).as_py(),
            fingerprint=fingerprint_of_decisions(decisions),
        )
    if not any(paths.values()):
        return found
    known = pq.read_table(completing.run_path / "known_keys.parquet")
    for name, path in paths.items():
        if path is not None:
            rows = known.filter(pc.equal(known["list"], name))
            absent = rows.filter(pc.is_null(rows["vertex"]))
            found[name] = DerivedInput(
                source=path,
                rows=rows.num_rows,
                fingerprint=fingerprint_of(rows),
                n_not_in_graph=absent.num_rows,
                not_in_graph=tuple(
                    f"{row['side']} {row['key'][:_KEY_CHARACTERS]!r}" for row in absent.slice(0, _NAMED).to_pylist()
                ),
                classes=classes_of(rows["class"], section) if name == LABELS else (),
            )
    return found
