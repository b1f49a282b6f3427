"""The tables of groups as arrays, and checks of members and vertices from the definitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import ArrayLike

from mbe_stage.groups.reference import Bicliques, Pair, degree_percentiles, rank_score
from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.verify.job import Job
from mbe_stage.pipeline.verify.recipe import biclique_keys

GROWN, SHORT = "grown_cover", "short_list"
_SIDES = ("left", "right")
# Columns of `groups` that may hold nulls; they are checked with their values.
_NULLABLE = (
    "core_key",
    "weight_total",
    "weight_median",
    "first_time",
    "last_time",
    "busiest_share",
    "busiest_window",
    "busiest_start",
    "busiest_item_share",
    "half_later",
    "key",
    "since",
    "verdict",
    "n_known",
    "known_share",
    "known_p_value",
    "chance_p_value",
)
# Tolerance of entries of an eigenvector, which have 20 binary digits.
_UNSURE_DIGITS = 4e-6

Ids = Callable[[Path, np.ndarray, np.ndarray, np.ndarray, pa.ChunkedArray], np.ndarray]
"""Takes a table's path and, for each vertex, the row of its group, whether it is a right one, `vertex` and `key_value`;
returns its id among the ids of all graphs."""


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The two tables of groups, and the members as arrays, in the order of `group_members`.

    `places` ascend: each is group, side and vertex in one number.
    """

    path: Path
    table: pa.Table
    members_path: Path
    members: pa.Table
    of_row: np.ndarray
    is_right: np.ndarray
    vertices: np.ndarray
    places: np.ndarray

    def __len__(self) -> int:
        return self.table.num_rows

    def column(self, name: str) -> list[Any]:
        """Return the values of a column of `groups`."""
        return self.table[name].to_pylist()

    def side(self, side: int) -> tuple[np.ndarray, np.ndarray]:
        """Return offsets and members of a side, in the order of the groups."""
        of_side = self.is_right == bool(side)
        counts = np.bincount(self.of_row[of_side], minlength=len(self))
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), self.vertices[of_side]

    def members_of(self, side: int) -> list[list[int]]:
        """Return the members of each group on a side."""
        offsets, members = self.side(side)
        return [part.tolist() for part in np.split(members, offsets[1:-1])] if len(self) else []

    def bicliques(self, *, is_grown: bool) -> Bicliques:
        """Return members and keys of the groups of one kind."""
        rows = np.flatnonzero([kind == (GROWN if is_grown else SHORT) for kind in self.column("kind")])
        (left_offsets, left), (right_offsets, right) = self.side(0), self.side(1)
        keys = np.array(self.column("group_key"), np.int64)
        return Bicliques(keys, (left_offsets, right_offsets), (left, right)).take(rows)

    def only(self, kept: np.ndarray) -> Groups:
        """Return the groups with some of their members."""
        arrays = {name: getattr(self, name)[kept] for name in ("of_row", "is_right", "vertices", "places")}
        return replace(self, members=self.members.filter(pa.array(kept)), **arrays)

    def refuse(self, row: int, what: str) -> VerificationError:
        """Return an error that names a row of `groups`."""
        return VerificationError(f"{self.path}, row {row}: {what}")


@dataclass(frozen=True, slots=True, eq=False)
class Within:
    """The edges within groups.

    Attributes
    ----------
    n_edges : (n,) int64
        Edges of each group.
    of_member : int64
        For each row of `group_members`, the edges to the other side of its group.
    explained : pair of (n_vertices,) int64
        For each vertex, the number of its edges in a group.
    left, right : int64
        The edges, group after group.
    """

    n_edges: np.ndarray
    of_member: np.ndarray
    explained: tuple[np.ndarray, np.ndarray]
    left: np.ndarray
    right: np.ndarray


def read_degrees(run: Path, side: str) -> np.ndarray:
    """Read the degrees of one side's vertices; ``(n,) int64``."""
    return pq.read_table(run / f"{side}_vertices.parquet", columns=["degree"])["degree"].to_numpy()


def read_groups(job: Job, ids: Ids) -> Groups:
    """Read both tables; check the order of members, and that each group's key is that of its members."""
    assert job.hashes is not None
    path, members_path = job.run / "groups.parquet", job.run / "group_members.parquet"
    table, members = without_nulls(path, but=_NULLABLE), without_nulls(members_path, but=("label", "key_value"))
    keys = table["group_key"].to_pylist()
    if len(set(keys)) < len(keys):
        row = next(row for row, key in enumerate(keys) if key in keys[:row])
        raise VerificationError(f"{path}, row {row}: the group_key {keys[row]} occurs twice")
    of_row, is_right = rows_of(members_path, members, keys), is_right_of(members_path, members["side"])
    vertices = ids(members_path, of_row, is_right, members["vertex"].to_numpy(), members["key_value"])
    place = (2 * of_row + is_right) << 32 | vertices
    is_behind = np.diff(place, prepend=-1) <= 0
    refuse_first(members_path, is_behind, "out of order; expected rows by rank, side and vertex")
    groups = Groups(path, table, members_path, members, of_row, is_right, vertices, place)
    sums = []
    for side, name in enumerate(_SIDES):
        offsets, own = groups.side(side)
        sizes = np.diff(offsets)
        compare(groups.path, f"n_{name}", groups.column(f"n_{name}"), sizes.tolist())
        refuse_first(path, sizes == 0, f"has no {name} members")
        hashes = np.concatenate([np.zeros(1, np.uint64), np.cumsum(job.hashes[side][own])])
        sums.append(hashes[offsets[1:]] - hashes[offsets[:-1]])
    compare(path, "group_key", keys, biclique_keys(*sums).tolist())
    return groups


