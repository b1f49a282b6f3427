"""What was read and what became of it; and how an integer is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

__all__ = ["InputColumn", "InputFacts", "UndirectedFacts", "facts_of", "written_integer"]


@dataclass(frozen=True, slots=True)
class InputColumn:
    """The column of the input that a setting meant, by number or by name.

    Attributes
    ----------
    setting : {"left", "right", "weight", "timestamp"}
        The key of the section `input`; `right` as often as several columns make the key, in their order.
    position : int
        From 0.
    name : str or None
        As the input has it; None where the input names no columns.
    """

    setting: str
    position: int
    name: str | None


@dataclass(frozen=True, slots=True)
class UndirectedFacts:
    """What became of rows whose two ends are of one set of vertices.

    Attributes
    ----------
    loops : int
        Rows with one vertex at both ends, which are no edges; a vertex that an object in memory has without any edge is
        read as one.
    reversed_edges : int
        Edges that the input has in both directions: one of the two was merged into the other.
    lone_vertices : int
        Vertices without an edge.
    """

    loops: int
    reversed_edges: int
    lone_vertices: int


@dataclass(frozen=True, slots=True)
class InputFacts:
    """What was read and what became of it; published in the manifest.

    Attributes
    ----------
    source : str
        The path as given, or ``memory:<kind>``.
    format : str
        The format that was read.
    rows_read, rows_dropped_null, rows_dropped_weight, rows_dropped_time, duplicate_edges : int
        ``n_edges = rows_read - rows_dropped_* - duplicate_edges``, and of an undirected graph ``- loops -
        reversed_edges``.
    n_left, n_right, n_edges : int
        Of an undirected graph both are the number of its vertices.
    fingerprint : str
        Names the set of edges by their own keys, whatever their order or file format.
    events_fingerprint : str or None
        Names the rows with their weights and times, where an output asks for these and the input names them.
    warnings : tuple of str
        What reading had to do otherwise than asked, or could not check; a sentence each.
    columns : tuple of InputColumn
        Those that the settings meant, read or not; empty in manifests that do not say.
    undirected : UndirectedFacts or None
        None where left and right are two sets of vertices.
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

    @property
    def vertices_text(self) -> str:
        """How many vertices there are, in words."""
        if self.undirected is not None:
            return f"{self.n_left:,} {'vertex' if self.n_left == 1 else 'vertices'}"
        return f"{self.n_left:,} left x {self.n_right:,} right"


def facts_of(values: Mapping[str, Any]) -> InputFacts:
    """The facts that `dataclasses.asdict` made these values of, through JSON or not."""
    return TypeAdapter(InputFacts).validate_python(values)


def written_integer(text: str) -> int | None:
    """The integer within int64 that is written exactly so; None for every other text."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and str(int(text)) == text):
        return None
    return int(text) if -(2**63) <= int(text) < 2**63 else None
