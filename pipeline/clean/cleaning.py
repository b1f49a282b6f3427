"""Clean rows into edges: nulls, filters, dense ids, duplicates, fingerprint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial, reduce
from operator import and_
from typing import Any

import numpy as np
import pyarrow as pa

from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.backends.backend import A_VALUE, Backend, Column, Edges, HostNeeded, Rows, is_key, key_roles
from mbe_stage.pipeline.clean.attributes import attributes_of, moments_of
from mbe_stage.pipeline.clean.doubts import with_doubts
from mbe_stage.pipeline.clean.events import NO_TIME, Events
from mbe_stage.pipeline.clean.facts import InputFacts
from mbe_stage.pipeline.clean.keys import KeptRows, facts_of_rows, log_read, number_keys, number_tuples, with_lone
from mbe_stage.pipeline.clean.time_buckets import Parts, number_buckets, unit_of, unit_words
from mbe_stage.pipeline.clean.undirected import clean_undirected
from mbe_stage.pipeline.clean.window import window_of
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import InputError, with_settings
from mbe_stage.pipeline.io.further import is_further

_SECOND = 1_000_000
_AsTimes = Callable[[np.ndarray, np.ndarray], np.ndarray]
# Years 1000 to 8999. Some inputs use years 1 and 9999, where calendars end, for "never". Parts of a time line reach
# beyond its ends.
_MOMENTS = (-30_610_224_000 * _SECOND, 221_845_392_000 * _SECOND)


def clean(rows: Rows, config: InputConfig, backend: Backend) -> Edges[Any, Any]:
    """Clean rows into the form that all later steps use.

    Rows with a null in a column that is read are refused or dropped (`config.nulls`). Then the weight filter and the
    time filter apply to each row, and duplicate edges are merged. Weights and times that no filter reads may be
    missing. The configuration is that of the reader.

    Raises
    ------
    InputError
        The input cannot be used, or no edge is left; the message names the place and the reason.
    HostNeeded
        The host must process the rows.
    """
    columns = {role: backend.column(rows, role, config.key_type) for role in rows.roles if not is_further(role)}
    # Drop the unconverted form of the columns that were converted.
    rows = rows.with_roles([role for role in rows.roles if is_further(role)])
    kept = KeptRows(rows, columns, config, backend)
    kept.keep("null", present(rows, columns, config, backend.xp))
    if config.min_weight is not None:
        kept.keep("weight", backend.at_least(kept.values("weight"), config.min_weight))
    if has_window(config):
        times, refuse = kept.values("timestamp"), kept.refusal("timestamp")
        kept.keep("time", window_of(lambda: [times], columns["timestamp"].moments, config, refuse, backend)(times))
    if not kept.n:
        raise no_edges(rows, kept.dropped, config)
    if config.is_undirected:
        return clean_undirected(kept)
    numbered = {
        role: number_keys(kept.values(role), config.key_type, rows.keys, kept.refusal(role), backend)
        for role in columns
        if is_key(role)
    }
    of_graphs = [numbered["by"]] if "by" in numbered else []
    left_of_rows, left_keys = number_tuples([*of_graphs, numbered["left"]], kept.refusal("left"), backend)
    right_of_rows, right_keys = _number_right(numbered, kept)
    if not config.keeps_events:
        numbered.clear()
    has_buckets, of_rows = config.time_bucket is not None, (left_of_rows, right_of_rows)
    events, unread = _events_of(kept, of_rows)
    with run_state.at_part(f"ordering {kept.n:,} edges"):
        left_ids, right_ids = backend.distinct_pairs(*of_rows, len(left_keys), len(right_keys))
    # Computed once for the edges here and the results later.
    hashes = backend.key_hashes(left_keys, "left"), backend.key_hashes(right_keys, "right")
    of_events = None if events is None else events.fingerprint(*(backend.on_host(of_side) for of_side in hashes))
    if config.keeps_rows:
        events = events or Events(backend.on_host(left_of_rows), backend.on_host(right_of_rows), None, None)
        events = replace(events, rows=backend.on_host(kept.positions))
    facts = facts_of_rows(
        rows,
        kept.dropped,
        (len(left_keys), len(right_keys), int(left_ids.size)),
        backend.edge_fingerprint(left_ids, right_ids, *hashes),
        warnings=(*rows.warnings, *unread),
        events_fingerprint=of_events,
    )
    log_read(facts, rows.reader)
    found: Any = backend.edges(left_ids, right_ids, left_keys, right_keys, facts, hashes, events)
    found = with_doubts(found, config, {"left": range(facts.n_left), "right": range(facts.n_right)})
    if events is None or not has_buckets:
        return found
    later = _number_right(numbered, kept, half_later=True)
    return replace(found, half_later=with_right(found, left_of_rows, later, backend))


def _number_right(numbered: dict[str, tuple[Any, Any]], kept: KeptRows, *, half_later: bool = False) -> tuple[Any, Any]:
    """Return the right vertex of each remaining row, and the right keys, with buckets shifted by half on request."""
    config, backend = kept.config, kept.backend
    roles = key_roles("right", len(config.right_columns))
    parts = [numbered[role] for role in ("by", *roles) if role in numbered]
    if config.bucket_seconds is not None:
        times, moments = kept.values("timestamp"), kept.columns["timestamp"].moments
        parts.append(number_buckets(times, moments, *bucket_of(config, half_later), kept.refusal("timestamp"), backend))
        if not config.keeps_events:
            # Numbering tuples needs the memory of the times.
            kept.columns.clear()
            del times
            pa.default_memory_pool().release_unused()
    return number_tuples(parts, kept.refusal(roles[0]), backend)


def bucket_of(config: InputConfig, half_later: bool) -> tuple[int, int]:
    """Return the width of time buckets and their offset from 1970, in microseconds."""
    width = (config.bucket_seconds or 0) * _SECOND
    return width, config.offset_seconds * _SECOND + (width // 2 if half_later else 0)


def with_right(edges: Any, left_of_rows: Any, right: tuple[Any, Any], backend: Backend) -> Any:
    """Return the edges of the same rows with other right vertices, given those of each row and their keys."""
    right_of_rows, right_keys = right
    left_ids, right_ids = backend.distinct_pairs(left_of_rows, right_of_rows, len(edges.left_keys), len(right_keys))
    left_hashes, _ = edges.key_hashes()
    hashes = left_hashes, backend.key_hashes(right_keys, "right")
    fingerprint = backend.edge_fingerprint(left_ids, right_ids, *hashes)
    facts = of_later(edges.facts, len(left_of_rows), len(right_keys), int(left_ids.size), fingerprint)
    events = None if edges.events is None else replace(edges.events, right=backend.on_host(right_of_rows))
    return backend.edges(left_ids, right_ids, edges.left_keys, right_keys, facts, hashes, events)


def of_later(facts: InputFacts, n_rows: int, n_right: int, n_edges: int, fingerprint: str) -> InputFacts:
    """Return the facts about the same rows with other right vertices."""
    n_duplicates = n_rows - n_edges
    return replace(facts, n_right=n_right, n_edges=n_edges, duplicate_edges=n_duplicates, fingerprint=fingerprint)


def has_window(config: InputConfig) -> bool:
    """Return whether rows are filtered by time."""
    return config.time_from is not None or config.time_until is not None


def present(rows: Rows, columns: dict[str, Column], config: InputConfig, xp: Any) -> Any:
    """Return a mask of rows without nulls, or None for all rows; refuse nulls unless `config.nulls` drops them."""
    judged = {
        "weight": config.min_weight is not None,
        "timestamp": has_window(config) or config.time_bucket is not None,
    }
    masks = {
        role: column.present if is_key(role) else with_lone(column.present, rows.n_lone, xp)
        for role, column in columns.items()
        if column.present is not None and judged.get(role, True)
    }
    whole = reduce(and_, masks.values()) if masks else None
    if whole is None or bool(whole.all()):
        return None
    if config.nulls == "error":
        raise _first_null(rows, masks)
    return whole


def _first_null(rows: Rows, masks: dict[str, Any]) -> InputError | HostNeeded:
    first = {role: int(mask.argmin()) for role, mask in masks.items() if not bool(mask.all())}
    role = min(first, key=lambda role: first[role])
    n_nulls = rows.n_rows - int(masks[role].sum())
    every = f"all {n_nulls} values are null or empty"
    some = f"no value ({n_nulls} of {rows.n_rows} are null or empty)"
    refused = rows.refusal(
        first[role],
        role,
        found=every if n_nulls == rows.n_rows and is_key(role) else some,
        expected=A_VALUE,
        remedy=f"fill them in, or set {setting('input.nulls')} to drop",
    )
    return with_settings(refused, {"input.nulls": "drop"})


def no_edges(rows: Rows, dropped: Mapping[str, int], config: InputConfig) -> InputError | HostNeeded:
    """Return the error if no rows remain; `dropped` has their number by rule."""
    refused = partial(rows.refusal, None, None)
    if not rows.n_rows:
        return refused(found="no edges: both sides are empty", expected="at least one", remedy="check the input")
    bounds = {
        "null": f"{setting('input.nulls')} is drop",
        "weight": f"{setting('input.min_weight')} is {config.min_weight}",
        "time": f"{setting('input.time_from')} is {config.time_from!r} and "
        f"{setting('input.time_until')} {config.time_until!r}",
    }
    causes = ", ".join(f"{count} by {rule} ({bounds[rule]})" for rule, count in dropped.items() if count)
    return refused(
        found=f"all {rows.n_rows} rows were dropped: {causes}",
        expected="at least one edge",
        remedy="relax that filter, or check the columns it reads",
    )


def _events_of(kept: KeptRows, ids: tuple[Any, Any]) -> tuple[Events | None, tuple[str, ...]]:
    """Return the weights, times and further columns of the remaining rows; and a warning for each unusable column.

    The former are None if no output needs them. `ids` are the ends of the remaining rows.
    """
    rows, columns, config, backend = kept.rows, kept.columns, kept.config, kept.backend
    weights = times = None
    warnings: tuple[str, ...] = ()
    if config.keeps_events and "weight" in columns:
        weights = finite_weights(*_still_in("weight", kept))
    if config.keeps_events and "timestamp" in columns:
        column, has_buckets = _still_in("timestamp", kept), config.time_bucket is not None
        as_moments, warnings = moments_from(lambda: [column], columns["timestamp"].moments, has_buckets)
        times = None if as_moments is None else as_moments(*column)
    further = [(role, kept.on_host(backend.further(rows, role))) for role in rows.roles if is_further(role)]
    attributes, moments = tuple(attributes_of(further)), moments_of(further)
    is_named = config.keeps_events and columns.keys() & {"weight", "timestamp"}
    if not is_named and not attributes and moments is None:
        return None, ()
    left, right = (backend.on_host(side) for side in ids)
    return Events(left, right, weights, times, attributes, moments), warnings


def finite_weights(values: np.ndarray, is_there: np.ndarray) -> np.ndarray:
    """Return weights in the form of `Events`, float64: one bit pattern for all missing values, and one for zero."""
    weights = values.astype(np.float64)
    return np.where(is_there & np.isfinite(weights), weights, np.nan) + 0.0


def moments_from(parts: Parts, are_moments: bool, are_seconds: bool) -> tuple[_AsTimes | None, tuple[str, ...]]:
    """Return a function that converts times and their masks to `Events.times`, and warnings; `parts` has all of both.

    The function is None if times are neither moments nor known to be seconds since 1970.
    """
    if are_moments:
        return _moments, ()
    largest = max((float(np.abs(times[is_there]).max(initial=0)) for times, is_there in parts()), default=0.0)
    unit = unit_of((times[is_there] for times, is_there in parts()), largest)
    if are_seconds or unit == "seconds":
        return _moments_of_seconds, ()
    if not any(is_there.any() for _, is_there in parts()):
        return None, ()
    looks = f", which look like {unit_words(unit)}" if unit else ""
    return None, (
        f"times of edges are left out: the column of times has numbers up to {largest:,.0f}{looks}; expected "
        "seconds since 1970 (from 1973), or moments; convert the column",
    )


def _still_in(role: str, kept: KeptRows) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of the remaining rows, 0 if missing; and a mask of the rows with a value."""
    values, present = kept.backend.on_host(kept.values(role)), kept.columns[role].present
    if present is None:
        return values, np.ones(values.size, np.bool_)
    is_there = kept.backend.on_host(kept.of(present))
    return np.where(is_there, values, values.dtype.type(0)), is_there


def _moments_of_seconds(times: np.ndarray, is_there: np.ndarray) -> np.ndarray:
    # Seconds often have 32 bits, which are too few for the following checks.
    is_float = times.dtype.kind == "f"
    seconds = times.astype(np.float64 if is_float else np.int64) * _SECOND
    return _moments(np.rint(seconds) if is_float else seconds, is_there)


def _moments(microseconds: np.ndarray, is_there: np.ndarray) -> np.ndarray:
    is_there = is_there & (microseconds >= _MOMENTS[0]) & (microseconds < _MOMENTS[1])
    return np.where(is_there, microseconds, 0).astype(np.int64) + np.where(is_there, 0, NO_TIME)
