"""The rows that remain while one rule after the other removes some."""

from __future__ import annotations

from typing import Any

from mbe_stage.pipeline.backends.backend import Backend, HostNeeded, Refusal, Rows
from mbe_stage.pipeline.errors import InputError

__all__ = ["KeptRows", "with_lone"]

# Rules about columns that only edges have.
_OF_EDGES = ("weight", "time")


def with_lone(passing: Any, n_lone: int, xp: Any) -> Any:
    """Extend a mask over rows by the last `n_lone` of them: ``(n,) bool``."""
    return passing | (xp.arange(len(passing)) >= len(passing) - n_lone) if n_lone else passing


class KeptRows:
    """The remaining rows.

    Attributes
    ----------
    n : int
    dropped : dict of str to int
        Number of rows that each rule removed: ``null``, ``weight``, ``time``.
    """

    def __init__(self, rows: Rows, backend: Backend) -> None:
        self.n = rows.n_rows
        self.dropped = dict.fromkeys(("null", "weight", "time"), 0)
        self._rows, self._backend = rows, backend
        self._positions: Any = None

    def keep(self, rule: str, passing: Any) -> None:
        """Remove rows that do not pass; `passing` covers the remaining rows, and None passes all.

        Rows for isolated vertices have no weight and no time: they pass.
        """
        xp = self._backend.xp
        if passing is not None and rule in _OF_EDGES:
            passing = with_lone(passing, self._rows.n_lone, xp)
        n_passing = self.n if passing is None else int(xp.count_nonzero(passing))
        self.dropped[rule] = self.n - n_passing
        if n_passing < self.n:
            self._positions = xp.flatnonzero(passing) if self._positions is None else self._positions[passing]
            self.n = n_passing

    def of(self, values: Any) -> Any:
        """Return the values of a column or an array in the remaining rows."""
        return values if self._positions is None else self._backend.taken(values, self._positions)

    def refusal(self, role: str) -> Refusal:
        """Return a function that makes errors about a column, with the row's place in the input."""

        def refuse(row: int | None, *, found: str, expected: str, remedy: str) -> InputError | HostNeeded:
            if row is not None and self._positions is not None:
                row = int(self._positions[row])
            return self._rows.refusal(row, role, found=found, expected=expected, remedy=remedy)

        return refuse
