"""The tables of closed itemsets, column by column."""

from __future__ import annotations

import pyarrow as pa

ITEMSETS = pa.schema(
    [
        pa.field("itemset_key", pa.int64(), nullable=False),
        # Rows of `items`, ascending.
        pa.field("items", pa.list_(pa.field("element", pa.int32(), nullable=False)), nullable=False),
        pa.field("n_items", pa.int32(), nullable=False),
        pa.field("support", pa.int32(), nullable=False),
    ]
)

_SUPPORTS, _MEASURES = ("antecedent_support", "consequent_support", "support"), ("confidence", "lift", "leverage")
RULES = pa.schema(
    [
        # Rows of `items`, ascending.
        *(pa.field(name, ITEMSETS.field("items").type, nullable=False) for name in ("antecedent", "consequent")),
        *(pa.field(name, pa.int64(), nullable=False) for name in _SUPPORTS),
        *(pa.field(name, pa.float64(), nullable=False) for name in _MEASURES),
    ]
)

# Pairs of itemset keys; the lower concept has more items.
LATTICE = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in ("lower", "upper")])


def items(key_type: pa.DataType) -> pa.Schema:
    """Schema of `items`: every item; the user's keys are int64 or string. `vertex` is the rank of the key."""
    return pa.schema(
        [
            pa.field("vertex", pa.int32(), nullable=False),
            pa.field("key", key_type, nullable=False),
            pa.field("support", pa.int64(), nullable=False),
            pa.field("n_itemsets", pa.int64(), nullable=False),
        ]
    )
