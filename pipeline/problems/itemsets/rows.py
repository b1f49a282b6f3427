"""The itemsets of several items with the most baskets, from a published run."""

from __future__ import annotations

from pathlib import Path

from mbe_stage.pipeline.problems.base import Page, PageSection
from mbe_stage.pipeline.problems.listed import ListedTable
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.report.wording import fragment

_LEDE = """A closed itemset is a set of items such that no further item is in all baskets that hold it. Every other
    frequent itemset has the support of the smallest closed one that holds it."""
_FOOTER = """\
<p>The tables lie beside this page; <code>items</code> of <code>itemsets</code> holds rows of
    <code>items.parquet</code>.</p>
<pre>SELECT support, items FROM 'itemsets/*.parquet'
ORDER BY support DESC LIMIT 20;      -- DuckDB, in this directory</pre>"""

_FIGURES = {"min_count": "baskets at least", "max_items": "most items", "rules": "rules", "covers": "covers"}

LISTED = ListedTable(
    "itemsets", "items.parquet", "itemset_key", "items", "support", ("support", "items", "itemset_key"), fewest=2
)
"""The table `itemsets`, ranked by support; the best have two or more items."""
top, largest = LISTED.top, LISTED.largest


def page(run_path: Path, manifest: Manifest, limit: int) -> Page:
    """Build the page of a run of closed itemsets; see `pipeline.problems.base.Publication`."""
    counts = manifest.counts
    shown = LISTED.best(run_path, limit)
    return Page(
        title="Closed itemsets",
        lede=_LEDE,
        figures=[(text, f"{counts[name]:,}") for name, text in _FIGURES.items() if name in counts],
        sides=("baskets", "items"),
        sections=[PageSection("largest", "Two or more items in most baskets", fragment("itemsets.html", "top", shown))],
        incomplete="there may be more",
        footer=_FOOTER,
    )
