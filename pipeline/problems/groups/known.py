"""Known keys matched with the vertices of a graph: labels, and muted groups.

Neither affects which groups are found or how they rank. Labels add columns; an allow list mutes groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mbe_stage.groups.members import GroupMembers
from mbe_stage.pipeline.problems.both_sides import is_right_of
from mbe_stage.pipeline.problems.groups.known_keys import ALLOW, LABELS, KeyList

_UNKNOWN = -1


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """The labels of one side's vertices.

    Attributes
    ----------
    codes : (n,) int32
        Position of each vertex's class in `classes`, -1 without a label.
    classes : pa.Array
        Class names.
    is_positive : (n,) bool
        True for known cases.
    is_drawn : (n,) bool
        The counted vertices: those with a label. If no label is negative, all vertices, the unlabelled as negative.
    """

    codes: np.ndarray
    classes: pa.Array
    is_positive: np.ndarray
    is_drawn: np.ndarray

    @property
    def is_unknown(self) -> np.ndarray:
        """The vertices without a label, ``(n,) bool``."""
        return self.codes == _UNKNOWN


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """Facts about a graph's vertices.

    Attributes
    ----------
    labels : pair of Labelled, or None
        Labels of the left and right vertices; None without labels.
    allowed : pair of (n,) bool, or None
        Allowed vertices of each side; None without an allow list.
    table : pa.Table or None
        `known_keys`: the lists, with the vertex of each key; None without both.
    """

    labels: tuple[Labelled, Labelled] | None
    allowed: tuple[np.ndarray, np.ndarray] | None
    table: pa.Table | None

    @classmethod
    def of(cls, lists: Mapping[str, KeyList], keys: tuple[pa.Array, pa.Array]) -> Known:
        """Find the listed keys among those of the left and right vertices, given in dense-id order."""
        found = {name: _found(one.table, keys) for name, one in lists.items()}
        labels = found.get(LABELS)
        taken = {each.name: each.taken for each in lists[LABELS].classes} if LABELS in lists else {}
        allowed = found.get(ALLOW)
        return cls(
            labels=None if labels is None else (_labelled(labels, keys, 0, taken), _labelled(labels, keys, 1, taken)),
            allowed=None if allowed is None else (_allowed(allowed, keys, 0), _allowed(allowed, keys, 1)),
            table=_known_keys(found) if found else None,
        )

    def is_muted(self, members: GroupMembers) -> np.ndarray:
        """Return the groups whose left or right members are all allowed; ``(n,) bool``."""
        is_muted = np.zeros(len(members), np.bool_)
        for side, is_allowed in enumerate(self.allowed or ()):
            vertices, owners = members.side(side)
            is_muted |= np.bincount(owners[~is_allowed[vertices]], minlength=len(members)) == 0
        return is_muted


def _found(table: pa.Table, keys: tuple[pa.Array, pa.Array]) -> pa.Table:
    """Add a column `vertex`: the dense id on the key's side, null if the graph does not have the key."""
    is_right = is_right_of(table)
    vertices, is_there = np.zeros(table.num_rows, np.int32), np.zeros(table.num_rows, np.bool_)
    for side, of_side in enumerate(keys):
        rows = np.flatnonzero(is_right == bool(side))
        listed = table["key"].take(pa.array(rows)).combine_chunks()
        places = pc.index_in(listed, of_side.cast(pa.large_string()))
        vertices[rows] = pc.fill_null(places, 0).to_numpy()
        is_there[rows] = pc.is_valid(places).to_numpy(zero_copy_only=False)
    return table.append_column("vertex", pa.array(vertices, mask=~is_there))


def _of_side(found: pa.Table, side: int) -> pa.Table:
    """Return the rows that are vertices of a side."""
    is_side = pc.equal(found["side"], ("left", "right")[side])
    return found.filter(pc.and_(is_side, pc.is_valid(found["vertex"])))


def _labelled(found: pa.Table, keys: tuple[pa.Array, pa.Array], side: int, taken: Mapping[str, str]) -> Labelled:
    counted = pa.array([name for name, how in taken.items() if how != "ignored"], pa.large_string())
    rows = _of_side(found, side)
    rows = rows.filter(pc.is_in(rows["class"], counted))
    encoded = rows["class"].combine_chunks().dictionary_encode()
    codes = np.full(len(keys[side]), _UNKNOWN, np.int32)
    codes[rows["vertex"].to_numpy()] = encoded.indices.to_numpy()
    # The last entry is for vertices without a label.
    positive = np.array([*(taken[name] == "positive" for name in encoded.dictionary.to_pylist()), False])
    is_positive = positive[codes]
    has_label = codes != _UNKNOWN
    has_negative = bool((has_label & ~is_positive).any())
    is_drawn = has_label if has_negative or not has_label.any() else np.ones_like(has_label)
    return Labelled(codes, encoded.dictionary, is_positive, is_drawn)


def _allowed(found: pa.Table, keys: tuple[pa.Array, pa.Array], side: int) -> np.ndarray:
    is_allowed = np.zeros(len(keys[side]), np.bool_)
    is_allowed[_of_side(found, side)["vertex"].to_numpy()] = True
    return is_allowed


def _known_keys(found: Mapping[str, pa.Table]) -> pa.Table:
    from mbe_stage.pipeline.problems.groups.schemas import KNOWN_KEYS

    tables = []
    for name in (LABELS, ALLOW):
        if name in found:
            rows = found[name]
            tables.append(rows.add_column(0, "list", pa.array([name] * rows.num_rows, pa.string())))
    table = pa.concat_tables(tables).select(KNOWN_KEYS.names)
    return table.cast(KNOWN_KEYS)
