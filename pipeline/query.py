"""The query in the user's own keys, translated to dense ids."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from mbe_stage.options import BicliqueQuery
from pipeline.config import Key, QueryConfig
from pipeline.edges import EdgeData
from pipeline.errors import InputError

__all__ = ["to_query"]


def to_query(config: QueryConfig, edges: EdgeData) -> BicliqueQuery:
    """The query as engines take it.

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
        containing_left=_dense_ids(config.containing_left, edges.left_keys, "left", edges.facts.source),
        containing_right=_dense_ids(config.containing_right, edges.right_keys, "right", edges.facts.source),
    )


def _dense_ids(wanted: tuple[Key, ...], keys: pa.Array, side: str, source: str) -> tuple[int, ...]:
    return tuple(_dense_id(key, keys, side, source) for key in wanted)


def _dense_id(key: Key, keys: pa.Array, side: str, source: str) -> int:
    # Keys are compared as text, as their hashes are: 5 in a YAML file finds the string "5", and "5" the integer.
    text = str(key)
    vertex = -1
    if not pa.types.is_integer(keys.type):
        vertex = pc.index(keys, pa.scalar(text, keys.type)).as_py()
    elif _is_int64(text):
        vertex = pc.index(keys, pa.scalar(int(text), keys.type)).as_py()
    if vertex < 0:
        raise InputError.at(
            source,
            found=f"no {side} vertex {key!r} (query.containing_{side})",
            expected=f"one of the {len(keys)} {side} keys, such as {keys[0].as_py()!r}",
            remedy="correct the key, or see whether a filter or the other side holds it",
        )
    return vertex


def _is_int64(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and str(int(text)) == text and -(2**63) <= int(text) < 2**63
