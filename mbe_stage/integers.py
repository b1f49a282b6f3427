"""Convert the caller's integers, Python's or NumPy's, without truncating or guessing."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

from mbe_stage.errors import InvalidArgument


def as_integer(value: Any, name: str) -> int:
    """Return the value as a Python int.

    Raises
    ------
    InvalidArgument
        The value is not an integer, or is a bool; the message calls it `name`.

    Examples
    --------
    >>> import numpy as np
    >>> as_integer(np.int16(7), "n")
    7
    """
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise InvalidArgument(
        f"{name} is {value!r}, of type {type(value).__name__}: expected an integer; convert it, for example with int()"
    )


def set_integers(query: object, names: Sequence[str], or_none: Sequence[str] = ()) -> None:
    """Replace these attributes of a frozen query by Python ints; the attributes in `or_none` may stay None.

    Raises
    ------
    InvalidArgument
        As `as_integer`.
    """
    for name in (*names, *or_none):
        value = getattr(query, name)
        if type(value) is not int and (value is not None or name in names):
            object.__setattr__(query, name, as_integer(value, name))


def set_vertices(query: object, names: Sequence[str]) -> None:
    """Replace these attributes of a frozen query by tuples of Python ints.

    Raises
    ------
    InvalidArgument
        An attribute is not a sequence of integers.
    """
    for name in names:
        value: Any = getattr(query, name)
        if type(value) is tuple and not value:
            continue
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            raise InvalidArgument(
                f"{name} is {value!r}, of type {type(value).__name__}: expected a sequence of dense ids, such as (7,)"
            )
        ids = tuple(as_integer(each, f"an id of {name}") for each in value)
        object.__setattr__(query, name, ids)
