"""Join groups with the table that they come from: what each ring bought, and its value.

python examples/groups_of_purchases.py [OUT]     in pandas, and the same in DuckDB if it is installed
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

from mbe_stage.pipeline import Config, run

N_ACCOUNTS, N_ITEMS, N_PURCHASES = 2_000, 500, 20_000
RING, SHARED = 6, 12

QUERY = """
WITH members AS (SELECT * FROM read_parquet('{run}/group_members.parquet')),
     accounts AS (SELECT group_key, key AS account FROM members WHERE side = 'left'),
     items AS (SELECT group_key, key AS item FROM members WHERE side = 'right')
SELECT rank, count(DISTINCT account) AS accounts, count(*) AS purchases, round(sum(amount), 2) AS amount
FROM bought JOIN accounts USING (account) JOIN items USING (group_key, item)
     JOIN read_parquet('{run}/groups.parquet') USING (group_key)
GROUP BY rank ORDER BY rank
"""


def purchases() -> pd.DataFrame:
    """Return purchases as they come from a warehouse: most at random, those of a ring of accounts in lockstep."""
    rng = np.random.default_rng(7)
    honest = pd.DataFrame(
        {
            "account": [f"customer-{number}" for number in rng.integers(0, N_ACCOUNTS, N_PURCHASES)],
            "item": [f"item-{number}" for number in rng.integers(0, N_ITEMS, N_PURCHASES)],
        }
    )
    ring = pd.DataFrame(
        [(f"ring-{account}", f"item-{item}") for account in range(RING) for item in range(40, 40 + SHARED)],
        columns=["account", "item"],
    )
    bought = pd.concat([honest, ring], ignore_index=True)
    return bought.assign(amount=np.round(rng.random(len(bought)) * 90 + 10, 2))


def in_pandas(bought: pd.DataFrame, run_dir: Path) -> pd.DataFrame:
    """Return accounts, purchases and value of each group, best first."""
    members = pd.read_parquet(run_dir / "group_members.parquet")
    sides = {side: rows[["group_key", "key"]] for side, rows in members.groupby("side", observed=True)}
    accounts = sides["left"].rename(columns={"key": "account"})
    items = sides["right"].rename(columns={"key": "item"})
    within = bought.merge(accounts, on="account").merge(items, on=["group_key", "item"])
    ranks = pd.read_parquet(run_dir / "groups.parquet", columns=["group_key", "rank"])
    worth = within.merge(ranks, on="group_key").groupby("rank")
    return worth.agg(
        accounts=("account", "nunique"),
        purchases=("item", "size"),
        amount=("amount", lambda part: round(part.sum(), 2)),
    ).reset_index()


def main(out: str) -> None:
    """Find the groups and print the common purchases of each."""
    bought = purchases()
    config = Config.from_mapping(
        {
            "input": {"left": "account", "right": "item"},
            "query": {"min_left": 2, "min_right": 2},
            "output": {"directory": out},
            "groups": {},
        }
    )
    run_dir = run(config, bought).run_dir
    found = in_pandas(bought, run_dir)
    print(found.to_string(index=False))
    if find_spec("duckdb") is None:
        print("the same in SQL: pip install duckdb")
        return
    import duckdb

    # DuckDB finds the frame by its variable name.
    again = duckdb.sql(QUERY.format(run=run_dir)).df()
    print("the same in DuckDB" if np.allclose(again, found) else f"DuckDB has\n{again}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "out/groups_of_purchases")