def rows_of(path: Path, table: pa.Table, keys: list[int]) -> np.ndarray:
    """Return the row of the group of each row of a table; ``(n,) int64``."""
    position = {key: row for row, key in enumerate(keys)}
    of_row = np.array([position.get(key, -1) for key in table["group_key"].to_pylist()], np.int64)
    refuse_first(path, of_row < 0, "its group_key is not in groups")
    return of_row


def within(groups: Groups, sizes: tuple[int, int], of_row: np.ndarray, left: np.ndarray, right: np.ndarray) -> Within:
    """Return the edges of groups from a table of edges between members.

    Parameters
    ----------
    sizes : (int, int)
        Vertices of the sides.
    of_row, left, right : int64
        The group of each edge, as a row of `groups`, and its ends.
    """
    of_member = np.zeros(groups.vertices.size, np.int64)
    for side, vertices in enumerate((left, right)):
        np.add.at(of_member, np.searchsorted(groups.places, (2 * of_row + side) << 32 | vertices), 1)
    pairs = np.unique(left << 32 | right)
    explained = np.bincount(pairs >> 32, minlength=sizes[0]), np.bincount(pairs & 0xFFFFFFFF, minlength=sizes[1])
    return Within(np.bincount(of_row, minlength=len(groups)), of_member, explained, left, right)


def check_members(
    groups: Groups, found: Within, keys: tuple[pa.ChunkedArray, pa.ChunkedArray], degrees: tuple[np.ndarray, np.ndarray]
) -> None:
    """Check the users' keys and the edges of each member."""
    path, table = groups.members_path, groups.members
    own = np.empty(groups.vertices.size, np.int64)
    for side in (0, 1):
        of_side = groups.is_right == bool(side)
        own[of_side] = degrees[side][groups.vertices[of_side]]
        rows = np.flatnonzero(of_side)
        expected = keys[side].take(pa.array(groups.vertices[of_side]))
        check_keys(path, table["key"].take(pa.array(rows)), expected, rows)
    compare(path, "n_edges", table["n_edges"].to_pylist(), found.of_member)
    compare(path, "edge_share", table["edge_share"].to_pylist(), found.of_member / own)


def check_scores(
    job: Job, groups: Groups, degrees: Pair, columns: Mapping[str, Pair], scores: Mapping[str, float], *, is_whole: bool
) -> str:
    """Check every vertex: its groups, degree rank and scores.

    Parameters
    ----------
    columns : mapping
        Values of the left and of the right vertices.
    scores : mapping
        Tolerances of the scores that need all bicliques.
    is_whole : bool
        True if all bicliques are known, false if only the groups are.
    """
    assert job.keys is not None
    path = job.run / "vertex_scores.parquet"
    table = without_nulls(path, but=("group_key", "association"))
    sizes = degrees[0].size, degrees[1].size
    if table.num_rows != sum(sizes):
        raise VerificationError(f"{path}: has {table.num_rows} rows; expected {sum(sizes)}, one per vertex")
    refuse_first(path, is_right_of(path, table["side"]) != (np.arange(sum(sizes)) >= sizes[0]), "is of the wrong side")
    compare(path, "vertex", table["vertex"].to_numpy(), np.concatenate([np.arange(n) for n in sizes]))
    group_keys = np.append(np.array(groups.column("group_key"), np.int64), 0)
    is_scored = job.manifest.derived["groups"].get("candidates_not_scored") == 0
    for side, start in ((0, 0), (1, sizes[0])):
        part, of_side = table.slice(start, sizes[side]), degrees[side]
        check_keys(path, part["key"], job.keys[side], start + np.arange(sizes[side]))
        offsets, members = groups.side(side)
        first = np.full(of_side.size, len(groups), np.int64)
        np.minimum.at(first, members, np.repeat(np.arange(len(groups)), np.diff(offsets)))
        is_null = part["group_key"].is_null().to_numpy()
        refuse_first(
            path, is_null != (first == len(groups)), "group_key must be null exactly for vertices in no group", start
        )
        for name, values, recomputed in (
            ("group_key", pc.fill_null(part["group_key"], 0), group_keys[first]),
            ("n_groups", part["n_groups"], np.bincount(members, minlength=of_side.size)),
            ("degree", part["degree"], of_side),
            ("degree_percentile", part["degree_percentile"], degree_percentiles(of_side)),
        ):
            compare(path, name, values.to_numpy(), recomputed, start)
        for name, of_sides in columns.items():
            found, unsure = part[name].to_numpy(), scores.get(name, _UNSURE_DIGITS if "eigen" in name else 1e-12)
            if is_whole or name not in scores:
                compare(path, name, found, of_sides[side], start, unsure=unsure)
            elif is_scored:
                # The groups are bicliques too, so they give a lower bound.
                is_low = ~(found >= of_sides[side] * (1 - unsure))
                refuse_first(path, is_low, f"{name} is below the value from the vertex's groups", start)
        _check_score(path, groups, part, side, start)
    return f"{sum(sizes):,} vertices"


