"""Growing arrays of a worker's state: compiled code reports which one is short, and the host enlarges it.

A state is a named tuple of arrays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["Shortage", "grown", "growth_bytes", "nbytes"]


class Shortage(NamedTuple):
    """An arena that is too small.

    Attributes
    ----------
    arena : str
        The field of the state.
    n_needed : int
        Entries that it needs.
    """

    arena: str
    n_needed: int


def nbytes(state: Any) -> int:
    """Bytes of a state's arrays."""
    return sum(array.nbytes for array in state)


def growth_bytes(state: Any, short: Shortage) -> int:
    """Bytes that `grown` will add."""
    arena = getattr(state, short.arena)
    return (_grown_size(arena, short) - arena.shape[0]) * arena[:1].nbytes


def grown(state: Any, short: Shortage) -> Any:
    """The state with the short arena enlarged."""
    arena = getattr(state, short.arena)
    larger = np.zeros((_grown_size(arena, short), *arena.shape[1:]), arena.dtype)
    larger[: arena.shape[0]] = arena
    return state._replace(**{short.arena: larger})


def _grown_size(arena: np.ndarray, short: Shortage) -> int:
    # At least half as much again: otherwise a deep walk would grow entry by entry.
    return max(short.n_needed, arena.shape[0] + arena.shape[0] // 2)
