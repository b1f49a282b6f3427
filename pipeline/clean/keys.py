"""The user's keys, their dense ids, and the rows that remain after each rule.

An id is the rank of its key on its side.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from mbe_stage.pipeline.backends.backend import Backend, Column, KeyOrigin, KeyType, Refusal, Rows
from mbe_stage.pipeline.clean.facts import InputFacts
from mbe_stage.pipeline.config.model import InputConfig

log = logging.getLogger(__name__)

Paired = Callable[[tuple[Any, Any], tuple[Any, Any], int], tuple[Any, Any]]
"""Takes (ids, ranks) twice and the number of second ranks; numbers the pairs of ranks: first * number + second."""

_MOST_VERTICES = 2**31 - 1
# Rules about columns that only edges have.
_OF_EDGES = ("weight", "time")


def number_keys(
    values: Any, key_type: KeyType, origin: KeyOrigin, refuse: Refusal, backend: Backend
) -> tuple[Any, Any]:
    """Number the keys of a column without nulls: return ids, ``(n,) int32``, and ascending keys of int64 or text.

    Text may or must be integers by the configuration's `key_type` and, for ``auto``, by the format's `origin`.
    """
    codes, distinct = backend.factorised(values)
    _refuse_too_many(len(distinct), refuse)

    refuse_key = elsewhere(refuse, lambda code: int(backend.xp.flatnonzero(codes == code)[0]))
    if not backend.is_text(distinct):
        return backend.ranked(codes, distinct)
    backend.as_utf8(distinct, refuse_key)
    must = key_type == "integer" or (key_type == "auto" and origin == "integers")
    if must or (key_type == "auto" and origin != "typed"):
        integers = backend.as_integers(distinct, must, refuse_key)
        if integers is not None:
            return backend.merged(codes, integers)
    return backend.ranked(codes, distinct)


def number_tuples(
    parts: Sequence[tuple[Any, Any]], refuse: Refusal, backend: Backend, paired: Paired | None = None
) -> tuple[Any, Any]:
    """Number keys of several columns as `number_keys` does: each is the JSON array of its parts, ``["a",5]``.

    `parts` has the results of `number_keys` for the columns. `paired` numbers pairs of ids that are not arrays.
    """
    if len(parts) == 1:
        return parts[0]
    xp = backend.xp
    columns, codes, levels, paired = [], None, [], paired or partial(_paired, backend)
    for number, (ids, keys) in enumerate(parts, 1):
        json = backend.as_json(keys)
        # A part with the following comma or bracket is never a prefix of another part. So tuples sort like their parts
        # with what follows them, and few texts are sorted instead of many.
        ranks, _ = backend.ordered(backend.json_arrays([json] if number == len(parts) else [json, json]))
        columns.append(backend.taken(json, xp.argsort(ranks)))
        if codes is None:
            codes, of_codes = ids, ranks
            continue
        # Renumber after each part, so that numbers of many parts stay within int64.
        codes, distinct = paired((codes, of_codes), (ids, ranks), len(keys))
        of_codes = xp.arange(len(distinct) if number < len(parts) else 0)
        levels.append((distinct, len(keys)))
    _refuse_too_many(len(levels[-1][0]), refuse)

    def texts_of(tuples: Any) -> Any:
        found = []
        # From the last part to the first.
        for (distinct, n_keys), json in zip(reversed(levels), reversed(columns[1:]), strict=True):
            tuples, ids = xp.divmod(distinct[tuples], n_keys)
            found.append(backend.taken(json, ids))
        return backend.json_arrays([backend.taken(columns[0], tuples), *reversed(found)])

    return backend.ranked(codes, backend.made_in_parts(texts_of, len(levels[-1][0])))


def _paired(backend: Backend, first: tuple[Any, Any], second: tuple[Any, Any], n_second: int) -> tuple[Any, Any]:
    codes = first[1][first[0]].astype(backend.xp.int64)
    codes *= n_second
    codes += second[1][second[0]]
    return backend.renumbered(codes)


def _refuse_too_many(n_keys: int, refuse: Refusal) -> None:
    if n_keys >= _MOST_VERTICES:
        expected, remedy = f"fewer than {_MOST_VERTICES}", "split the graph, or filter it by weight or time"
        raise refuse(None, found=f"{n_keys} distinct keys", expected=expected, remedy=remedy)


def elsewhere(refuse: Refusal, row_of: Callable[[int], int]) -> Refusal:
    """Return a function that makes errors about rows which have other numbers for `refuse`."""
    return lambda row, **texts: refuse(None if row is None else row_of(row), **texts)


def with_lone(passing: Any, n_lone: int, xp: Any) -> Any:
    """Extend a mask over rows by the last `n_lone` of them: ``(n,) bool``."""
    return passing | (xp.arange(len(passing)) >= len(passing) - n_lone) if n_lone else passing


class KeptRows:
    """The remaining rows.

    Attributes
    ----------
    rows, columns, config, backend
        All rows, their columns by role in the form of `Column`, and how to clean them.
    n : int
    dropped : dict of str to int
        Number of rows that each rule removed: ``null``, ``weight``, ``time``.
    """

    def __init__(self, rows: Rows, columns: dict[str, Column], config: InputConfig, backend: Backend) -> None:
        self.rows, self.columns, self.config, self.backend = rows, columns, config, backend
        self.n = rows.n_rows
        self.dropped = dict.fromkeys(("null", "weight", "time"), 0)
        self._positions: Any = None

    def keep(self, rule: str, passing: Any) -> None:
        """Remove rows that do not pass; `passing` covers the remaining rows, and None passes all.

        Rows for isolated vertices have no weight and no time: they pass.
        """
        xp = self.backend.xp
        if passing is not None and rule in _OF_EDGES:
            passing = with_lone(passing, self.rows.n_lone, xp)
        n_passing = self.n if passing is None else int(xp.count_nonzero(passing))
        self.dropped[rule] = self.n - n_passing
        if n_passing < self.n:
            self._positions = xp.flatnonzero(passing) if self._positions is None else self._positions[passing]
            self.n = n_passing

    @property
    def positions(self) -> Any:
        """The places of the remaining rows in the input, from 0; ``(n,) int64``."""
        return self.backend.xp.arange(self.n) if self._positions is None else self._positions

    def of(self, values: Any) -> Any:
        """Return the values of a column or an array in the remaining rows."""
        return values if self._positions is None else self.backend.taken(values, self._positions)

    def values(self, role: str) -> Any:
        """Return the values of the column of a role in the remaining rows."""
        return self.of(self.columns[role].values)

    def on_host(self, values: Any) -> Any:
        """Return the values of an Arrow array in the remaining rows."""
        return values if self._positions is None else values.take(pa.array(self.backend.on_host(self._positions)))

    def refusal(self, role: str) -> Refusal:
        """Return a function that makes errors about a column, with the row's place in the input."""
        refuse = partial(self.rows.refusal, role=role)
        return elsewhere(refuse, lambda row: row if self._positions is None else int(self._positions[row]))


