"""Find groups on the GPU and join them with the purchases: what each ring bought, and its value.

python examples/rapids_groups.py             needs an NVIDIA GPU and the extra rapids-cu13 (or rapids-cu12)
"""

from __future__ import annotations

import cudf
import cupy as cp

from mbe_stage.pipeline.rapids.library import enumerate_bicliques

N_ACCOUNTS, N_ITEMS, N_PURCHASES = 2_000, 500, 20_000
RING, SHARED = 6, 12


def purchases() -> cudf.DataFrame:
    """Return purchases as they come from a warehouse: most at random, those of a ring of accounts in lockstep."""
    rng = cp.random.default_rng(7)
    accounts = "customer-" + cudf.Series(rng.integers(0, N_ACCOUNTS, N_PURCHASES)).astype("str")
    ring = "ring-" + cudf.Series(cp.repeat(cp.arange(RING), SHARED)).astype("str")
    items = cp.concatenate([rng.integers(0, N_ITEMS, N_PURCHASES), cp.tile(cp.arange(40, 40 + SHARED), RING)])
    frame = cudf.DataFrame(
        {
            "account": cudf.concat([accounts, ring], ignore_index=True),
            "item": "item-" + cudf.Series(items).astype("str"),
        }
    )
    frame["amount"] = cp.round(rng.random(len(frame)) * 90 + 10, 2)
    return frame


def worth_of_groups(bought: cudf.DataFrame) -> cudf.DataFrame:
    """Return accounts, purchases and value of each group, best first."""
    tables = enumerate_bicliques(bought, "account", "item", min_left=2, min_right=2, groups={}).groups
    members = tables["group_members"][["group_key", "side", "key"]].astype({"side": "str"})
    accounts = members[members["side"] == "left"].rename(columns={"key": "account"})[["group_key", "account"]]
    items = members[members["side"] == "right"].rename(columns={"key": "item"})[["group_key", "item"]]
    within = bought.merge(accounts, on="account").merge(items, on=["group_key", "item"])
    within = within.merge(tables["groups"][["group_key", "rank"]], on="group_key")
    worth = within.groupby("rank").agg({"account": "nunique", "item": "count", "amount": "sum"})
    return worth.reset_index().sort_values("rank", ignore_index=True)


def main() -> None:
    """Find the groups and print the common purchases of each."""
    print("rank accounts purchases amount")
    for rank, accounts, count, amount in worth_of_groups(purchases()).to_pandas().itertuples(index=False):
        print(f"{rank} {accounts} {count} {amount:.2f}")


if __name__ == "__main__":
    main()
