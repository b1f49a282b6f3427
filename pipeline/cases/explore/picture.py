"""The bipartite picture of a case: its members in two columns, with lines for their edges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

MOST_NODES = 300
"""Maximum members in the picture; those in most groups come first, then those with most edges."""

WIDTH = 760
LEFT_X, RIGHT_X = 250, 510
_STEP, _DENSE_STEP, _DENSE = 20, 14, 60
_MOST_LETTERS = 32
_ROUNDS = 3


@dataclass(frozen=True)
class Node:
    """A member at its place: its key, shortened if long, and for left members the lines to the ends of their edges."""

    member: Mapping[str, Any]
    y: int
    text: str
    lines: str
    n_edges: int


@dataclass(frozen=True)
class Picture:
    """Two columns of nodes, and the numbers of members that are left out."""

    left: Sequence[Node]
    right: Sequence[Node]
    height: int
    n_edges: int
    hidden: tuple[int, int]


def picture_of(
    members: Sequence[Mapping[str, Any]], edges: Iterable[tuple[int, int]], right_text: Callable[[object], str] = str
) -> Picture:
    """Draw the members of a case, and its distinct edges, which are pairs of vertices."""
    sides = [[member for member in members if member["side"] == side] for side in ("left", "right")]
    half = MOST_NODES // 2
    most = [max(half, MOST_NODES - len(other)) for other in reversed(sides)]
    shown = [{member["vertex"]: member for member in side[:n]} for side, n in zip(sides, most, strict=True)]
    ends: list[dict[int, list[int]]] = [{vertex: [] for vertex in side} for side in shown]
    for left, right in edges:
        if left in shown[0] and right in shown[1]:
            ends[0][left].append(right)
            ends[1][right].append(left)
    orders = _untangled([list(side) for side in shown], ends)
    n_rows = max(map(len, orders))
    height = n_rows * (_DENSE_STEP if n_rows > _DENSE else _STEP)
    places = [{vertex: round(height * (at + 0.5) / len(order)) for at, vertex in enumerate(order)} for order in orders]
    nodes: list[list[Node]] = [[], []]
    for side, node_list in enumerate(nodes):
        for vertex, y in places[side].items():
            member, others = shown[side][vertex], ends[side][vertex]
            text = right_text(member["key"]) if side else str(member["key"])
            lines = "" if side else "".join(f"M{LEFT_X} {y}L{RIGHT_X} {places[1][other]}" for other in others)
            node_list.append(Node(member, y, _cut(text), lines, len(others)))
    n_left, n_right = (len(side) - len(order) for side, order in zip(sides, orders, strict=True))
    return Picture(nodes[0], nodes[1], height, sum(map(len, ends[0].values())), (n_left, n_right))


def _untangled(orders: list[list[int]], neighbours: list[dict[int, list[int]]]) -> list[list[int]]:
    """Order both columns by the mean place of their neighbours, in turns, so that fewer lines cross."""
    for turn in range(2 * _ROUNDS):
        side = 1 - turn % 2
        place = {vertex: at / len(orders[1 - side]) for at, vertex in enumerate(orders[1 - side])}
        means = {one: fmean(map(place.__getitem__, ends)) if ends else 0.5 for one, ends in neighbours[side].items()}
        orders[side].sort(key=means.__getitem__)
    return orders


def _cut(key: str) -> str:
    return key if len(key) <= _MOST_LETTERS else f"{key[: _MOST_LETTERS - 9]}…{key[-8:]}"
