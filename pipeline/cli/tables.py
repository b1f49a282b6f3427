"""Tables of results on stdout, including those of the largest bicliques, with few imports for `mbe top`."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mbe_stage.pipeline.cli.terminal import print_json, say, shortened, visible
from mbe_stage.pipeline.stores.local_copies import address_of
from mbe_stage.pipeline.wording import plural

# Imported in the functions that make tables, because `--json` does not need it.
if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod
    from rich.table import Table
    from rich.text import Text

    from mbe_stage.pipeline.views.near_copies import Distinct
    from mbe_stage.pipeline.views.top import Biclique

# Characters of a cell: enough for a few long paths or keys, but not for a key of a megabyte.
_CELL = 1_000
# Number of keys per side that a table row shows, and characters of each; `--json` shows all.
_SHOWN_KEYS = 8
_KEY = 64


def results_console() -> Console:
    """Return stdout as a console, wide enough for tables if it is not a terminal."""
    from rich.console import Console

    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else 120, markup=False, highlight=False)


def table(
    columns: list[str],
    rows: list[list[object]],
    title: str | None = None,
    unbroken: Collection[str] = (),
    right: Collection[str] = (),
) -> Table:
    """Make a table of plain values, safe to print; numeric columns and those of `right` are right-aligned.

    Cells wrap if there is not enough room, except those of the `unbroken` columns.
    """
    from rich.table import Table
    from rich.text import Text

    result = Table(title=None if title is None else Text(visible(title)), title_justify="left")
    for index, name in enumerate(columns):
        numeric = name in right or all(isinstance(row[index], int | float) for row in rows)
        justify: JustifyMethod = "right" if numeric else "left"
        result.add_column(Text(visible(name)), justify=justify, overflow="fold", no_wrap=name in unbroken)
    for row in rows:
        result.add_row(*map(_cell, row))
    return result


def _cell(value: object) -> Text:
    from rich.text import Text

    return Text(f"{value:,}" if isinstance(value, int) else visible(shortened(value, _CELL)))


def largest(run_dir: Path, by: str, found: Distinct, as_json: bool) -> None:
    """Show some bicliques with their vertices' own keys."""
    bicliques = found.bicliques
    if as_json:
        print_json({"run": address_of(run_dir), "by": by, "bicliques": [*map(biclique_values, bicliques)]})
        return
    if not bicliques:
        say(f"{address_of(run_dir)}: no such biclique")
        return
    lines: list[list[object]] = [
        [b.n_edges, len(b.left), len(b.right), keys(b.left), keys(b.right), str(b.key)] for b in bicliques
    ]
    results_console().print(table(["edges", "left", "right", "left members", "right members", "biclique_key"], lines))
    if found.n_copies:
        say(f"left out   {plural(found.n_copies, 'near copy', 'near copies')} of these; --copies shows them too")


def biclique_values(biclique: Biclique) -> dict[str, Any]:
    """Return a biclique as JSON has it."""
    sizes = {"n_left": len(biclique.left), "n_right": len(biclique.right), "n_edges": biclique.n_edges}
    return {"biclique_key": biclique.key, **sizes, "left": biclique.left, "right": biclique.right}


def keys(of_side: Sequence[Any]) -> str:
    """Format the first keys of a side, safe to print, and the number of the others."""
    text = ", ".join(visible(shortened(key, _KEY)) for key in of_side[:_SHOWN_KEYS])
    return text if len(of_side) <= _SHOWN_KEYS else f"{text}, ... {len(of_side) - _SHOWN_KEYS:,} more"
