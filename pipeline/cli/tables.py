"""Tables of results on stdout."""

from __future__ import annotations

import sys
from collections.abc import Collection

from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from mbe_stage.pipeline.cli.terminal import shortened, visible

__all__ = ["results_console", "table"]

# Characters of a cell: one with a few long paths or keys fits, a key of a megabyte does not.
_CELL = 1_000


def results_console() -> Console:
    """Stdout; wide enough for tables where it is no terminal."""
    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else 120, markup=False, highlight=False)


def table(
    columns: list[str],
    rows: list[list[object]],
    title: str | None = None,
    unbroken: Collection[str] = (),
    right: Collection[str] = (),
) -> Table:
    """A table of plain values, safe to print; columns whose values are all numbers are set right, and those of `right`.

    Cells are folded where there is not enough room, but for those of the `unbroken` columns.
    """
    result = Table(title=None if title is None else Text(visible(title)), title_justify="left")
    for index, name in enumerate(columns):
        numeric = name in right or all(isinstance(row[index], int | float) for row in rows)
        justify: JustifyMethod = "right" if numeric else "left"
        result.add_column(Text(visible(name)), justify=justify, overflow="fold", no_wrap=name in unbroken)
    for row in rows:
        result.add_row(*map(_cell, row))
    return result


def _cell(value: object) -> Text:
    return Text(f"{value:,}" if isinstance(value, int) else visible(shortened(value, _CELL)))
