"""Groups of tried right keys: the keys, one list for all, what `mbe verify` checks, and when none is tried."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from mbe_stage.groups.rewiring import rewired
from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.execution.edge_files import load_edges, save_edges
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.problems.groups import chance, searched
from mbe_stage.pipeline.problems.groups.tried_keys import edges_of_key, keys_of, n_tries
from mbe_stage.pipeline.problems.installed import reading_of
from mbe_stage.pipeline.publish.manifest import config_fingerprint, read_manifest
from mbe_stage.pipeline.verify import verify_run
from mbe_stage.pipeline.views.listed_groups import listed_groups
from mbe_stage.pipeline.views.regroup import regroup
from tests.pipeline.groups_support import rows
from tests.pipeline.test_groups_verify import changed
from tests.pipeline.test_problem_seam import forge

DAY = 86_400
BEGIN = 1_600_000_000


def events(seed: int = 1) -> pa.Table:
    """Random ratings over 100 days, a ring with one rating within hours, and one that shares only its items."""
    dice = random.Random(seed)
    found = [
        (f"u{dice.randrange(150)}", dice.randrange(80), dice.randrange(1, 6), BEGIN + dice.randrange(100 * DAY))
        for _ in range(900)
    ]
    for account in range(7):
        found += [(f"ring{account}", item, 5, BEGIN + 30 * DAY + dice.randrange(9000)) for item in range(6)]
        found += [
            (f"slow{account}", 200 + item, dice.randrange(1, 6), BEGIN + dice.randrange(100 * DAY)) for item in range(6)
        ]
    dice.shuffle(found)
    names = ("account", "item", "stars", "time")
    return pa.table(dict(zip(names, map(list, zip(*found, strict=True)), strict=True)))


def settings(out: Path, groups: dict[str, Any] | None = None, **sections: dict[str, Any]) -> Config:
    return Config.from_mapping(
        {
            "query": {"min_left": 2, "min_right": 2},
            "execution": {"engine": "cpu", "threads": 1},
            "output": {"directory": str(out), "compare": 0},
            "groups": {"chance_copies": 0, **(groups or {})},
            **sections,
        }
    )


def read(config: Config, source: Any) -> Any:
    return ingest(reading_of(config), source)


@pytest.mark.parametrize("kind", ["both", "short_list"])
def test_keys_are_tried_and_verified(tmp_path: Path, kind: str) -> None:
    source, config = events(), settings(tmp_path, {"kind": kind})
    run_dir = run(config, source).run_dir
    groups = rows(run_dir, "groups")
    names = [group["key"] for group in groups]
    of_ring = next(group for group in listed_groups(run_dir) if group["left"] == [f"ring{i}" for i in range(7)])
    assert of_ring["rank"] == 1
    assert "stars" in of_ring["key"]
    assert all(json.loads(key)[1] == "5" for key in of_ring["right"])
    slow = next(group for group in listed_groups(run_dir) if "slow0" in group["left"])
    assert slow["key"] in ("items", "30d")
    # First keys with attributes or time, then the items alone, then pairs.
    tiers = [2 * (group["n_left"] <= 2) + (group["key"] == "items") for group in groups]
    assert tiers == sorted(tiers)
    assert {group["half_later"] is None for group in groups if group["key"] in ("items", "stars")} <= {True}
    report = verify_run(run_dir, read(config, source))
    assert any(check.name == "stars x 7d half later bicliques" for check in report.checks)
    assert read_manifest(run_dir).derived["groups"]["keys"] == 1 + len(
        {row["key"] for row in rows(run_dir, "group_keys")}
    )
    assert len(set(names)) > 1


def test_buckets_that_begin_together_list_a_group_once(tmp_path: Path) -> None:
    """Weeks since 1970 begin on Thursdays, so a ring of one Thursday has one key value for days and weeks."""
    day = BEGIN - BEGIN % (7 * DAY) + 35 * DAY
    ring = [(f"t{u}", 300 + v, 4, day + 3600 * u) for u in range(6) for v in range(5) if (u, v) not in [(0, 0), (5, 4)]]
    names = ("account", "item", "stars", "time")
    table = pa.table(dict(zip(names, map(list, zip(*ring, strict=True)), strict=True)))
    source, config = pa.concat_tables([events(), table]), settings(tmp_path)
    result = run(config, source)
    keys = [row["group_key"] for row in rows(result.run_dir, "groups")]
    assert len(set(keys)) == len(keys)
    assert sum("t1" in group["left"] for group in listed_groups(result.run_dir)) == 1
    verify_run(result.run_dir, read(config, source))


def test_the_order_of_rows_does_not_matter(tmp_path: Path) -> None:
    source = events(2)
    mixed = source.take(pa.array(np.random.default_rng(1).permutation(source.num_rows)))
    one, other = (run(settings(tmp_path / str(i)), each).run_dir for i, each in enumerate((source, mixed)))
    for name in ("groups", "group_members", "group_edges", "group_halo", "group_keys", "vertex_scores"):
        assert rows(one, name) == rows(other, name)


def test_files_give_the_same_groups_as_memory(tmp_path: Path) -> None:
    source = events()
    pyarrow.csv.write_csv(source, tmp_path / "e.csv")
    pq.write_table(source, tmp_path / "e.parquet")
    named = {"input": {"left": "account", "right": "item"}}
    expected = rows(run(settings(tmp_path / "memory", **named), source).run_dir, "groups")
    for name in ("e.csv", "e.parquet"):
        found = rows(run(settings(tmp_path / name[2:], **named), str(tmp_path / name)).run_dir, "groups")
        assert [(row["group_key"], row["key"]) for row in found] == [(row["group_key"], row["key"]) for row in expected]


def test_plain_is_the_list_without_tried_keys(tmp_path: Path) -> None:
    source = events()
    plain = run(settings(tmp_path / "plain", {"try_keys": "plain"}), source).run_dir
    alone = run(settings(tmp_path / "alone"), source.select(["account", "item"])).run_dir
    assert rows(plain, "groups") == rows(alone, "groups")
    assert not (plain / "group_keys.parquet").exists()
    assert rows(alone, "group_keys") == []
    assert {row["key"] for row in rows(plain, "groups")} <= {None}


@pytest.mark.parametrize(
    "sections",
    [
        {"input": {"right": ["item", "stars"], "left": "account"}},
        {"input": {"left": "account", "right": "item", "timestamp": "time", "time_bucket": "7d"}},
        {"groups": {"try_keys": "plain"}},
    ],
)
def test_a_named_key_is_not_replaced(tmp_path: Path, sections: dict[str, Any]) -> None:
    config = settings(tmp_path, **sections)
    assert keys_of(read(config, events()).events, config) == ()


def test_an_edge_of_the_items_counts_once_and_a_property_of_accounts_is_no_key(tmp_path: Path) -> None:
    """Random graphs in which rows repeat edges with other values and accounts keep to one segment: no group."""
    dice = random.Random(5)
    users = [f"u{i}" for i in range(200)]
    repeated = [
        (user, item, rating)
        for user in users
        for item in dice.sample(range(50), 3)
        for rating in dice.sample(range(1, 6), 4)
    ]
    segment = {user: dice.randrange(20) for user in users}
    kept_apart = [(user, item, segment[user]) for user in users for item in dice.sample(range(60), 8)]
    for name, rows_of in (("ratings", repeated), ("segments", kept_apart)):
        columns = ([row[i] for row in rows_of] for i in range(3))
        table = pa.table(dict(zip(("account", "item", "value"), columns, strict=True)))
        config = settings(tmp_path / name)
        keys = keys_of(read(config, table).events, config)
        assert [key.name for key in keys] == (["value"] if name == "ratings" else [])
        result = run(config, table)
        assert result.manifest.derived["groups"]["groups"] == 0
        verify_run(result.run_dir, read(config, table))
    values = {"account": ["a", "a", "a", "b", "b"], "item": [1, 1, 1, 1, 2], "value": [2, 3, 2, 3, 2]}
    edges = read(config := settings(tmp_path), pa.table(values))
    (key,) = keys_of(edges.events, config)
    narrowed, items = edges_of_key(edges, key, half_later=False)
    assert narrowed.right_keys.to_pylist() == ['[1,"2"]', '[1,"3"]', '[2,"2"]']
    # Both rows of the first value stay, and the one of the other does not.
    assert (narrowed.events.right.tolist(), items.tolist()) == ([0, 0, 1, 2], [0, 0, 1])


def test_recognised_columns(tmp_path: Path) -> None:
    n = 200
    table = pa.table(
        {
            "account": [f"u{i % 20}" for i in range(n)],
            "item": [i % 33 for i in range(n)],
            "id": list(range(n)),
            "text": [f"so good {i % 3} " * 9 for i in range(n)],
            "price": [i * 0.99 for i in range(n)],
            "label": [i % 2 for i in range(n)],
            "constant": ["a"] * n,
            "country": ["DE" if i % 3 else None for i in range(n)],
            "stars": [float(i // 3 % 5) for i in range(n)],
            "created_at": [BEGIN + i * 2000 for i in range(n)],
        }
    )
    config = settings(tmp_path)
    found = read(config, table).events
    assert [(each.name, each.values) for each in found.attributes] == [
        ("country", ("", "DE")),
        ("stars", ("0", "1", "2", "3", "4")),
    ]
    assert found.moments.tolist() == [(BEGIN + i * 2000) * 1_000_000 for i in range(n)]
    keys = keys_of(found, config)
    # The rows span 4.6 days, so longer buckets are useless.
    assert [key.name for key in keys] == [
        *("country", "stars", "1h", "1d", "country x 1h", "stars x 1h", "country x 1d", "stars x 1d"),
    ]
    assert n_tries(keys) == 1 + 2 + 2 * 6
    again = load_edges(save_edges(read(config, table), tmp_path / "edges")).events
    assert [(each.name, each.values) for each in again.attributes] == [
        (each.name, each.values) for each in found.attributes
    ]
    assert again.moments.tolist() == found.moments.tolist()


@pytest.mark.parametrize("kind", ["timestamps", "dictionary", "days"])
def test_moments_beyond_calendars_are_no_attributes(tmp_path: Path, kind: str) -> None:
    """Python's dates end with the year 9999."""
    times = pa.array([2**30, *range(events().num_rows - 1)], pa.int32()).cast(pa.date32())
    if kind != "days":
        times = times.cast(pa.timestamp("s"))
    table = events().set_column(3, "time", times.dictionary_encode() if kind == "dictionary" else times)
    found = read(settings(tmp_path), table).events
    assert [each.name for each in found.attributes] == ["stars"]