def facts_of_rows(
    rows: Rows, dropped: Mapping[str, int], sizes: tuple[int, int, int], fingerprint: str, **others: Any
) -> InputFacts:
    """Return the facts about rows; `dropped` counts the rows that each rule left out.

    `sizes` has the numbers of left vertices, right vertices and edges. `others` replace the values that follow from
    these.
    """
    usual: dict[str, Any] = {f"rows_dropped_{rule}": n for rule, n in dropped.items()}
    usual |= {"rows_read": rows.n_rows, "duplicate_edges": rows.n_rows - sum(dropped.values()) - sizes[2]}
    return InputFacts(
        source=rows.source,
        format=rows.format,
        n_left=sizes[0],
        n_right=sizes[1],
        n_edges=sizes[2],
        fingerprint=fingerprint,
        columns=rows.input_columns,
        dialect=rows.dialect,
        n_columns=rows.n_columns,
        **(usual | others),
    )


def log_read(facts: InputFacts, reader: str | None = None) -> None:
    """Log what was read; `reader` is named unless it is the format's own."""
    by = "" if reader is None else f", by {reader}"
    size = f"{facts.n_left} x {facts.n_right}, {facts.n_edges} edges"
    size = size if facts.undirected is None else f"{facts.vertices_text}, {facts.n_edges:,} edges"
    log.info("read %s (%s%s): %s", facts.source, facts.taken, by, size)
