"""Ingestion within a memory budget: rows stay on disk, and edges that can be in no result go if not all fit."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.backends.arrow.backend import ARROW
from mbe_stage.pipeline.backends.arrow.spooled import ReadingSteps, Spools, too_much
from mbe_stage.pipeline.clean.cleaning import clean
from mbe_stage.pipeline.clean.core import NumberedRows, clean_within, number_rows
from mbe_stage.pipeline.config.model import Config, InputConfig
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.execution import lack_of_memory
from mbe_stage.pipeline.io import RawEdges, find_input, is_object, parquet, read_edges, reading
from mbe_stage.pipeline.io.further import is_further
from mbe_stage.pipeline.io.sources import at_hand
from mbe_stage.pipeline.problems.installed import derived_of, publication_of, reading_of

# What a row takes, with tables of usual keys, if all are in memory; and with weights and times that are kept.
_ROW_BYTES, _EVENT_BYTES = 32, 24
_ON_DISK = ("parquet", "csv")


@run_state.at_step("read")
def ingest_within(config: Config, source: object | None = None, saved: ReadingSteps | None = None) -> Any:
    """Read and clean edges as `pipeline.execution.ingest.ingest`, within `execution.memory_budget`.

    Steps that an interrupted run has saved are not repeated. If the input does not fit, `MemoryBudgetExceeded` names a
    sufficient budget.
    """
    section, budget, spools = reading_of(config), config.execution.memory_bytes, Spools(config.execution.memory_bytes)
    saved = ReadingSteps() if saved is None else saved
    # Derived outputs look at edges outside of results, too.
    least = None if derived_of(config) else publication_of(config.problem).least_sizes(config)
    with run_state.at_part(), at_hand(section.path, source) as (places, named):
        found, numbered = None if is_object(places) else find_input(section, places), None
        new_column: dict[str, Any] = {}
        if found is not None and found.format in _ON_DISK:
            new_column["new_column"] = spools.column
            paths = found.files or (found.path,)
            asked = f"{least} {places} {section.model_dump_json()}"
            with reading(paths[0]):
                saved.begin(lambda: [file for each in paths for file in parquet.files_at(each)], asked)
            numbered = saved.load("rows", NumberedRows.of)
        if numbered is None:
            rows = named(read_edges(section, places, **new_column))
            spools.check_keys()
            lack_of_memory.give_back()
            if (obstacle := _obstacle(rows, spools, section)) is not None:
                if (needed := rows.n_rows * (_ROW_BYTES + _EVENT_BYTES * section.keeps_events)) > budget:
                    what = f"{rows.n_rows:,} rows, which cannot stay on disk because {obstacle},"
                    raise too_much(f"{rows.source}: {what}", needed, budget)
                return clean(rows, section, ARROW)
            numbered = number_rows(rows, spools, section)
            del rows
            saved.save("rows", numbered.state())
        return clean_within(numbered, section, budget, least or (1, 1), saved)


def _obstacle(rows: RawEdges, spools: Spools, section: InputConfig) -> str | None:
    """Return why these rows have to be in memory; None if they need not."""
    if rows.format not in _ON_DISK:
        return f"the format is {rows.format}, not {' or '.join(_ON_DISK)}"
    if section.is_undirected:
        return "edges have no direction"
    if section.tries_keys and (tried := [role for role in rows.roles if is_further(role) or role == "timestamp"]):
        names = ", ".join(repr(rows.names[role]) for role in tried)
        return f"keys are tried with {names} ({setting('groups.try_keys')} is auto, not plain)"
    changed = [role for role in rows.roles if not _is_spooled(rows, role, spools)]
    if changed:
        return f"the column {rows.names[changed[0]]!r} has blanks around values, a decimal comma or dates to parse"
    return None


def _is_spooled(rows: RawEdges, role: str, spools: Spools) -> bool:
    column = rows.table.column(role)
    encoders = spools.encoders.get(role)
    if encoders is None:
        # Unchanged views of files are read-only.
        return not any(buffer.is_mutable for chunk in column.chunks for buffer in chunk.buffers() if buffer is not None)
    return pa.types.is_dictionary(column.type) and sum(encoder.rows.n for encoder in encoders) == rows.n_rows
