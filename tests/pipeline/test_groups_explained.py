"""Sentences about groups, recomputed from the raw rows; only the members come from the tables."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from mbe_stage.groups.reference import effective_logs
from mbe_stage.pipeline import run
from mbe_stage.pipeline.wording import percent_text
from tests.pipeline.groups_support import rows, settings
from tests.pipeline.test_groups_times import SOURCE, WINDOWS
from tests.pipeline.test_groups_verify import WHOLE, with_everything

HOURS = {"1h": 3600, "1d": 24 * 3600, "7d": 7 * 24 * 3600, "30d": 30 * 24 * 3600}
IN_WORDS = {"1h": "1 hour", "1d": "1 day", "3d": "3 days", "7d": "7 days"}
Right = tuple[int, str | None]
"""An item, and what a key adds to it."""


def value_of(row: dict[str, Any], key: str | None, half_later: bool | None) -> str | None:
    """Return what a tried key adds to a row's item: the text of an attribute and the start of a bucket."""
    parts = []
    for name in [] if key in (None, "items") else key.split(" x "):
        if name in HOURS:
            shift = HOURS[name] // 2 * bool(half_later)
            begin = (row["time"] - shift) // HOURS[name] * HOURS[name] + shift
            parts.append(datetime.fromtimestamp(begin, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        else:
            parts.append(str(row[name]))
    return json.dumps(parts, separators=(",", ":")) if parts else None


def most_within(times: list[int], width: int) -> int:
    return max(sum(start <= time < start + width for time in times) for start in times)


def sentence(source: list[dict[str, Any]], group: dict[str, Any], left: set[str], right: set[Right]) -> str:
    """Compute a group's sentence from rows with `account`, `item`, `time` and attributes."""
    ends = [(row["account"], (row["item"], value_of(row, group["key"], group["half_later"]))) for row in source]
    edges = set(ends)
    degrees: tuple[Counter[str], Counter[Right]] = (Counter(u for u, _ in edges), Counter(v for _, v in edges))
    inside = {(u, v) for u, v in edges if u in left and v in right}
    n_possible, n_of_left = len(left) * len(right), sum(degrees[0][u] for u in left)
    expected = n_of_left * sum(degrees[1][v] for v in right) / len(edges)
    if 10 * max(degrees[0].values()) * max(degrees[1].values()) > len(edges):
        places = [{vertex: i for i, vertex in enumerate(of)} for of in degrees]
        logs = effective_logs(*(np.array(list(of.values())) for of in degrees))
        odds = [np.exp(logs[0][places[0][u]] + logs[1][places[1][v]] - np.log(len(edges))) for u in left for v in right]
        expected = float(sum(z / (1 + z) for z in odds))
    text = f"{len(left)} left x {len(right)} right members, "
    text += f"{'all' if len(inside) == n_possible else len(inside)} of {n_possible} possible edges; by their degrees "
    text += "fewer than 0.1" if expected < 0.1 else f"{expected:.1f}" if expected < 10 else f"{expected:.0f}"
    text += f" would be expected; {percent_text(len(inside) / n_of_left)} of the left members' edges are among them"
    times = [row["time"] for row, edge in zip(source, ends, strict=True) if edge in inside]
    of_items = [row["time"] for row in source if row["item"] in {item for item, _ in right}]
    for window, width in WINDOWS.items():
        share = most_within(times, width) / len(times)
        if share >= 0.8 or window == "7d":
            other = most_within(of_items, width) / len(of_items)
            if share >= 0.5 and share > other:
                told = f"{percent_text(share)} within {IN_WORDS[window]}"
                text += f"; {told} (all edges of these items: {percent_text(other)})"
            break
    return text


def explained(run_dir: Path, source: list[dict[str, Any]]) -> list[str]:
    """Return the sentences of a run after comparing each with the rows."""
    members, found = rows(run_dir, "group_members"), []
    for group in rows(run_dir, "groups"):
        own = [row for row in members if row["group_key"] == group["group_key"]]
        left = {row["key"] for row in own if row["side"] == "left"}
        right = {(int(row["key"]), row["key_value"]) for row in own if row["side"] == "right"}
        assert group["explanation"] == sentence(source, group, left, right)
        found.append(group["explanation"])
    return found


def test_explanations_are_those_of_the_raw_rows(tmp_path: Path) -> None:
    """Every tried key is used; in these rows the degrees force edges between some items and accounts."""
    told = explained(run(with_everything(tmp_path, chance_copies=0), WHOLE).run_dir, WHOLE.to_pylist())
    assert any("possible edges" in text and "all of" not in text for text in told)
    in_time = ["all edges of these items" in text for text in told]
    assert {True, False} == set(in_time)


def test_explanations_of_a_graph_of_items_alone(tmp_path: Path) -> None:
    config = settings(tmp_path, input={"timestamp": "t"}, groups={"try_keys": "plain"})
    names = {"l": "account", "r": "item", "t": "time"}
    source = SOURCE.select(list(names)).rename_columns(list(names.values()))
    told = explained(run(config, SOURCE).run_dir, source.to_pylist())
    assert ["all edges of these items" in text for text in told].count(True) == 1 < len(told)
