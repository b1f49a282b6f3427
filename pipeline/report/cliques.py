"""What the report shows of cliques: how large they are, the largest, the vertices that are in most."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.pipeline.problems.base import Page, PageSection
from mbe_stage.pipeline.problems.cliques.rows import Clique, largest_cliques
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.report import sections
from mbe_stage.pipeline.report.request import conditions
from mbe_stage.pipeline.report.wording import count, key, percent
from mbe_stage.pipeline.wording import plural

__all__ = ["page"]

_LEDE = """A clique is a group of vertices with an edge between any two. It is maximal when no further vertex is joined
    to all of it; a vertex without edges is one by itself."""
_FOOTER = """\
<p>The tables lie beside this page; <code>vertices</code> of <code>cliques</code> holds rows of
    <code>vertices.parquet</code>.</p>
<pre>SELECT size, vertices FROM 'cliques/*.parquet'
ORDER BY size DESC LIMIT 20;      -- DuckDB, in this directory</pre>"""
_BATCH_ROWS = 1 << 18
_OPEN = 8


def page(run_path: Path, manifest: Manifest, top: int) -> Page:
    """The page of a run of cliques; see `pipeline.problems.base.Publication`."""
    counts, asked = manifest.counts, manifest.config.asked
    # What a size limit or a vertex leaves out may be larger.
    is_whole = manifest.truncated is None and asked.max_size is None and not asked.containing and counts.cliques
    largest = "clique number" if is_whole else "largest clique"
    return Page(
        title="Maximal cliques",
        lede=_LEDE,
        figures=[
            (largest, f"{counts.max_size:,}"),
            ("degeneracy", f"{counts.degeneracy:,}"),
        ],
        sections=[
            PageSection("cliques", "The cliques", _asked(manifest) + _sizes(run_path)),
            PageSection("largest", "The largest", _largest(largest_cliques(run_path, top))),
            PageSection("vertices", "The vertices in most cliques", _vertices(run_path, counts.cliques, top)),
        ],
        incomplete="counts are lower bounds, and the largest may be missing",
        footer=_FOOTER,
    )


def _asked(manifest: Manifest) -> str:
    asked, counts, wanted = manifest.config.asked, manifest.counts, []
    if asked.project is not None:
        shared = plural(asked.min_shared, "neighbour")
        wanted.append(
            f"the {asked.project} vertices, joined where they share {shared} or more: {count(counts.vertices)} "
            f"vertices, {plural(counts.edges, 'edge')}"
        )
    if asked.min_size > 1:
        wanted.append(f"at least {plural(asked.min_size, 'vertex', 'vertices')}")
    if asked.max_size is not None:
        wanted.append(f"at most {plural(asked.max_size, 'vertex', 'vertices')}")
    if asked.containing:
        wanted.append(f"containing {', '.join(key(vertex) for vertex in asked.containing)}")
    wanted += conditions(manifest.config)
    if not wanted:
        return "<p>Every maximal clique was asked for: no filter, no limit.</p>"
    return f'<p>Asked for:</p><ul class="asked">{"".join(f"<li>{text}</li>" for text in wanted)}</ul>'


def _sizes(run_path: Path) -> str:
    """A row for each size, with a bar that is as long as there are many."""
    rows = pq.read_table(run_path / "size_histogram.parquet").to_pylist()
    if not rows:
        return '<p class="quiet">No clique, no sizes to show.</p>'
    total, most = sum(row["n_cliques"] for row in rows), max(row["n_cliques"] for row in rows)
    lines = "".join(
        f'<tr><th scope="row">{count(row["size"])}</th><td>{count(row["n_cliques"])}</td>'
        f"<td>{sections.bar(row['n_cliques'] / most, 'left')}"
        f'<span class="share">{percent(row["n_cliques"], total)}</span></td></tr>'
        for row in rows
    )
    return (
        '<h3>How large they are</h3><div class="scroll"><table class="numbers"><thead><tr><th scope="col">vertices</th>'
        f'<th scope="col">cliques</th><th scope="col">share</th></tr></thead><tbody>{lines}</tbody></table></div>'
    )


def _largest(cliques: list[Clique]) -> str:
    if not cliques:
        return '<p class="quiet">None.</p>'
    items = [
        f'<li><header><span class="rank">{rank}</span><b>{plural(len(one.vertices), "vertex", "vertices")}</b>'
        f'<code>{one.key}</code></header><div class="members">{sections.members(one.vertices, "left", "cliques")}</div>'
        "</li>"
        for rank, one in enumerate(cliques, 1)
    ]
    shown = f'<ol class="groups">{"".join(items[:_OPEN])}</ol>'
    if len(items) <= _OPEN:
        return shown
    rest = "".join(items[_OPEN:])
    summary = f"<summary>{len(items) - _OPEN} more</summary>"
    return f'{shown}<details class="more">{summary}<ol class="groups">{rest}</ol></details>'


def _vertices(run_path: Path, total: int, top: int) -> str:
    rows = _busiest(run_path, top)
    if not rows:
        return '<p class="quiet">No vertex is in a clique that was asked for.</p>'
    lines = "".join(
        f'<tr><th scope="row">{key(row["key"])}</th><td>{count(row["degree"])}</td><td>{count(row["core_number"])}</td>'
        f"<td>{count(row['n_cliques'])}</td>"
        f"<td>{sections.bar(row['n_cliques'] / max(total, 1), 'left')}"
        f'<span class="share">{percent(row["n_cliques"], total)}</span></td>'
        f"<td>{count(row['largest_clique_size'])}</td></tr>"
        for row in rows
    )
    names = ("vertex", "degree", "core number", "in cliques", "share", "largest")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    body = f"<thead><tr>{head}</tr></thead><tbody>{lines}</tbody>"
    return f'<div class="scroll"><table class="numbers vertices">{body}</table></div>'


def _busiest(run_path: Path, top: int) -> list[dict[str, Any]]:
    """The vertices in most cliques, most first, of equals those that come first."""
    best: pa.Table | None = None
    with pq.ParquetFile(run_path / "vertices.parquet") as file:
        for batch in file.iter_batches(batch_size=_BATCH_ROWS):
            rows = pa.Table.from_batches([batch])
            rows = rows.filter(pc.greater(rows["n_cliques"], 0))
            rows = rows if best is None else pa.concat_tables([best, rows])
            order = np.argsort(-rows["n_cliques"].to_numpy(), kind="stable")[:top]
            best = rows.take(pa.array(order)).combine_chunks()
    return [] if best is None else best.to_pylist()
