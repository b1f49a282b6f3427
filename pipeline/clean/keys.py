"""The user's own keys, and the dense ids that stand for them: an id is the rank of its key on its side."""

from __future__ import annotations

from typing import Any

from pipeline.backends.backend import Backend, HostNeeded, KeyOrigin, KeyType, Refusal
from pipeline.errors import InputError

__all__ = ["number_keys"]

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
        Whether text may, or must, be integers: what the configuration says, and, for ``auto``, the format.
    refuse : Refusal
    backend : Backend

    Returns
    -------
    ids : (n,) int32
    keys
        A column of int64 or text, ascending and distinct; ``keys[ids[i]]`` is ``values[i]``.

    Raises
    ------
    InputError, HostNeeded
        Text that should be an integer is none or is beyond int64, is not UTF-8, or there are too many keys.
    """
    codes, distinct = backend.factorised(values)
    if len(distinct) >= _MOST_VERTICES:
        raise refuse(
            None,
            found=f"{len(distinct)} distinct keys",
            expected=f"fewer than {_MOST_VERTICES}",
            remedy="split the graph, or filter it by weight or time",
        )

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
