"""The file of verdicts of a published run, and its cases with the verdicts of today."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mbe_stage.pipeline.cases.published import Case
from mbe_stage.pipeline.cases.verdicts import Verdicts, verdicts_path
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.problems.groups.decided import decisions_in, positive_classes, verdicts_of
from mbe_stage.pipeline.publish.manifest import Manifest, read_manifest
from mbe_stage.pipeline.publish.run_files import RUNS
from mbe_stage.pipeline.stores.address import is_address
from mbe_stage.pipeline.stores.local_copies import address_of


def verdicts_of_run(run_dir: Path, named: str | None = None) -> Verdicts:
    """Return the verdicts on the cases of a run, from the named file or from the one beside the runs."""
    if named is not None:
        return Verdicts.open(named)
    if why := _why_unclear(run_dir):
        expected = "an output directory of this machine with the verdicts beside the runs"
        raise InputError.at(run_dir, found=why, expected=expected, remedy="name the file: --verdicts FILE")
    return Verdicts.open(verdicts_path(run_dir.resolve().parent.parent))


def current_verdicts(run_dir: Path, named: str | None = None) -> Verdicts | None:
    """Return the verdicts to show for a run; None if no file is named and there is none beside the run."""
    if named is None and _why_unclear(run_dir):
        return None
    verdicts = verdicts_of_run(run_dir, named)
    is_there = verdicts.path.exists()
    if named is not None and not is_there:
        remedy = "correct --verdicts"
        raise InputError.at(verdicts.path, found="no such file", expected="a file of verdicts", remedy=remedy)
    return verdicts if is_there else None


def _why_unclear(run_dir: Path) -> str:
    """Return why it is unclear which file has the verdicts; empty if it is clear."""
    section = read_manifest(run_dir).config.section("groups")
    if section is not None and section.verdicts is not None:
        return f"a run that reads the verdicts in {section.verdicts}"
    is_beside = not is_address(address_of(run_dir)) and run_dir.resolve().parent.name == RUNS
    return "" if is_beside else "a run outside an output directory of this machine"


def with_current_verdicts(cases: Sequence[Case], manifest: Manifest, verdicts: Verdicts) -> list[Case]:
    """Return the cases with the verdicts of today, by the same rules as the next run of the same edges."""
    positive = positive_classes(manifest.derived_inputs.get("groups", {}))
    found = verdicts_of(cases, decisions_in(verdicts.path), positive)
    shown = []
    for case in cases:
        groups, verdict = [], found.get(case.id)
        for group in case.groups:
            # A muted group without the verdict fine was muted because it is known good.
            is_known_good = group["is_muted"] and group.get("verdict") != "fine"
            groups.append({**group, "verdict": verdict, "is_muted": is_known_good or verdict == "fine"})
        shown.append(replace(case, groups=tuple(groups)))
    return shown