def test_further_columns_are_part_of_the_fingerprint(tmp_path: Path) -> None:
    source, config = events(), settings(tmp_path)
    other = source.set_column(2, "stars", pa.array([1, 2] * (source.num_rows // 2)))
    one, two = (read(config, each).facts for each in (source, other))
    assert one.fingerprint == two.fingerprint
    assert one.events_fingerprint != two.events_fingerprint


def test_keys_without_time_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searched, "MOST_SECONDS", 1e-9)
    source, config = events(), settings(tmp_path)
    result = run(config, source)
    assert {row["status"] for row in rows(result.run_dir, "group_keys")} == {"not tried"}
    counts = result.manifest.derived["groups"]
    assert counts["keys_not_searched"] == counts["keys"] - 1
    assert "too short to try" in (result.run_dir / "report.html").read_text()
    verify_run(result.run_dir, read(config, source))


def test_large_graphs_are_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = run(settings(tmp_path / "kept"), events()).run_dir
    monkeypatch.setattr(searched, "_MOST_KEPT", 0)
    other = run(settings(tmp_path / "again"), events()).run_dir
    for name in ("groups", "group_members", "vertex_scores"):
        assert rows(one, name) == rows(other, name)


def test_a_run_is_regrouped_with_keys(tmp_path: Path) -> None:
    pyarrow.csv.write_csv(events(), tmp_path / "e.csv")
    named = {"input": {"path": str(tmp_path / "e.csv"), "left": "account", "right": "item"}}
    first = run(settings(tmp_path / "out", {"try_keys": "plain"}, **named)).run_dir
    again = regroup(first, {"groups": {}}).run_dir
    direct = run(settings(tmp_path / "direct", **named)).run_dir
    assert [row["group_key"] for row in rows(again, "groups")] == [row["group_key"] for row in rows(direct, "groups")]


def test_runs_of_earlier_versions_are_plain(tmp_path: Path) -> None:
    result = run(settings(tmp_path, {"try_keys": "plain"}), events())
    path = result.run_dir / "manifest.json"
    stated = json.loads(path.read_text())
    del stated["config"]["groups"]["try_keys"]
    path.write_text(json.dumps(stated))
    manifest = read_manifest(result.run_dir)
    assert manifest.config.section("groups").try_keys == "plain"
    assert config_fingerprint(manifest.config) == manifest.config_fingerprint


@pytest.mark.parametrize(
    ("table", "column", "value", "message"),
    [
        ("groups", "key", "stars x 9d", "key and half_later"),
        ("group_members", "key_value", '["4"]', "no vertex of the group's key|key_value is set"),
        ("group_keys", "n_edges", 7, "n_edges': 7"),
        ("group_keys", "key", "moon", "moon"),
    ],
)
def test_wrong_values_are_found(tmp_path: Path, table: str, column: str, value: object, message: str) -> None:
    source, config = events(), settings(tmp_path)
    run_dir = run(config, source).run_dir
    at = next(i for i, row in enumerate(rows(run_dir, table)) if row[column] is not None)
    forge(run_dir, f"{table}.parquet", changed(column, lambda _: value, at))
    with pytest.raises(VerificationError, match=message):
        verify_run(run_dir, read(config, source))


def test_known_good_items_mute_groups_of_every_key(tmp_path: Path) -> None:
    pyarrow.csv.write_csv(pa.table({"side": ["right"] * 80, "key": list(range(80))}), tmp_path / "good.csv")
    source, config = events(), settings(tmp_path / "out", {"allow": str(tmp_path / "good.csv")})
    run_dir = run(config, source).run_dir
    muted = [group for group in rows(run_dir, "groups") if group["is_muted"]]
    assert any(group["key"] != "items" for group in muted)
    verify_run(run_dir, read(config, source))


def test_random_copies_stand_beside_the_list(tmp_path: Path) -> None:
    source, config = events(), settings(tmp_path, {"chance_copies": 3})
    result = run(config, source)
    groups = rows(result.run_dir, "groups")
    stated = json.loads(pq.read_schema(result.run_dir / "groups.parquet").metadata[b"chance_copies"])
    assert result.manifest.derived["groups"]["chance_copies"] == len(stated) == 3
    best = [copy["best_surprise"] for copy in stated]
    # No copy has a significant group, and rows have exchanged their ends many times over.
    assert max(best) < 3
    assert all(copy["swaps"] > 2 and copy["acceptance"] > 0.5 for copy in stated)
    assert {group["chance_p_value"] for group in groups} == {0.25}
    assert "random copies" in (result.run_dir / "report.html").read_text()
    verify_run(result.run_dir, read(config, source))


def test_random_copies_of_the_items_alone(tmp_path: Path) -> None:
    source, config = events().select(["account", "item"]), settings(tmp_path, {"chance_copies": 1})
    run_dir = run(config, source).run_dir
    assert {group["chance_p_value"] for group in rows(run_dir, "groups")} == {0.5}
    verify_run(run_dir, read(config, source))


def test_without_time_there_is_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chance, "SHARE_OF_COPIES", 0)
    result = run(settings(tmp_path, {"chance_copies": None}), events())
    assert result.manifest.derived["groups"]["chance_copies"] == 0
    assert {group["chance_p_value"] for group in rows(result.run_dir, "groups")} == {None}
    assert "no time to search a random copy" in (result.run_dir / "report.html").read_text()


def test_copies_keep_degrees_and_rows() -> None:
    dice = np.random.default_rng(1)
    left, right = (dice.integers(0, 40, 300).astype(np.int32) for _ in range(2))
    found, swaps, acceptance = rewired(left, right, 40, seed=3)
    assert sorted(found) == sorted(left)
    n_edges = [len(set(zip(of.tolist(), right.tolist(), strict=True))) for of in (left, found)]
    assert n_edges[0] == n_edges[1]
    assert swaps > 1
    assert 0 < acceptance < 1
    assert np.array_equal(found, rewired(left, right, 40, seed=3)[0])
