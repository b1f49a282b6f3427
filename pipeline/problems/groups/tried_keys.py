"""The right keys that are tried when none is named: the items alone, and items narrowed by further columns.

A key adds the value of an attribute, a bucket of time, or both to the item. Each key makes graphs of the same rows with
the same left vertices; a bucket makes two, the second with buckets that begin half a bucket later. An edge of the items
counts once in a graph, with the first of its values: two would not be independent. A key that is nearly a property of
the left vertices is not tried: members of one segment share items by their segment.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from mbe_stage.pipeline.backends.arrow.backend import ARROW
from mbe_stage.pipeline.backends.arrow.edges import EdgeData
from mbe_stage.pipeline.clean.cleaning import with_right
from mbe_stage.pipeline.clean.events import Attribute, Events
from mbe_stage.pipeline.clean.keys import number_tuples
from mbe_stage.pipeline.clean.time_buckets import number_buckets
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.errors import InputError

PLAIN = "items"
"""The name of the key of items alone."""

MOST_KEYS = 12
MOST_OF_ONE = 0.9
"""A key is a property of the left vertices if those with several rows have this share of them with one value."""
BUCKETS = {"1h": 3600, "1d": 86_400, "7d": 7 * 86_400, "30d": 30 * 86_400}
_MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True)
class TriedKey:
    """A tried key other than the items alone.

    Attributes
    ----------
    name : str
        A name such as ``rating``, ``1d`` or ``rating x 1d``.
    attribute : int or None
        Position among the attributes of the rows.
    bucket : str or None
        A key of `BUCKETS`.
    """

    name: str
    attribute: int | None
    bucket: str | None

    @property
    def offsets(self) -> tuple[bool, ...]:
        """Return for each of its graphs whether buckets are shifted by half."""
        return (False,) if self.bucket is None else (False, True)


def are_tried(config: Config) -> bool:
    """Return whether keys are tried if the input has further columns, because the user has named none."""
    section, reads = config.section("groups"), config.input
    is_named = reads.time_bucket is not None or len(reads.right_columns) > 1
    # `containing_right` names items, not narrower keys.
    return section.try_keys == "auto" and not (is_named or config.query.containing_right)


def keys_of(events: Events | None, config: Config) -> tuple[TriedKey, ...]:
    """Return the keys to try besides the items: attributes, buckets and their products; at most 11."""
    if events is None or not are_tried(config):
        return ()
    # Names of keys must be unique.
    taken = {PLAIN, *BUCKETS}
    attributes = [
        (i, each.name)
        for i, each in enumerate(events.attributes)
        if each.name not in taken and not _is_of_left(events.left, each.codes)
    ]
    times = events.key_times
    # A bucket that holds all rows narrows nothing.
    buckets = []
    if times is not None:
        wide = (name for name in BUCKETS if np.ptp(times) >= _width(name))
        buckets = [name for name in wide if not _is_of_left(events.left, times // _width(name))]
    keys = [
        *(TriedKey(name, i, None) for i, name in attributes),
        *(TriedKey(bucket, None, bucket) for bucket in buckets),
        *(TriedKey(f"{name} x {bucket}", i, bucket) for bucket in buckets for i, name in attributes),
    ]
    return tuple(keys[: MOST_KEYS - 1])


def n_tries(keys: Sequence[TriedKey]) -> int:
    """Return the number of graphs that are searched, that of the items included; each is paid for."""
    return 1 + sum(len(key.offsets) for key in keys)


def edges_of_key(edges: EdgeData, key: TriedKey, *, half_later: bool) -> tuple[EdgeData, np.ndarray]:
    """Return the edges of the same rows with the narrower right vertices, and the item of each of these."""
    events = edges.events
    assert events is not None
    parts = [(events.right, edges.right_keys), *narrowing(events, key, half_later=half_later)]
    codes, keys = number_tuples(parts, _refuse, ARROW)
    if codes.size > edges.left_ids.size:
        # Some edges have several rows.
        _, edge = np.unique(events.left.astype(np.int64) << 32 | events.right, return_inverse=True)
        first = np.full(edge.max(initial=-1) + 1, len(keys), np.int64)
        np.minimum.at(first, edge, codes)
        rows = np.flatnonzero(codes == first[edge])
        own, codes = np.unique(codes[rows], return_inverse=True)
        events, keys = events.take(rows), keys.take(pa.array(own))
    items = np.empty(len(keys), np.int32)
    items[codes] = events.right
    right = codes.astype(np.int32), keys
    return with_right(replace(edges, events=events), events.left, right, ARROW), items


def narrowing(events: Events, key: TriedKey, *, half_later: bool) -> Iterator[tuple[Any, Any]]:
    """Yield what a key adds to the item of each row: codes, and the values that they stand for."""
    if key.attribute is not None:
        attribute: Attribute = events.attributes[key.attribute]
        yield attribute.codes, pa.array(attribute.values, pa.large_string())
    if key.bucket is not None:
        width = _width(key.bucket)
        yield number_buckets(events.key_times, True, width, width // 2 * half_later, _refuse, ARROW)


def _is_of_left(left: np.ndarray, values: np.ndarray) -> bool:
    """Return whether the values of rows are nearly a property of their left vertices."""
    _, codes = np.unique(values, return_inverse=True)
    pairs, n_rows = np.unique(left.astype(np.int64) << 32 | codes, return_counts=True)
    totals = np.bincount(left)
    most = np.zeros(totals.size, np.int64)
    np.maximum.at(most, pairs >> 32, n_rows)
    several = totals > 1
    return bool(several.any() and most[several].sum() >= MOST_OF_ONE * totals[several].sum())


def values_of(keys: pa.Array) -> pa.Array:
    """Return right keys without their items, as JSON arrays: ``["5"]``."""
    values = [json.dumps(json.loads(key)[1:], ensure_ascii=False, separators=(",", ":")) for key in keys.to_pylist()]
    return pa.array(values, pa.string())


def _width(bucket: str) -> int:
    return BUCKETS[bucket] * _MICROSECONDS


def _refuse(row: int | None, *, found: str, expected: str, remedy: str) -> InputError:
    return InputError.at("further columns", found=f"{found} ({row})", expected=expected, remedy=remedy)
