"""The itemsets of a published run that are worth a look: those of several items in most baskets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.problems.base import Page, PageSection, Shown
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.publish.reading import reading
from mbe_stage.pipeline.report.markdown import first_keys
from mbe_stage.pipeline.report.wording import fragment
from mbe_stage.pipeline.stores.part_objects import fetch_missing

_LEDE = """A closed itemset is a set of items such that no further item is in all baskets that hold it. Every other
    frequent itemset has the support of the smallest closed one that holds it."""
_FOOTER = """\
<p>The tables lie beside this page; <code>items</code> of <code>itemsets</code> holds rows of
    <code>items.parquet</code>.</p>
<pre>SELECT support, items FROM 'itemsets/*.parquet'
ORDER BY support DESC LIMIT 20;      -- DuckDB, in this directory</pre>"""
_COLUMNS = ["itemset_key", "items", "n_items", "support"]


def top(run_path: Path, limit: int, item: str | None) -> Shown:
    """The itemsets of two or more items with most support, or those with this item.

    Raises
    ------
    InputError
        There is no such item.
    PublishError
        The run is damaged.
    """
    with reading(run_path):
        fetch_missing(run_path)
        keys = pq.read_table(run_path / "items.parquet", columns=["key"])["key"].combine_chunks()
        wanted = None if item is None else pc.index(keys.cast(pa.string()), pa.scalar(item, pa.string())).as_py()
        if wanted == -1:
            raise InputError.at(
                run_path,
                found=f"no item {item!r}",
                expected="a key as the input writes it",
                remedy="see the column 'key' of items.parquet",
            )
        best = ITEMSETS_TO_SHOW.empty_table()
        for part in sorted((run_path / "itemsets").glob("*.parquet")):
            for batch in pq.ParquetFile(part).iter_batches(1 << 16, columns=_COLUMNS):
                best = _first(pa.concat_tables([best, _holding(batch, wanted)]), limit)
    values = [{**row, "items": keys.take(pa.array(row["items"], pa.int32())).to_pylist()} for row in best.to_pylist()]
    rows = [[f"{row['support']:,}", first_keys(row["items"]), str(row["itemset_key"])] for row in values]
    return Shown(values, ["support", "items", "itemset_key"], rows)


ITEMSETS_TO_SHOW = pa.schema(
    [
        ("itemset_key", pa.int64()),
        ("items", pa.list_(pa.int32())),
        ("n_items", pa.int32()),
        ("support", pa.int32()),
    ]
)


def largest(run_path: Path, limit: int) -> list[dict[str, Any]]:
    """The same as rows of plain values; `itemset_key` is text: browsers round an int64."""
    found = top(run_path, limit, None).values
    return [{**row, "items": first_keys(row["items"]), "itemset_key": str(row["itemset_key"])} for row in found]


def page(run_path: Path, manifest: Manifest, limit: int) -> Page:
    """Build the page of a run of closed itemsets; see `pipeline.problems.base.Publication`."""
    counts = manifest.counts
    shown = top(run_path, limit, None).values
    return Page(
        title="Closed itemsets",
        lede=_LEDE,
        figures=[("baskets at least", f"{counts['min_count']:,}"), ("most items", f"{counts['max_items']:,}")],
        sides=("baskets", "items"),
        sections=[PageSection("largest", "Two or more items in most baskets", fragment("itemsets.html", "top", shown))],
        incomplete="there may be more",
        footer=_FOOTER,
    )


def _holding(batch: pa.RecordBatch, item: int | None) -> pa.Table:
    table = pa.Table.from_batches([batch]).cast(ITEMSETS_TO_SHOW)
    if item is None:
        return table.filter(pc.greater(table["n_items"], 1))
    lists = batch.column("items")
    hits = np.flatnonzero(lists.flatten().to_numpy() == item)
    offsets = lists.offsets.to_numpy() - lists.offsets[0].as_py()
    return table.take(pa.array(np.searchsorted(offsets, hits, side="right") - 1))


def _first(rows: pa.Table, limit: int) -> pa.Table:
    order = np.lexsort((rows["itemset_key"].to_numpy(), -rows["support"].to_numpy()))[:limit]
    return rows.take(pa.array(order)).combine_chunks()