def _check_score(path: Path, groups: Groups, part: pa.Table, side: int, start: int) -> None:
    """Check the score of one side's vertices from its parts, and that no listed grown group is better than stated."""
    share, grown = part["edge_share"].to_numpy(), part["grown_surprise"].to_numpy()
    compare(path, "score", part["score"].to_numpy(), rank_score(share, grown), start)
    refuse_first(path, ~(grown >= 0), "grown_surprise is negative", start)
    offsets, members = groups.side(side)
    is_grown = np.array([kind == GROWN for kind in groups.column("kind")], np.bool_)
    least = np.zeros(grown.size)
    surprise = np.where(is_grown, groups.table["surprise"].to_numpy(), 0.0)
    np.maximum.at(least, members, np.repeat(surprise, np.diff(offsets)))
    refuse_first(path, grown < least, "grown_surprise is below the surprise of the vertex's groups", start)


def without_nulls(path: Path, but: Collection[str] = ()) -> pa.Table:
    """Read a table and refuse nulls, except in some columns.

    Raises
    ------
    VerificationError
        Another column has nulls.
    """
    table = pq.read_table(path)
    for name in table.column_names:
        if name not in but and table[name].null_count:
            raise VerificationError(f"{path}, column {name!r}: holds {table[name].null_count} nulls; expected none")
    return table


def is_right_of(path: Path, side: pa.ChunkedArray) -> np.ndarray:
    """Return whether each side is right; ``(n,) bool``."""
    text = side.cast(pa.string())
    is_right = pc.equal(text, "right").to_numpy(zero_copy_only=False)
    is_left = pc.equal(text, "left").to_numpy(zero_copy_only=False)
    refuse_first(path, ~(is_left | is_right), lambda row: f"side is {text[row]}; expected left or right")
    return is_right


def check_keys(path: Path, found: pa.ChunkedArray, expected: pa.ChunkedArray, rows: np.ndarray) -> None:
    """Check users' keys; `rows` are the numbers of the rows."""
    kind = pa.int64() if pa.types.is_integer(found.type) else pa.large_string()
    differs = pc.not_equal(found.cast(kind), expected.cast(kind)).to_numpy(zero_copy_only=False)
    refuse_first(
        path,
        differs,
        lambda row: f"key is {found[row].as_py()!r:.80}; the vertex has {expected[row].as_py()!r:.80}",
        numbers=rows,
    )


def compare(
    path: Path, name: str, found: ArrayLike, expected: ArrayLike, start: int = 0, *, unsure: float = 1e-12
) -> None:
    """Compare a column with its expected values; fractions may differ by a relative tolerance.

    Raises
    ------
    VerificationError
        At the first row that differs; rows are numbered from `start`.
    """
    values, right = np.asarray(found), np.asarray(expected)
    is_same = np.isclose(values, right, rtol=unsure, atol=0) if right.dtype.kind == "f" else values == right
    refuse_first(path, ~is_same, lambda row: f"{name} is {values[row]}; recomputed {right[row]}", start)


def compare_nullable(
    path: Path, name: str, found: Sequence[Any], expected: Sequence[Any], *, unsure: float = 1e-12
) -> None:
    """Compare a column that may hold nulls, or text, with its expected values; as `compare`."""

    def is_same(stated: Any, wanted: Any) -> bool:
        if isinstance(stated, float) and isinstance(wanted, float):
            return math.isclose(stated, wanted, rel_tol=unsure, abs_tol=1e-300)
        return bool(stated == wanted)

    differs = np.array([not is_same(*pair) for pair in zip(found, expected, strict=True)], np.bool_)
    refuse_first(path, differs, lambda row: f"{name} is {found[row]!r:.80}; recomputed {expected[row]!r:.80}")


def refuse_first(
    path: Path,
    is_wrong: np.ndarray,
    what: str | Callable[[int], str],
    start: int = 0,
    numbers: np.ndarray | None = None,
) -> None:
    """Raise for the first row that is wrong, if one is.

    Parameters
    ----------
    is_wrong : (n,) bool
    what : str or callable
        The fault; a callable takes the position of the row.
    start : int
        Number of the first row in its table.
    numbers : (n,) int64, optional
        Numbers of all rows, if they are not consecutive.

    Raises
    ------
    VerificationError
    """
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        number = start + row if numbers is None else int(numbers[row])
        raise VerificationError(f"{path}, row {number}: {what if isinstance(what, str) else what(row)}")
