"""The bipartite picture of a case: its members in two columns, and lines for their edges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

MOST_NODES = 300
"""Members in the picture; those in most groups, with most edges, come first."""

WIDTH = 760
LEFT_X, RIGHT_X = 250, 510
_STEP, _DENSE_STEP, _DENSE = 20, 14, 60
_MOST_LETTERS = 32
_ROUNDS = 3

Edges = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Node:
    """A member at its place: its key, cut if it is long, and on the left the lines to the other ends of its edges."""

    member: Mapping[str, Any]
    y: int
    text: str
    lines: str
    n_edges: int


@dataclass(frozen=True)
class Picture:
    """Two columns of nodes, and the numbers of members that did not fit."""

    left: Sequence[Node]
    right: Sequence[Node]
    height: int
    n_edges: int
    hidden: tuple[int, int]


def picture_of(
    members: Sequence[Mapping[str, Any]],
    edges_between: Callable[[list[str], list[str]], Edges],
    right_text: Callable[[str], str] = str,
) -> Picture:
    """Draw the members of a case; `edges_between` returns the edges between some left and some right keys."""
    sides = [[member for member in members if member["side"] == side] for side in ("left", "right")]
    half = MOST_NODES // 2
    most = [max(half, MOST_NODES - len(other)) for other in reversed(sides)]
    shown = [{str(member["key"]): member for member in side[:n]} for side, n in zip(sides, most, strict=True)]
    edges = edges_between(list(shown[0]), list(shown[1]))
    ends = _ends(shown, edges)
    orders = _untangled([list(side) for side in shown], ends)
    n_rows = max(map(len, orders))
    height = n_rows * (_DENSE_STEP if n_rows > _DENSE else _STEP)
    places = [_places(order, height) for order in orders]
    left_nodes = []
    for key, y in places[0].items():
        lines = "".join(f"M{LEFT_X} {y}L{RIGHT_X} {places[1][end]}" for end in ends[0][key])
        left_nodes.append(Node(shown[0][key], y, _cut(key), lines, len(ends[0][key])))
    right_nodes = [Node(shown[1][key], y, _cut(right_text(key)), "", len(ends[1][key])) for key, y in places[1].items()]
    n_left, n_right = (len(side) - len(order) for side, order in zip(sides, orders, strict=True))
    return Picture(left_nodes, right_nodes, height, len(edges), (n_left, n_right))


def _ends(sides: Sequence[Iterable[str]], edges: Edges) -> list[dict[str, list[str]]]:
    """Return the other ends of each member's edges, for both sides."""
    ends: list[dict[str, list[str]]] = [{key: [] for key in side} for side in sides]
    for left, right in edges:
        ends[0][left].append(right)
        ends[1][right].append(left)
    return ends


def _untangled(orders: list[list[str]], neighbours: list[dict[str, list[str]]]) -> list[list[str]]:
    """Order both columns by the mean place of their neighbours, in turns, so that fewer lines cross."""
    for turn in range(2 * _ROUNDS):
        side = 1 - turn % 2
        place = {key: at / len(orders[1 - side]) for at, key in enumerate(orders[1 - side])}
        means = {key: fmean(map(place.__getitem__, ends)) if ends else 0.5 for key, ends in neighbours[side].items()}
        orders[side].sort(key=means.__getitem__)
    return orders


def _places(order: Sequence[str], height: int) -> dict[str, int]:
    """Spread a column over the height."""
    return {key: round(height * (at + 0.5) / len(order)) for at, key in enumerate(order)}


def _cut(key: str) -> str:
    return key if len(key) <= _MOST_LETTERS else f"{key[: _MOST_LETTERS - 9]}…{key[-8:]}"
