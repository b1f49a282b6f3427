"""Translate a query from the user's keys to dense ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.pipeline.clean.facts import InputFacts
from mbe_stage.pipeline.config.model import Key, QueryConfig
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import InputError


class KeyedEdges(Protocol):
    """Edges whose keys can be looked up, in host or device memory."""

    @property
    def facts(self) -> InputFacts:
        """The facts about the input."""

    def vertex_of(self, text: str, side: str) -> int | None:
        """Return the dense id of the key with this text; None if there is no such key."""

    def key_of(self, vertex: int, side: str) -> int | str:
        """Return the key of a dense id."""


def to_query(config: QueryConfig, edges: KeyedEdges) -> BicliqueQuery:
    """Return the query for the engines.

    Raises
    ------
    InputError
        A key of `containing_left` or `containing_right` is not in the graph.
    """
    return BicliqueQuery(
        min_left=config.min_left,
        min_right=config.min_right,
        max_left=config.max_left,
        max_right=config.max_right,
        min_edges=config.min_edges,
        containing_left=dense_ids(config.containing_left, edges, "left", "query"),
        containing_right=dense_ids(config.containing_right, edges, "right", "query"),
    )


def dense_ids(
    keys: Iterable[Key], edges: KeyedEdges, side: str, section: str, name: str | None = None
) -> tuple[int, ...]:
    """Return the dense ids of keys in a section's ``containing_<side>``, or in another key of it.

    Raises
    ------
    InputError
        A key is not in the graph.
    """
    asked_as = setting(f"{section}.{name or f'containing_{side}'}")
    return tuple(_dense_id(key, edges, side, asked_as) for key in keys)


def _dense_id(key: Key, edges: KeyedEdges, side: str, asked_as: str) -> int:
    # Keys are compared as text, like their hashes: 5 in a YAML file finds the string "5", and "5" the integer.
    vertex = edges.vertex_of(str(key), side)
    if vertex is None and edges.facts.undirected is not None:
        raise InputError.at(
            edges.facts.source,
            found=f"no vertex {key!r} ({asked_as})",
            expected=f"one of the {edges.facts.n_left} keys, such as {edges.key_of(0, side)!r}",
            remedy="correct the key, or see whether a filter leaves it out",
        )
    if vertex is None:
        n_keys = edges.facts.n_left if side == "left" else edges.facts.n_right
        raise InputError.at(
            edges.facts.source,
            found=f"no {side} vertex {key!r} ({asked_as})",
            expected=f"one of the {n_keys} {side} keys, such as {edges.key_of(0, side)!r}",
            remedy="correct the key, or see whether a filter or the other side holds it",
        )
    return vertex
