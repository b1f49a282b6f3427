"""In an ETL job on the GPU: which accounts buy in lockstep, and its value. No table leaves the device.

python examples/rapids_purchases.py          needs an NVIDIA GPU and the extra rapids-cu13 (or rapids-cu12)
"""

from __future__ import annotations

import cudf
import cupy as cp

from mbe_stage.pipeline.rapids.library import enumerate_bicliques

N_ACCOUNTS, N_ITEMS, N_PURCHASES = 2000, 500, 20_000
RING = 6


def purchases() -> cudf.DataFrame:
    """Return purchases as they come from a warehouse: most at random, those of a ring of accounts in lockstep."""
    rng = cp.random.default_rng(7)
    accounts = "customer-" + cudf.Series(rng.integers(0, N_ACCOUNTS, N_PURCHASES)).astype("str")
    ring = "ring-" + cudf.Series(cp.repeat(cp.arange(RING), 12)).astype("str")
    items = cp.concatenate([rng.integers(0, N_ITEMS, N_PURCHASES), cp.tile(cp.arange(40, 52), RING)])
    frame = cudf.DataFrame({"account": cudf.concat([accounts, ring], ignore_index=True), "item": items})
    frame["amount"] = cp.round(rng.random(len(frame)) * 90 + 10, 2)
    return frame


def ranked(bought: cudf.DataFrame, min_accounts: int, min_items: int) -> cudf.DataFrame:
    """Return accounts by their spending in groups of accounts that all bought the same items."""
    tables = enumerate_bicliques(bought, "account", "item", min_left=min_accounts, min_right=min_items)
    members = tables.bicliques[["biclique_key", "left"]].explode("left")
    goods = tables.bicliques[["biclique_key", "right"]].explode("right")
    pairs = members.merge(goods, on="biclique_key")[["left", "right"]].drop_duplicates()
    accounts = tables.left_vertices[["vertex", "key", "n_bicliques"]]
    items = tables.right_vertices[["vertex", "key"]]
    named = pairs.merge(accounts, left_on="left", right_on="vertex").rename(columns={"key": "account"})
    named = named.merge(items, left_on="right", right_on="vertex").rename(columns={"key": "item"})
    spent = bought.merge(named[["account", "item", "n_bicliques"]], on=["account", "item"])
    ranking = spent.groupby("account").agg({"n_bicliques": "max", "item": "nunique", "amount": "sum"}).reset_index()
    return ranking.sort_values(["n_bicliques", "amount", "account"], ascending=[False, False, True], ignore_index=True)


def main() -> None:
    """Print the accounts that are in a group of at least five accounts with eight items in common."""
    bought = purchases()
    print(f"{len(bought)} purchases; accounts that share at least 8 items with 4 others:")
    print("account groups items amount")
    for account, groups, items, amount in ranked(bought, 5, 8).round(2).to_pandas().itertuples(index=False):
        print(f"{account} {groups} {items} {amount:.2f}")


if __name__ == "__main__":
    main()
