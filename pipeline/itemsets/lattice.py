"""Concept lattices: all concepts of a context, their cover relation, and Burmeister's files of contexts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.enumerate import enumerate_bicliques
from mbe_stage.bicliques.results import BicliqueTable
from mbe_stage.engines import AUTO
from mbe_stage.errors import InvalidArgument
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.itemsets.covers import covers
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io import reading
from mbe_stage.pipeline.itemsets.baskets import baskets_of
from mbe_stage.pipeline.itemsets.rules import with_biclique
from mbe_stage.pipeline.safe_paths import replaced_file


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """A formal context.

    Attributes
    ----------
    objects, attributes : tuple of str
    incidence : (n_objects, n_attributes) bool
        The attributes of each object.
    """

    objects: tuple[str, ...]
    attributes: tuple[str, ...]
    incidence: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class ConceptLattice:
    """All concepts of a context, and which is directly below which.

    Attributes
    ----------
    concepts : pa.Table
        Columns `extent` and `intent`: positions of objects and of attributes, ascending. The rows are ordered by the
        size of the extent, so the least concept is the first and the greatest the last.
    covers : pa.Table
        Columns `lower` and `upper`, rows of `concepts`: the upper one is greater, and none lies between them.
    """

    concepts: pa.Table
    covers: pa.Table


def concept_lattice(context: Any, *, engine: str = AUTO, threads: int = 0) -> ConceptLattice:
    """Return the concept lattice of a context.

    Parameters
    ----------
    context
        A `Context`, or baskets as `closed_itemsets` takes them: transactions are objects, items attributes.
    engine, threads
        As in `closed_itemsets`.

    Raises
    ------
    InvalidArgument, InputError
        As `closed_itemsets`.

    Examples
    --------
    >>> context = Context(("tea", "milk"), ("hot", "white"), np.array([[True, False], [True, True]]))
    >>> lattice = concept_lattice(context, engine="reference")
    >>> lattice.concepts["intent"].to_pylist(), lattice.covers.to_pylist()
    ([[0, 1], [0]], [{'lower': 0, 'upper': 1}])
    """
    baskets = baskets_of(context.incidence if isinstance(context, Context) else context)
    graph = BipartiteCSR.from_edges(baskets.rows, baskets.items, baskets.n_rows, len(baskets.names))
    table = enumerate_bicliques(graph, engine=engine, threads=threads)
    left, right, none = np.arange(graph.n_left), np.arange(graph.n_right), np.empty(0)
    least = len(table)
    if is_least_new := not (np.diff(table.right_offsets) == graph.n_right).any():
        table = with_biclique(table, none if right.size else left, right)
    if not (np.diff(table.left_offsets) == graph.n_left).any():
        table = with_biclique(table, left, none)
    upper, lower = covers(graph, table)
    if is_least_new:
        # Nothing leads from a concept to one without objects: it is below all that are above no other.
        lowest = np.setdiff1d(np.arange(len(table)), np.append(upper, least))
        upper, lower = np.append(upper, lowest), np.append(lower, np.full(lowest.size, least))
    return _ordered(table, lower, upper)


def _ordered(table: BicliqueTable, lower: np.ndarray, upper: np.ndarray) -> ConceptLattice:
    extents, intents = (
        [members[start:end].tolist() for start, end in pairwise(offsets)]
        for offsets, members in ((table.left_offsets, table.left_members), (table.right_offsets, table.right_members))
    )
    order = sorted(range(len(table)), key=lambda row: (len(extents[row]), extents[row]))
    ranks = np.empty(len(order), np.int32)
    ranks[order] = np.arange(len(order))
    lists = pa.list_(pa.int32())
    concepts = {
        name: pa.array([of_rows[row] for row in order], lists)
        for name, of_rows in (("extent", extents), ("intent", intents))
    }
    pairs = pa.table({"lower": ranks[lower], "upper": ranks[upper]})
    return ConceptLattice(pa.table(concepts), pairs.sort_by([("lower", "ascending"), ("upper", "ascending")]))


def read_cxt(path: str | Path) -> Context:
    """Read a context from a file in Burmeister's format (`.cxt`).

    Raises
    ------
    InputError
        The file cannot be read, or is of another format.
    """
    with reading(Path(path)):
        text = Path(path).read_bytes().decode("utf-8", "surrogateescape")
    lines = text.splitlines()
    # The second line is a title, which some programs leave out.
    start = next((at for at in (2, 1) if all(line.strip().isdecimal() for line in lines[at : at + 2])), None)
    if not lines or lines[0].strip() != "B" or start is None or len(lines) < start + 2:
        raise _refused(path, f"the first lines {lines[:4]}", "B, a title, the numbers of objects and of attributes")
    n_objects, n_attributes = (int(line) for line in lines[start : start + 2])
    rest = lines[start + 2 :]
    if rest and not rest[0].strip():
        del rest[0]
    while len(rest) > 2 * n_objects + n_attributes and not rest[-1].strip():
        del rest[-1]
    n_names = n_objects + n_attributes
    if len(rest) != n_names + n_objects:
        raise _refused(path, f"{len(rest)} lines of names and rows", f"{n_names + n_objects}")
    rows = [line.strip().upper() for line in rest[n_names:]]
    for at, row in enumerate(rows):
        if len(row) != n_attributes or row.strip("X."):
            raise _refused(path, f"row {at + 1} {row[:40]!r}", f"{n_attributes} characters, X or .")
    incidence = np.array([[mark == "X" for mark in row] for row in rows], np.bool_).reshape(n_objects, n_attributes)
    return Context(tuple(rest[:n_objects]), tuple(rest[n_objects:n_names]), incidence)


def write_cxt(context: Context, path: str | Path) -> None:
    """Write a context to a file in Burmeister's format, completely or not at all.

    Raises
    ------
    InvalidArgument
        A name has several lines, or the numbers of names are not those of the incidence.
    """
    names = (*context.objects, *context.attributes)
    if context.incidence.shape != (len(context.objects), len(context.attributes)):
        raise InvalidArgument(
            f"incidence has the shape {context.incidence.shape}: expected a row for each of {len(context.objects)} "
            f"objects and a column for each of {len(context.attributes)} attributes"
        )
    for name in names:
        if len(name.splitlines()) != 1:
            raise InvalidArgument(f"{name!r} is no name for a line of a .cxt file: expected one line of text")
    rows = ("".join("X" if holds else "." for holds in row) for row in context.incidence)
    lines = ("B", "", str(len(context.objects)), str(len(context.attributes)), "", *names, *rows)
    with replaced_file(Path(path).resolve()) as file:
        file.write("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"))


def _refused(path: str | Path, found: str, expected: str) -> InputError:
    return InputError.at(path, found=found, expected=expected, remedy="write it again in Burmeister's format")
