"""The user's keys and their dense ids: an id is the rank of its key on its side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mbe_stage.pipeline.backends.backend import Backend, HostNeeded, KeyOrigin, KeyType, Refusal
from mbe_stage.pipeline.errors import InputError

__all__ = ["number_keys", "number_tuples"]

_MOST_VERTICES = 2**31 - 1


def number_keys(
    values: Any, key_type: KeyType, origin: KeyOrigin, refuse: Refusal, backend: Backend
) -> tuple[Any, Any]:
    """Number the keys densely.

    Parameters
    ----------
    values
        A column of int64 or text, without nulls.
    key_type, origin
        Whether text may, or must, be integers: from the configuration and, for ``auto``, the format.

    Returns
    -------
    ids : (n,) int32
    keys
        A column of int64 or text, ascending and distinct; ``keys[ids[i]]`` is ``values[i]``.

    Raises
    ------
    InputError, HostNeeded
        Text is not an integer as required, is beyond int64 or not UTF-8, or there are too many keys.
    """
    codes, distinct = backend.factorised(values)
    _refuse_too_many(len(distinct), refuse)

    def refuse_key(code: int | None, *, found: str, expected: str, remedy: str) -> InputError | HostNeeded:
        row = int(backend.xp.flatnonzero(codes == code)[0])
        return refuse(row, found=found, expected=expected, remedy=remedy)

    if not backend.is_text(distinct):
        return backend.ranked(codes, distinct)
    backend.as_utf8(distinct, refuse_key)
    must = key_type == "integer" or (key_type == "auto" and origin == "integers")
    if must or (key_type == "auto" and origin != "typed"):
        integers = backend.as_integers(distinct, must, refuse_key)
        if integers is not None:
            return backend.merged(codes, integers)
    return backend.ranked(codes, distinct)


def number_tuples(parts: Sequence[tuple[Any, Any]], refuse: Refusal, backend: Backend) -> tuple[Any, Any]:
    """Number keys of several columns densely: each is the JSON array of its parts, ``["a",5]``.

    Parameters
    ----------
    parts : sequence of pair
        The result of `number_keys` for each column, all of the same rows.

    Returns
    -------
    ids, keys
        As of `number_keys`; the keys of several columns are text.

    Raises
    ------
    InputError, HostNeeded
        There are too many keys, or parts that the backend cannot write as JSON.
    """
    if len(parts) == 1:
        return parts[0]
    xp = backend.xp
    codes = parts[0][0]
    for ids, keys in parts[1:]:
        # Renumber after each part, so that numbers of many parts stay within int64.
        codes = xp.unique(codes.astype(xp.int64) * len(keys) + ids, return_inverse=True)[1]
    first = xp.unique(codes, return_index=True)[1]
    _refuse_too_many(len(first), refuse)
    columns = [backend.taken(backend.as_json(keys), ids[first]) for ids, keys in parts]
    ranks, keys = backend.ranked(*backend.factorised(backend.json_arrays(columns)))
    return ranks[codes], keys


def _refuse_too_many(n_keys: int, refuse: Refusal) -> None:
    if n_keys >= _MOST_VERTICES:
        raise refuse(
            None,
            found=f"{n_keys} distinct keys",
            expected=f"fewer than {_MOST_VERTICES}",
            remedy="split the graph, or filter it by weight or time",
        )
