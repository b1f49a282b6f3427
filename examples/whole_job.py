"""The whole job on a table in memory: a pandas frame in, published tables out, and read back.

python examples/whole_job.py [OUT]
"""

from __future__ import annotations

import sys

import pandas as pd
import pyarrow.parquet as pq

from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.views.top import largest_bicliques

PURCHASES = pd.DataFrame(
    {
        "customer": ["ann", "ann", "ann", "bob", "bob", "bob", "cid", "cid", "dee", "dee", "ann"],
        "product": ["tea", "milk", "oats", "tea", "milk", "oats", "tea", "oats", "milk", "jam", "tea"],
        "amount": [2, 1, 1, 3, 1, 2, 1, 1, 4, 1, 1],
    }
)


def main(out: str) -> None:
    """Publish a run and look at it."""
    config = Config.from_mapping(
        {
            "input": {"left": "customer", "right": "product"},
            "query": {"min_left": 2},
            "output": {"directory": out, "sort": True},
        }
    )
    result = run(config, PURCHASES)
    manifest = result.manifest
    print(f"{manifest.counts.bicliques} groups, {manifest.input.duplicate_edges} duplicate edge merged")

    # Members are dense ids; the vertex tables map them to keys. `top` does that for the largest.
    for group in largest_bicliques(result.run_dir, limit=2):
        print(f"{', '.join(map(str, group.left))} all bought {', '.join(map(str, group.right))}")

    # Any Parquet reader can read the tables.
    products = pq.read_table(result.run_dir / "right_vertices.parquet").to_pandas()
    busiest = products.sort_values(["n_bicliques", "key"], ascending=[False, True]).iloc[0]
    print(f"{busiest['key']} is in {busiest['n_bicliques']} groups")
    print(f"report: {result.run_dir / 'report.html'}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "out/whole_job")
