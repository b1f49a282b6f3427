"""Names of a side's key columns, and published keys split into these columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from mbe_stage.pipeline import Config
from mbe_stage.pipeline.cases.key_columns import BUCKETS, PLAIN, key_columns, split_keys, value_columns
from mbe_stage.pipeline.clean.facts import InputColumn
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.problems.groups import tried_keys


def of(**reads: Any) -> Config:
    return Config.from_mapping({"input": reads})


def test_names_are_those_of_the_columns() -> None:
    buckets = of(left="account", right=["item", "rating"], time_bucket="7d", timestamp="time")
    assert (key_columns(buckets, "left"), key_columns(buckets, "right")) == (
        ("account",),
        ("item", "rating", "time_bucket"),
    )
    assert (key_columns(of(), "left"), key_columns(of(), "right")) == (("left",), ("right",))
    assert key_columns(of(right=[1, 2]), "right") == ("right_1", "right_2")
    assert key_columns(of(right=["time_bucket"], time_bucket="7d", timestamp=3), "right") == (
        "time_bucket",
        "time_bucket_2",
    )


def test_a_column_selected_by_number_has_its_name_in_the_input() -> None:
    columns = [InputColumn("left", 0, "account"), InputColumn("right", 1, None), InputColumn("right", 2, "stars")]
    assert key_columns(of(right=[1, 2]), "left", columns) == ("account",)
    assert key_columns(of(right=[1, 2]), "right", columns) == ("right_1", "stars")


def test_names_of_tried_key_columns() -> None:
    assert (tried_keys.PLAIN, tuple(tried_keys.BUCKETS)) == (PLAIN, BUCKETS)
    assert value_columns(None) == value_columns("items") == ()
    assert value_columns("a x b x 1d") == ("a x b", "time_bucket")
    assert value_columns("a x b") == ("a x b",)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_keys_of_several_columns_are_split(kind: pa.DataType) -> None:
    keys = pa.array(['["a,\\"b\\n",5]', None, '["=1",-7]'], kind)
    for given in (keys, pa.chunked_array([keys])):
        parts = split_keys(given, ("item", "rating"))
        assert parts.to_pydict() == {"item": ['a,"b\n', None, "=1"], "rating": [5, None, -7]}
        assert parts.schema.field("rating").type == pa.int64()


def test_one_column_is_the_key_itself() -> None:
    assert split_keys(pa.array(["[1,2]"]), ("item",)).to_pydict() == {"item": ["[1,2]"]}
    assert split_keys(pa.array([5]), ("item",)).to_pydict() == {"item": [5]}


def test_parts_that_are_not_all_integers_are_text() -> None:
    keys = pa.array(['["a",5]', '["b","x"]', f'["c",{2**63}]', '["d",true]', '["e",{"f":null}]'])
    assert split_keys(keys, ("a", "b"))["b"].to_pylist() == ["5", "x", str(2**63), "true", '{"f": null}']


@pytest.mark.parametrize("key", ["x", "[1]", "[1,2,3]", '{"a":1}', "[" * 100_000])
def test_other_keys_are_refused(key: str) -> None:
    with pytest.raises(PublishError, match="no JSON array of 2 parts"):
        split_keys(pa.array([key]), ("a", "b"))
