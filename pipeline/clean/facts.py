"""Facts about the input: what was read, merged and dropped; and the canonical form of an integer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter

# Longest column name that a line shows, in characters.
_LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class InputColumn:
    """The column of the input that a setting selects by number or name.

    Attributes
    ----------
    setting : {"left", "right", "weight", "timestamp"}
        The key of the section `input`; `right` repeats in order if several columns make the key.
    position : int
        Position of the column, from 0.
    name : str or None
        Name in the input; None if the input names no columns.
    """

    setting: str
    position: int
    name: str | None


@dataclass(frozen=True, slots=True)
class UndirectedFacts:
    """Facts about rows whose ends are vertices of one set.

    Attributes
    ----------
    loops : int
        Rows with one vertex at both ends, which are not edges; an isolated vertex of an object in memory is read as
        one.
    reversed_edges : int
        Edges that the input has in both directions and that were merged.
    lone_vertices : int
        Vertices without an edge.
    """

    loops: int
    reversed_edges: int
    lone_vertices: int


QUICK_TWO_HOP_STEPS, QUICK_TWO_HOP_EDGES = 50_000_000, 1_000_000
"""Without `output.two_hop_steps`, a run counts two-hop degrees within this many steps (a tenth of a second) and up to
this many edges. With more edges, bounding the steps alone takes longer than a tenth of reading."""


@dataclass(frozen=True, slots=True)
class InputFacts:
    """Facts about the input, published in the manifest.

    Attributes
    ----------
    source : str
        The path as given, or ``memory:<kind>``.
    format : str
        The format that was read.
    rows_read, rows_dropped_null, rows_dropped_weight, rows_dropped_time, duplicate_edges : int
        ``n_edges = rows_read - rows_dropped_* - duplicate_edges``; for an undirected graph also ``- loops -
        reversed_edges``.
    n_left, n_right, n_edges : int
        For an undirected graph both sides are the number of its vertices.
    fingerprint : str
        Identifies the set of edges by their own keys, regardless of order and file format.
    events_fingerprint : str or None
        Identifies the rows with weights and times, if an output needs these and the input names them.
    warnings : tuple of str
        Deviations from the configuration, unchecked facts and doubts; a sentence each.
    columns : tuple of InputColumn
        The selected columns, read or not; empty in manifests that do not say.
    undirected : UndirectedFacts or None
        None if left and right are two sets of vertices.
    dialect : str
        The layout of a text, such as ``comma, header``; empty for other formats, and in manifests that do not say.
    n_columns : int or None
        Number of columns in the input; None for formats without columns to choose, and in manifests that do not say.
    n_edges_held : int or None
        Edges that were searched, if others, which can be in no result, were left out to stay within
        `execution.memory_budget`; else None. Then two-hop degrees are not counted.
    """

    source: str
    format: str
    rows_read: int
    rows_dropped_null: int
    rows_dropped_weight: int
    rows_dropped_time: int
    duplicate_edges: int
    n_left: int
    n_right: int
    n_edges: int
    fingerprint: str
    warnings: tuple[str, ...] = ()
    events_fingerprint: str | None = None
    columns: tuple[InputColumn, ...] = ()
    undirected: UndirectedFacts | None = None
    dialect: str = ""
    n_columns: int | None = None
    n_edges_held: int | None = None

    @property
    def taken(self) -> str:
        """The format, dialect and columns of the input, in one line.

        Examples
        --------
        >>> columns = InputColumn("left", 0, "account"), InputColumn("right", 1, "day")
        >>> of = {"columns": columns, "dialect": "comma, header", "n_columns": 3}
        >>> InputFacts("e.csv", "csv", 1, 0, 0, 0, 0, 1, 1, 1, "0-0", **of).taken
        "csv, comma, header; left = 0 'account', right = 1 'day' of 3 columns"
        """
        how = f"{self.format}, {self.dialect}" if self.dialect else self.format
        if not self.columns:
            return how
        total = "" if self.n_columns is None else f" of {self.n_columns} columns"
        return f"{how}; {', '.join(map(column_text, self.columns))}{total}"

    def most_two_hop_steps(self, limit: int | None) -> int:
        """Return the most steps for two-hop degrees of a side, given `output.two_hop_steps`; 0 counts none."""
        if self.n_edges_held is not None:
            # Two-hop degrees need all edges.
            return 0
        if limit is not None:
            return limit
        return QUICK_TWO_HOP_STEPS if self.n_edges <= QUICK_TWO_HOP_EDGES else 0

    def as_json(self) -> dict[str, Any]:
        """The facts as plain values, with `taken`."""
        return {**asdict(self), "taken": self.taken}

    @property
    def vertices_text(self) -> str:
        """The number of vertices as text."""
        if self.undirected is not None:
            return f"{self.n_left:,} {'vertex' if self.n_left == 1 else 'vertices'}"
        return f"{self.n_left:,} left x {self.n_right:,} right"


def column_text(column: InputColumn) -> str:
    """Describe a selected column: ``right = 1 'day'``."""
    name = column.name or ""
    shown = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..."
    return f"{column.setting} = {column.position}" + ("" if column.name is None else f" {shown!r}")


def facts_of(values: Mapping[str, Any]) -> InputFacts:
    """Restore the facts from the values of `dataclasses.asdict`, which may have passed through JSON."""
    return TypeAdapter(InputFacts).validate_python(values)


def written_integer(text: str) -> int | None:
    """Return the int64 integer that this text is the canonical form of; None for any other text."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and str(int(text)) == text):
        return None
    return int(text) if -(2**63) <= int(text) < 2**63 else None
