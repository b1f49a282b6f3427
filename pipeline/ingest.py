"""From an input to clean edges: nulls, filters, dense ids, duplicates, fingerprint."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.keys import edge_fingerprint
from pipeline.config import InputConfig
from pipeline.edges import EdgeData, InputFacts
from pipeline.errors import InputError
from pipeline.filters import as_numbers, as_times, heavy_enough, in_window
from pipeline.ids import Refusal, as_keys, key_hashes, number_keys
from pipeline.io import RawEdges, read_edges
from pipeline.naming import setting

__all__ = ["clean", "ingest"]

log = logging.getLogger(__name__)


def ingest(config: InputConfig, source: object | None = None) -> EdgeData:
    """Read edges and bring them into the form that everything after works on.

    Rows with a null in a column that is read are refused or dropped (`config.nulls`), then the weight filter and the
    time filter apply to each row, then duplicate edges are merged.

    Parameters
    ----------
    config : InputConfig
    source : object, optional
        Taken instead of `config.path`: an object in memory (see `pipeline.io.memory.read_object`), or a path.

    Raises
    ------
    InputError
        The input cannot be used, or no edge is left; the message says where and why.

    Examples
    --------
    >>> edges = ingest(InputConfig(), source=(["ann", "bob", "ann"], [7, 7, 7]))
    >>> edges.left_keys.to_pylist(), edges.facts.n_edges, edges.facts.duplicate_edges
    (['ann', 'bob'], 2, 1)
    """
    return clean(read_edges(config, source), config)


def clean(raw: RawEdges, config: InputConfig) -> EdgeData:
    """Bring rows as they stand into the form that everything after works on; the second half of `ingest`.

    Parameters
    ----------
    raw : RawEdges
    config : InputConfig
        As given to the reader.

    Raises
    ------
    InputError
        As `ingest`.
    """
    rows = _Rows(raw, raw.table.num_rows)
    columns = {role: _plain_column(raw, role, config) for role in raw.table.column_names}
    rows.keep("null", _present(raw, columns, config))
    if "weight" in columns:
        weights = rows.of(columns.pop("weight"))
        rows.keep("weight", heavy_enough(weights, config.min_weight))  # type: ignore[arg-type]
    if "timestamp" in columns:
        times = rows.of(columns.pop("timestamp"))
        rows.keep("time", in_window(times, config, partial(_refuse, raw, "timestamp")))
    if not rows.n_kept:
        raise _no_edges(raw, rows, config)
    left_ids, left_keys = number_keys(rows.of(columns["left"]), config.key_type, raw.keys, rows.refusal("left"))
    right_ids, right_keys = number_keys(rows.of(columns["right"]), config.key_type, raw.keys, rows.refusal("right"))
    left_ids, right_ids = _distinct(left_ids, right_ids, len(right_keys))
    facts = InputFacts(
        source=raw.source,
        format=raw.format,
        rows_read=raw.table.num_rows,
        rows_dropped_null=rows.dropped["null"],
        rows_dropped_weight=rows.dropped["weight"],
        rows_dropped_time=rows.dropped["time"],
        duplicate_edges=rows.n_kept - left_ids.size,
        n_left=len(left_keys),
        n_right=len(right_keys),
        n_edges=int(left_ids.size),
        fingerprint=edge_fingerprint(
            left_ids, right_ids, key_hashes(left_keys, "left"), key_hashes(right_keys, "right")
        ),
    )
    log.info("read %s (%s): %d x %d, %d edges", facts.source, facts.format, facts.n_left, facts.n_right, facts.n_edges)
    return EdgeData(left_ids, right_ids, left_keys, right_keys, facts)


@dataclass(slots=True)
class _Rows:
    """Which rows are still in, and how many each rule took out."""

    raw: RawEdges
    n_kept: int
    kept: np.ndarray | None = None
    dropped: dict[str, int] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.dropped = dict.fromkeys(("null", "weight", "time"), 0)

    def keep(self, rule: str, passing: np.ndarray) -> None:
        """Take out the rows that do not pass; `passing` is over the rows still in."""
        n_passing = int(np.count_nonzero(passing))
        self.dropped[rule] = self.n_kept - n_passing
        if n_passing < self.n_kept:
            self.kept = np.flatnonzero(passing) if self.kept is None else self.kept[passing]
            self.n_kept = n_passing

    def of(self, column: pa.Array) -> pa.Array:
        """The column's values in the rows still in."""
        return column if self.kept is None else column.take(pa.array(self.kept))

    def refusal(self, role: str) -> Refusal:
        """Errors about a column after rows were taken out, by the row's place in the input."""

        def refuse(row: int | None, *, found: str, expected: str, remedy: str) -> InputError:
            if row is not None and self.kept is not None:
                row = int(self.kept[row])
            return self.raw.refusal(row, role, found=found, expected=expected, remedy=remedy)

        return refuse


