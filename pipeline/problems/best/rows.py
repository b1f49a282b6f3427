"""The table `best`, its rows, and the page of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage.pipeline.problems.base import Page, PageSection, Shown
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.publish.reading import reading
from mbe_stage.pipeline.report.markdown import first_keys
from mbe_stage.pipeline.report.request import conditions, left_key, right_key
from mbe_stage.pipeline.report.wording import fragment
from mbe_stage.pipeline.wording import plural

_LEDE = "A maximal biclique is as good as its score: these are the best of all."
_FOOTER = """\
<p>The table lies beside this page.</p>
<pre>SELECT rank, value, left_keys, right_keys FROM 'best.parquet';      -- DuckDB, in this directory</pre>"""


def best_schema(by: str, key_types: tuple[Any, Any]) -> pa.Schema:
    """Schema of `best`; the keys are the user's, int64 or string."""
    lists = [pa.list_(pa.field("element", kind, nullable=False)) for kind in key_types]
    value = pa.float64() if by in ("weight", "surprise") else pa.int64()
    columns = [("rank", pa.int64()), ("value", value), ("biclique_key", pa.int64()), ("n_left", pa.int32())]
    columns += [("n_right", pa.int32()), ("n_edges", pa.int64()), ("left_keys", lists[0]), ("right_keys", lists[1])]
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns])


def best_rows(run_path: Path, limit: int, vertex: str | None = None) -> list[dict[str, Any]]:
    """Return the first rows, or those with the vertex of a key.

    Raises
    ------
    PublishError
        The run is damaged.
    """
    with reading(run_path):
        table = pq.read_table(run_path / "best.parquet")
        if vertex is None:
            return table[:limit].to_pylist()
        rows = (row for row in table.to_pylist() if vertex in map(str, row["left_keys"] + row["right_keys"]))
        return list(rows)[:limit]


def top(run_path: Path, limit: int, vertex: str | None) -> Shown:
    """Return the best bicliques, or those with the vertex of a key, for ``mbe top``."""
    found = best_rows(run_path, limit, vertex)
    rows = [
        [
            *(row["rank"], f"{row['value']:,.10g}", row["n_left"], row["n_right"]),
            *(first_keys(row["left_keys"]), first_keys(row["right_keys"]), str(row["biclique_key"])),
        ]
        for row in found
    ]
    return Shown(found, ["rank", "value", "n_left", "n_right", "left", "right", "biclique_key"], rows)


def page(run_path: Path, manifest: Manifest, limit: int) -> Page:
    """Build the page of a run; see `pipeline.problems.base.Publication`."""
    section, config = manifest.config.problem_section, manifest.config
    wanted = [
        f"the best {section.k:,} by {section.by}",
        f"at least {plural(section.min_left, 'left vertex', 'left vertices')} and "
        f"{plural(section.min_right, 'right vertex', 'right vertices')}",
    ]
    if section.missing:
        wanted.append(f"completed by vertices with at most {plural(section.missing, 'missing edge')}")
    if section.overlap < 1:
        wanted.append(f"at most {section.overlap:g} of their edges in a better one")
    rows = [
        {**row, "left": row["left_keys"], "right": row["right_keys"], "key": str(row["biclique_key"])}
        for row in best_rows(run_path, limit)
    ]
    shown = [*wanted, *conditions(config)], rows, section.by, (left_key(config), right_key(config))
    return Page(
        title="The best bicliques",
        lede=_LEDE,
        figures=[("best", manifest.counts.gap)],
        sections=[PageSection("best", "The best", fragment("bicliques.html", "best", *shown))],
        incomplete="better ones may exist, up to the bound",
        footer=_FOOTER,
    )
