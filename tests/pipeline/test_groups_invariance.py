"""Groups do not depend on the ids of vertices, and a random graph of the same degrees has none."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from mbe_stage.pipeline import run
from tests.pipeline.groups_support import planted, rows, settings, swapped

KINDS = ("both", "short_list")
RINGS = ((6, 6), (5, 9))


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_graph_has_groups_and_its_swaps_have_none(tmp_path: Path, kind: str) -> None:
    edges = planted(2, RINGS)
    assert run(settings(tmp_path, groups={"kind": kind}), edges).manifest.derived["groups"]["groups"] == 2
    for seed in range(3):
        result = run(settings(tmp_path / str(seed), groups={"kind": kind}), swapped(edges, seed))
        assert result.manifest.derived["groups"]["groups"] == 0


def groups_by_members(run_dir: Path, left: dict[str, str], right: dict[int, int]) -> Counter[tuple[object, ...]]:
    """Count groups by their members, under their original names, and by surprise."""
    members = rows(run_dir, "group_members")
    return Counter(
        (
            frozenset(left[m["key"]] for m in members if m["group_key"] == group["group_key"] and m["side"] == "left"),
            frozenset(
                right[int(m["key"])] for m in members if m["group_key"] == group["group_key"] and m["side"] == "right"
            ),
            group["surprise"],
            group["n_edges"],
        )
        for group in rows(run_dir, "groups")
    )


@pytest.mark.parametrize("kind", KINDS)
def test_vertices_of_other_names_and_ids_are_in_the_same_groups(tmp_path: Path, kind: str) -> None:
    for seed in range(4):
        edges = planted(seed, RINGS)
        dice = random.Random(seed)
        names, numbers = (sorted(set(edges[side].to_pylist())) for side in ("l", "r"))
        left = dict(zip(names, dice.sample(names, len(names)), strict=True))
        right = dict(zip(numbers, dice.sample(numbers, len(numbers)), strict=True))
        renamed = pa.table(
            {
                "l": [left[key] for key in edges["l"].to_pylist()],
                "r": pa.array([right[key] for key in edges["r"].to_pylist()], pa.int64()),
            }
        )
        first = run(settings(tmp_path / f"{seed} a", groups={"kind": kind}), edges).run_dir
        again = run(settings(tmp_path / f"{seed} b", groups={"kind": kind}), renamed).run_dir
        found = groups_by_members(first, {key: key for key in names}, {key: key for key in numbers})
        assert found
        back = ({new: old for old, new in left.items()}, {new: old for old, new in right.items()})
        assert groups_by_members(again, *back) == found
