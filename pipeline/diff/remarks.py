"""What two runs were asked, and whether they can be compared like with like."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pipeline.config import Config
from pipeline.manifest import Manifest
from pipeline.reading import key_type

__all__ = ["Asked", "Comparability", "comparability", "unlike_questions"]

# Which columns were read, and what makes a row an edge; the window of time moves from run to run by its nature.
_COLUMNS = ("left", "right", "weight", "timestamp")
_FILTERS = ("min_weight", "time_bucket", "time_offset")


class Asked(Protocol):
    """What a run was asked: a manifest, or what will be one."""

    @property
    def config(self) -> Config:
        """Its configuration."""


@dataclass(frozen=True, slots=True)
class Comparability:
    """What the difference of two runs can say.

    Attributes
    ----------
    remarks : tuple of str
        What stands in the way of a comparison like with like, and what else should be known first; a sentence each.
    knows_gone : bool
        Whether what only the old run has is called gone: both runs are complete and were asked the same.
    knows_new : bool
        Whether what only the new run has is new.
    """

    remarks: tuple[str, ...]
    knows_gone: bool
    knows_new: bool


def comparability(old: Path, new: Path, old_manifest: Manifest, new_manifest: Manifest) -> Comparability:
    """Compare what two runs were asked, what they read, and whether they are complete.

    Raises
    ------
    PublishError
        A vertex table is missing.
    """
    unlike = [*unlike_questions(old_manifest, new_manifest), *_key_types(old, new)]
    truncated = [
        f"the {name} run is incomplete: it {manifest.truncated}; what only the {other} run has may {verb}"
        for name, manifest, other, verb in (
            ("OLD", old_manifest, "NEW", "have been there before"),
            ("NEW", new_manifest, "OLD", "still be there"),
        )
        if manifest.truncated is not None
    ]
    return Comparability(
        remarks=(
            *unlike,
            *truncated,
            *_named_otherwise(old_manifest, new_manifest),
            *_windows(old_manifest, new_manifest),
        ),
        # Of an incomplete run nobody knows what it would have held: nothing is called gone.
        knows_gone=not unlike and not truncated,
        knows_new=not unlike and old_manifest.truncated is None,
    )


def unlike_questions(old: Asked, new: Asked) -> list[str]:
    """What two runs were asked otherwise, so that they cannot be compared like with like; a sentence each."""
    found = []
    for section, names in (("query", tuple(type(old.config.query).model_fields)), ("input", _COLUMNS + _FILTERS)):
        for name in names:
            before, after = (getattr(getattr(run.config, section), name) for run in (old, new))
            if before != after and not (name in _COLUMNS and _may_be_one_column(before, after)):
                what = "columns" if name in _COLUMNS else "questions"
                found.append(f"the {what} differ: {section}.{name} was {_shown(before)} and is {_shown(after)}")
    return found


def _named_otherwise(old: Manifest, new: Manifest) -> list[str]:
    """A column that goes by its position in one run and by its name in the other: no manifest tells which it was."""
    pairs = [(name, getattr(old.config.input, name), getattr(new.config.input, name)) for name in _COLUMNS]
    return [
        f"input.{name} was {_shown(before)} and is {_shown(after)}, which may be one column: compared as the same"
        for name, before, after in pairs
        if before != after and _may_be_one_column(before, after)
    ]


def _may_be_one_column(before: object, after: object) -> bool:
    """Whether two settings of a column may mean the same; of several columns, one by one."""
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        return len(before) == len(after) and all(map(_may_be_one_column, before, after))
    if not (isinstance(before, int | str) and isinstance(after, int | str)):
        return False
    return str(before) == str(after) or str(before).isdecimal() != str(after).isdecimal()


def _key_types(old: Path, new: Path) -> list[str]:
    found = []
    for side in ("left", "right"):
        before, after = (key_type(run, side) for run in (old, new))
        if before != after:
            found.append(f"the types of the {side} keys differ: {before} in OLD, {after} in NEW")
    return found


def _windows(old: Manifest, new: Manifest) -> list[str]:
    """A window of time that moved makes no other question, but whoever reads on should know."""
    before, after = ((run.config.input.time_from, run.config.input.time_until) for run in (old, new))
    if before == after:
        return []
    return [f"the windows of time differ: OLD read {_window(*before)}, NEW {_window(*after)}"]


def _window(start: object, end: object) -> str:
    return f"{'everything' if start is None else f'from {start}'}{'' if end is None else f' until {end}'}"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(repr, value)) + "]"
    return "null" if value is None else repr(value)
