"""The queries of two runs, and whether the runs are comparable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mbe_stage.pipeline.clean.facts import InputColumn, InputFacts
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.publish.reading import key_type

# Settings that select columns and edges. The time window is not among them, because it moves from run to run.
_COLUMNS = ("left", "right", "weight", "timestamp", "by")
_FILTERS = ("min_weight", "time_bucket", "time_offset")


class RunQuery(Protocol):
    """The query of a run: a manifest, or a future one."""

    @property
    def config(self) -> Config:
        """Return the configuration of the run."""

    @property
    def input(self) -> InputFacts:
        """Return the facts about its input."""


@dataclass(frozen=True, slots=True)
class Comparability:
    """The statements that the difference of two runs allows.

    Attributes
    ----------
    remarks : tuple of str
        Reasons why the runs are not comparable, and other remarks, one sentence each.
    knows_gone : bool
        True if bicliques of only the old run are gone: both runs are complete and have the same query.
    knows_new : bool
        True if bicliques of only the new run are new.
    """

    remarks: tuple[str, ...]
    knows_gone: bool
    knows_new: bool


def comparability(old: Path, new: Path, old_manifest: Manifest, new_manifest: Manifest) -> Comparability:
    """Compare the queries, inputs and completeness of two runs.

    Raises
    ------
    PublishError
        A vertex table is missing.
    """
    unlike = [*unlike_queries(old_manifest, new_manifest), *_key_types(old, new)]
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
        # The missing results of an incomplete run are unknown, so nothing is called gone.
        knows_gone=not unlike and not truncated,
        knows_new=not unlike and old_manifest.truncated is None,
    )


def unlike_queries(old: RunQuery, new: RunQuery) -> list[str]:
    """Return the differences of two queries that make the runs less comparable, one sentence each."""
    found = []
    for section, names in (("query", tuple(type(old.config.query).model_fields)), ("input", _FILTERS)):
        for name in names:
            before, after = (getattr(getattr(run.config, section), name) for run in (old, new))
            if before != after:
                found.append(f"the queries differ: {section}.{name} was {_shown(before)} and is {_shown(after)}")
    return [*found, *_other_columns(old, new)]


def _other_columns(old: RunQuery, new: RunQuery) -> Iterator[str]:
    """Yield settings that name different columns."""
    for name in _COLUMNS:
        before, after = _setting(old, name), _setting(new, name)
        if before != after and not _is_one_column(old, new, name) and not _may_be_one_column(old, new, name):
            was, now = (f"{_shown(setting)}{_meant(run, name)}" for run, setting in ((old, before), (new, after)))
            yield f"the columns differ: input.{name} was {was} and is {now}"


def _named_otherwise(old: Manifest, new: Manifest) -> Iterator[str]:
    """Yield columns that a manifest does not identify, or whose name changed in the input."""
    for name in _COLUMNS:
        before, after = _setting(old, name), _setting(new, name)
        if before != after and _may_be_one_column(old, new, name):
            is_one = "which may be one column: compared as the same"
            yield f"input.{name} was {_shown(before)} and is {_shown(after)}, {is_one}"
        was, now = ([column.name for column in _columns(run, name)] for run in (old, new))
        if before == after and was != now and was and now and None not in was + now:
            yield (
                f"input.{name} is {_shown(before)} in both runs, but means {_listed(was)} in OLD and "
                f"{_listed(now)} in NEW"
            )


def _is_one_column(old: RunQuery, new: RunQuery, name: str) -> bool | None:
    """Return True if the setting meant the same columns of both inputs; None if a manifest does not say."""
    before, after = _columns(old, name), _columns(new, name)
    if not before or not after:
        return None
    return len(before) == len(after) and all(map(_is_same, before, after))


def _is_same(before: InputColumn, after: InputColumn) -> bool:
    """Compare columns by name if both inputs have names."""
    if before.name is None or after.name is None:
        return before.position == after.position
    return before.name == after.name


def _may_be_one_column(old: RunQuery, new: RunQuery, name: str) -> bool:
    """Return True if a manifest does not identify a setting's column, and the settings may mean the same one."""
    return _is_one_column(old, new, name) is None and _may_mean_the_same(_setting(old, name), _setting(new, name))


def _columns(run: RunQuery, name: str) -> list[InputColumn]:
    return [column for column in run.input.columns if column.setting == name]


def _setting(run: RunQuery, name: str) -> object:
    return getattr(run.config.input, name)


def _may_mean_the_same(before: object, after: object) -> bool:
    """Return True if two settings may mean the same column, or the same columns one by one."""
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        return len(before) == len(after) and all(map(_may_mean_the_same, before, after))
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
    """Return a remark if the time window moved: the query is the same, but the reader should know."""
    before, after = ((run.config.input.time_from, run.config.input.time_until) for run in (old, new))
    if before == after:
        return []
    return [f"the time windows differ: OLD read {_window(*before)}, NEW {_window(*after)}"]


def _window(start: object, end: object) -> str:
    return f"{'everything' if start is None else f'from {start}'}{'' if end is None else f' until {end}'}"


def _meant(run: RunQuery, name: str) -> str:
    """Return the columns of a setting in brackets, if the manifest states them."""
    columns = [
        f"column {column.position}" if column.name is None else f"column {column.position}, {column.name!r}"
        for column in _columns(run, name)
    ]
    return f" ({'; '.join(columns)})" if columns else ""


def _listed(names: list[str | None]) -> str:
    return " and ".join(f"column {name!r}" for name in names)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(repr, value)) + "]"
    return "null" if value is None else repr(value)
