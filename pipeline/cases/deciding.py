"""The file of verdicts of a published run, and its cases with the verdicts of today."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mbe_stage.pipeline.cases.published import Case
from mbe_stage.pipeline.cases.verdicts import Verdicts, verdicts_path
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.problems.groups.decided import Decision, decisions_in, positive_classes, verdicts_on
from mbe_stage.pipeline.publish.manifest import Manifest, read_manifest
from mbe_stage.pipeline.publish.run_files import RUNS
from mbe_stage.pipeline.stores.address import is_address
from mbe_stage.pipeline.stores.local_copies import address_of


class UnclearVerdicts(InputError):
    """It is unclear which file has the verdicts on a run's cases."""


def verdicts_of_run(run_dir: Path, manifest: Manifest, named: str | None = None) -> Verdicts:
    """Return the verdicts on the cases of a run: in the file that is named, else in the one beside the runs.

    Raises
    ------
    UnclearVerdicts
        The run is at an address, was copied elsewhere, or reads another file: the file must be named.
    InputError
        The file cannot be used.
    """
    if named is not None:
        return Verdicts.open(named)
    section = manifest.config.section("groups")
    if section is not None and section.verdicts is not None:
        raise _unclear(run_dir, f"a run that reads the verdicts in {section.verdicts}", "to know which file is meant")
    place = address_of(run_dir)
    if is_address(place) or run_dir.resolve().parent.name != RUNS:
        raise _unclear(run_dir, "a run outside an output directory of this machine", "verdicts in a file")
    return Verdicts.open(verdicts_path(run_dir.resolve().parent.parent))


def current_verdicts(run_dir: Path, named: str | None = None) -> Verdicts | None:
    """Return the verdicts to show for a run; None if no file is named, and the run has none beside it.

    Raises
    ------
    InputError
        The file does not exist although it is named, or cannot be used.
    """
    try:
        verdicts = verdicts_of_run(run_dir, read_manifest(run_dir), named)
    except UnclearVerdicts:
        return None
    if named is not None and not verdicts.path.exists():
        raise InputError.at(
            verdicts.path, found="no such file", expected="a file of verdicts", remedy="correct --verdicts"
        )
    return verdicts if verdicts.path.exists() else None


def with_current_verdicts(cases: Sequence[Case], manifest: Manifest, verdicts: Verdicts) -> list[Case]:
    """Return the cases with the verdicts of today, by the same rules as the next run of the same edges."""
    members = {case.id: Decision(case.id) for case in cases}
    for case in cases:
        for member in case.members:
            members[case.id].add(member["side"], str(member["key"]), member["label"])
    positive = positive_classes(manifest.derived_inputs.get("groups", {}))
    found = verdicts_on(members, decisions_in(verdicts.path), positive)
    return [_with_verdict(case, found.get(case.id)) for case in cases]


def _with_verdict(case: Case, verdict: str | None) -> Case:
    groups = []
    for group in case.groups:
        # The run has muted it for another reason if its verdict was not fine.
        is_known_good = group["is_muted"] and group.get("verdict") != "fine"
        groups.append({**group, "verdict": verdict, "is_muted": is_known_good or verdict == "fine"})
    return replace(case, groups=tuple(groups))


def _unclear(run_dir: Path, found: str, expected: str) -> InputError:
    return UnclearVerdicts.at(run_dir, found=found, expected=expected, remedy="name the file: --verdicts FILE")
