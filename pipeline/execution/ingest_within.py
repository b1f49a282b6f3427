"""Ingestion within a memory budget: rows stay on disk, and edges that can be in no result go if not all fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.backends.arrow.backend import ARROW
from mbe_stage.pipeline.backends.arrow.rows import HostRows
from mbe_stage.pipeline.backends.arrow.spooled import SpooledEncoder
from mbe_stage.pipeline.clean.cleaning import clean
from mbe_stage.pipeline.clean.core import clean_within
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.io import find_input, is_object, read_edges
from mbe_stage.pipeline.io.sources import at_hand
from mbe_stage.pipeline.problems.installed import derived_of, publication_of, reading_of

# What a row takes, with tables of usual keys, if all are in memory.
_ROW_BYTES = 32
_ON_DISK = ("parquet", "csv")
_OUTSIDE = "results depend on edges that are in none of them"


@run_state.at_step("read")
def ingest_within(config: Config, source: object | None = None) -> Any:
    """Read and clean edges as `pipeline.execution.ingest.ingest`, within `execution.memory_budget`.

    Raises
    ------
    InputError
        As `ingest`.
    MemoryBudgetExceeded
        The input does not fit; the message says what would do.
    """
    section = reading_of(config)
    with run_state.at_part():
        if is_object(source):
            return _cleaned(HostRows(read_edges(section, source)), {}, config)
        with at_hand(section.path if source is None else source) as (places, named):
            encoders: dict[str, list[SpooledEncoder]] = {}

            def new_encoder(role: str, finds_integers: bool) -> SpooledEncoder:
                encoder = SpooledEncoder(finds_integers, lambda: _check(encoders, config.execution.memory_bytes))
                encoders.setdefault(role, []).append(encoder)
                return encoder

            how = {"new_encoder": new_encoder} if find_input(section, places).format in _ON_DISK else {}
            rows = HostRows(read_edges(section, places, **how))
            pa.default_memory_pool().release_unused()
            return _cleaned(rows.called(named(rows.source)), encoders, config)


def _cleaned(rows: HostRows, encoders: Mapping[str, Sequence[SpooledEncoder]], config: Config) -> Any:
    section, budget = reading_of(config), config.execution.memory_bytes
    least = None if derived_of(config) else publication_of(config.problem).least_sizes(config)
    obstacle = _OUTSIDE if least is None else _obstacle(rows, encoders)
    if least is not None and obstacle is None:
        return clean_within(rows, encoders, section, budget, least)
    if (needed := rows.n_rows * _ROW_BYTES) > budget:
        raise MemoryBudgetExceeded(
            f"{rows.source}: {rows.n_rows:,} rows, which cannot stay on disk because {obstacle}, and take about "
            f"{needed:,} bytes; expected at most {budget:,} ({setting('execution.memory_budget')}): raise it to "
            f"{(needed >> 20) + 1}MiB",
            needed_bytes=needed,
        )
    return clean(rows, section, ARROW)


def _obstacle(rows: HostRows, encoders: Mapping[str, object]) -> str | None:
    """Return why these rows have to be in memory; None if they need not."""
    if rows.format not in _ON_DISK:
        return f"the format is {rows.format}, not {' or '.join(_ON_DISK)}"
    if sorted(rows.roles) != ["left", "right"]:
        return f"these columns are read: {', '.join(rows.roles)}"
    kinds = {role: rows.raw.table.column(role).type for role in rows.roles}
    odd = [role for role, kind in kinds.items() if role not in encoders or not pa.types.is_dictionary(kind)]
    return f"the column {rows.raw.names[odd[0]]!r} has keys of another type or blanks around them" if odd else None


def _check(encoders: Mapping[str, Sequence[SpooledEncoder]], budget: int) -> None:
    n_bytes = sum(encoder.nbytes for of_role in encoders.values() for encoder in of_role)
    if n_bytes > budget:
        raise MemoryBudgetExceeded(
            f"the tables of distinct keys take {n_bytes:,} bytes before all rows are read; expected at most {budget:,} "
            f"({setting('execution.memory_budget')}): raise it",
            needed_bytes=2 * n_bytes,
        )