def _refuse(raw: RawEdges, role: str, row: int | None, *, found: str, expected: str, remedy: str) -> InputError:
    return raw.refusal(row, role, found=found, expected=expected, remedy=remedy)


def _plain_column(raw: RawEdges, role: str, config: InputConfig) -> pa.Array:
    column, refuse = raw.table.column(role), partial(_refuse, raw, role)
    if role == "weight":
        return as_numbers(column, refuse)
    if role == "timestamp":
        return as_times(column, refuse)
    return as_keys(column, config.key_type, refuse)


def _present(raw: RawEdges, columns: dict[str, pa.Array], config: InputConfig) -> np.ndarray:
    """Which rows have no null; refuses the first null unless they are to be dropped."""
    valid = {
        role: values.is_valid().to_numpy(zero_copy_only=False) for role, values in columns.items() if values.null_count
    }
    if valid and config.nulls == "error":
        raise _first_null(raw, valid)
    return np.logical_and.reduce([np.ones(raw.table.num_rows, bool), *valid.values()])


def _first_null(raw: RawEdges, valid: dict[str, np.ndarray]) -> InputError:
    role = min(valid, key=lambda role: int(np.argmin(valid[role])))
    n_nulls = valid[role].size - int(np.count_nonzero(valid[role]))
    every = f"all {n_nulls} values are null or empty: nothing is on this side"
    some = f"no value ({n_nulls} of {valid[role].size} are null or empty)"
    return raw.refusal(
        int(np.argmin(valid[role])),
        role,
        found=every if n_nulls == valid[role].size and role in ("left", "right") else some,
        expected="a value in every row",
        remedy=f"fill them in, or set {setting('input.nulls')} to drop",
    )


def _distinct(left_ids: np.ndarray, right_ids: np.ndarray, n_right: int) -> tuple[np.ndarray, np.ndarray]:
    """Each pair once, ordered by left id and then right id."""
    codes = left_ids.astype(np.int64) * n_right + right_ids
    if np.all(codes[:-1] < codes[1:]):
        return left_ids, right_ids
    codes = np.unique(codes)
    left, right = np.divmod(codes, n_right)
    return left.astype(np.int32), right.astype(np.int32)


def _no_edges(raw: RawEdges, rows: _Rows, config: InputConfig) -> InputError:
    n_rows, dropped = raw.table.num_rows, rows.dropped
    if not n_rows:
        return InputError.at(
            raw.source, found="no edges: both sides are empty", expected="at least one", remedy="check the input"
        )
    bounds = {
        "null": f"{setting('input.nulls')} is drop",
        "weight": f"{setting('input.min_weight')} is {config.min_weight}",
        "time": f"{setting('input.time_from')} is {config.time_from!r} and "
        f"{setting('input.time_until')} {config.time_until!r}",
    }
    causes = ", ".join(f"{count} by {rule} ({bounds[rule]})" for rule, count in dropped.items() if count)
    return InputError.at(
        raw.source,
        found=f"none of {n_rows} rows is left: dropped {causes}",
        expected="at least one edge",
        remedy="relax that filter, or check the columns it reads",
    )
