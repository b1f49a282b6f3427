"""What is new since yesterday: two runs compared by `biclique_key`, which names a group by its members' own keys.

python examples/compare_runs.py [OUT]
"""

from __future__ import annotations

import sys

import duckdb
import pyarrow as pa

from pipeline import Config, run

YESTERDAY = [("ann", "shop 1"), ("ann", "shop 2"), ("bob", "shop 1"), ("bob", "shop 2"), ("cid", "shop 3")]
# Today cid was at the same shops as ann and bob, so their group has grown, and dee came.
TODAY = [*YESTERDAY, ("cid", "shop 1"), ("cid", "shop 2"), ("dee", "shop 3")]

NEW_GROUPS = """
    WITH new AS (
        SELECT biclique_key FROM read_parquet('{today}/bicliques/*.parquet')
        EXCEPT
        SELECT biclique_key FROM read_parquet('{yesterday}/bicliques/*.parquet')
    )
    SELECT string_agg(person.key, ', ' ORDER BY person.key), string_agg(shop.key, ', ' ORDER BY shop.key)
    FROM read_parquet('{today}/members/*.parquet') AS member
    JOIN new USING (biclique_key)
    LEFT JOIN '{today}/left_vertices.parquet' AS person ON side = 'left' AND member.vertex = person.vertex
    LEFT JOIN '{today}/right_vertices.parquet' AS shop ON side = 'right' AND member.vertex = shop.vertex
    GROUP BY biclique_key
    ORDER BY 1, 2
"""


def main(out: str) -> None:
    """Publish yesterday's and today's run, and print the groups that only today's has."""
    # The long form, one row a member, joins well.
    config = Config.from_mapping({"output": {"directory": out, "members": True, "report": False}})
    yesterday, today = (run(config, to_table(edges)) for edges in (YESTERDAY, TODAY))
    if yesterday.manifest.content_fingerprint == today.manifest.content_fingerprint:
        print("nothing changed")
        return
    question = NEW_GROUPS.format(yesterday=yesterday.run_dir, today=today.run_dir)
    for people, shops in duckdb.sql(question).fetchall():
        print(f"new: {people} at {shops}")


def to_table(edges: list[tuple[str, str]]) -> pa.Table:
    """The edges as a table with two columns."""
    people, shops = zip(*edges, strict=True)
    return pa.table({"person": people, "shop": shops})


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "out/compare_runs")
