"""Groups compared with the earlier run: what became of each, which are gone, and cases that keep their ids."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbe_stage.pipeline import run
from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.execution.job import RunResult
from mbe_stage.pipeline.problems.groups import completing, overlaps
from mbe_stage.pipeline.problems.groups.group_changes import GroupRows, read_group_rows, since_last
from mbe_stage.pipeline.problems.groups.publication import PUBLICATION
from mbe_stage.pipeline.report.groups import since_last as since_section
from mbe_stage.pipeline.verify import verify_run
from mbe_stage.pipeline.views import listed_groups
from tests.pipeline.groups_support import EDGES, planted, rows, settings
from tests.pipeline.test_groups_known import write
from tests.pipeline.test_problem_seam import edit

SHORT = {"kind": "short_list"}
"""The first ring's biclique is the same with and without the second ring; the group grown from it is larger with it."""
Groups = dict[int, tuple[frozenset[str], int]]
"""Left members and number of edges, by key."""


def without(edges: pa.Table, *accounts: str) -> pa.Table:
    """Return the edges without those of some accounts."""
    return edges.filter(pa.array([key not in accounts for key in edges["l"].to_pylist()]))


def also(edges: pa.Table, account: str, items: list[int]) -> pa.Table:
    more = pa.table({"l": pa.array([account] * len(items)), "r": pa.array(items, pa.int64())})
    return pa.concat_tables([edges, more])


def ring_of(row: dict[str, Any], members: list[dict[str, Any]]) -> str:
    """Return the ring whose accounts are in the group, such as ``ring 0``."""
    return next(each["key"] for each in members if each["group_key"] == row["group_key"]).split(" <")[0]


def told(result: RunResult) -> dict[str, tuple[str | None, str]]:
    """Return the status and the case of each ring."""
    members = rows(result.run_dir, "group_members")
    return {ring_of(row, members): (row["since"], row["case"]) for row in rows(result.run_dir, "groups")}


def comparison(result: RunResult) -> Any:
    return result.manifest.derived_comparison["groups"]


def test_a_ring_over_some_days(tmp_path: Path) -> None:
    def publish(edges: pa.Table, **sections: Any) -> RunResult:
        return run(settings(tmp_path, **sections), edges)

    first = publish(EDGES)
    assert {since for since, _ in told(first).values()} == {None}
    assert comparison(first).run_id is None
    cases = {ring: case for ring, (_, case) in told(first).items()}
    assert set(cases) == {"ring 0", "ring 1"}
    again = publish(EDGES)
    assert told(again) == {ring: ("same", case) for ring, case in cases.items()}
    assert (comparison(again).counts, comparison(again).n_same) == ({}, 2)
    grown = publish(also(EDGES, "newcomer", [-200 - v for v in range(6)]))
    assert told(grown) == {"newcomer": ("grown", cases["ring 1"]), "ring 0": ("same", cases["ring 0"])}
    shrunk = publish(without(EDGES, "ring 1 <0>", "ring 1 <5>"))
    assert told(shrunk)["ring 1"] == ("shrunk", cases["ring 1"])
    gone = publish(without(EDGES, *(f"ring 1 <{u}>" for u in range(6))))
    # Without the second ring, one account of the first no longer pays for its name.
    assert told(gone) == {"ring 0": ("shrunk", cases["ring 0"])}
    assert comparison(gone).counts == {"shrunk": 1, "gone": 1}
    (of_gone,) = comparison(gone).largest
    assert (of_gone.status, of_gone.n_left, of_gone.n_right) == ("gone", 4, 6)
    assert set(of_gone.left) == {f"ring 1 <{u}>" for u in range(1, 5)}
    page = (gone.run_dir / "report.html").read_text()
    assert "Gone since the last run: 1 group" in page
    assert "<bdi>ring 1 &lt;3&gt;</bdi>" in page
    back = publish(EDGES)
    assert told(back)["ring 1"][0] == "new"
    # It has the members with which the case began.
    assert told(back)["ring 1"][1] == cases["ring 1"]
    for result in (first, again, grown, shrunk, gone, back):
        verify_run(result.run_dir)


def by_definition(old: Groups, new: Groups) -> tuple[dict[int, str], set[int]]:
    """Return each group's status since the old run, and the old groups that are gone, by sets of left members."""

    def similarity(left: frozenset[str], other: frozenset[str]) -> float:
        found = len(left & other) / len(left | other)
        return found if found >= (0.25 if other <= left else 0.5) else 0.0

    words = {}
    for key, (left, n_edges) in new.items():
        best, row = max(((similarity(left, of), -row) for row, (of, _) in enumerate(old.values())), default=(0.0, 0))
        if key in old:
            words[key] = "same"
        elif best == 0:
            words[key] = "new"
        else:
            other, n_before = list(old.values())[-row]
            if left > other or (left == other and n_edges > n_before):
                words[key] = "grown"
            elif left < other or (left == other and n_edges < n_before):
                words[key] = "shrunk"
            else:
                words[key] = "changed"
    lefts = [left for left, _ in new.values()]
    gone = {key for key, (left, _) in old.items() if all(similarity(one, left) == 0 for one in lefts)}
    return words, gone


@pytest.mark.parametrize("kind", ["short_list", "both"])
def test_statuses_follow_the_left_members(tmp_path: Path, kind: str) -> None:
    seen: set[str | None] = set()
    section = {"kind": kind, "max_overlap": 0.9}
    for seed in range(6):
        dice = random.Random(seed)
        rings = ((3 + seed, 5), (6, 3 + seed), (4, 4), (5, 5))
        before = planted(seed, rings)
        kept = [dice.random() < (0.93 if seed % 2 else 0.8) for _ in range(before.num_rows)]
        after = without(before.filter(pa.array(kept)), "ring 3 <0>")
        for ring in (0, 1):
            after = also(after, f"late {ring}", [-100 * (ring + 1) - v for v in range(rings[ring][1])])
        made = [run(settings(tmp_path / f"{kind}{seed}", "cpu", groups=section), edges) for edges in (before, after)]
        wanted, gone = by_definition(*(groups_of(each.run_dir) for each in made))
        assert {row["group_key"]: row["since"] for row in rows(made[1].run_dir, "groups")} == wanted
        assert comparison(made[1]).counts.get("gone", 0) == len(gone)
        assert {one.biclique_key for one in comparison(made[1]).largest} == gone
        seen |= set(wanted.values())
        verify_run(made[1].run_dir)
    assert {"grown", "shrunk"} <= seen


def groups_of(run_dir: Path) -> Groups:
    lefts: dict[int, set[str]] = {}
    for row in rows(run_dir, "group_members"):
        if row["side"] == "left":
            lefts.setdefault(row["group_key"], set()).add(row["key"])
    n_edges = {row["group_key"]: row["n_edges"] for row in rows(run_dir, "groups")}
    return {key: (frozenset(left), n_edges[key]) for key, left in lefts.items()}


@pytest.mark.parametrize("at_once", [1, 7, 1 << 22])
def test_statuses_equal_their_definition_for_any_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """Groups that no graph has, and members with equal names on both sides."""
    monkeypatch.setattr(overlaps, "PAIRS_AT_ONCE", at_once)
    dice = random.Random(11)
    seen: set[str] = set()
    for trial in range(60):
        both: list[Groups] = []
        pool = [frozenset(str(u) for u in dice.sample(range(14), dice.randint(1, 6))) for _ in range(9)]
        for _ in range(2):
            lefts = [
                left ^ {str(dice.randrange(14))} or left if dice.random() < 0.5 else left
                for left in dice.sample(pool, dice.randint(0, 8))
            ]
            sized = [(left, len(left) * dice.randint(1, 2)) for left in lefts]
            both.append({hash((of, dice.randrange(2))) % 2**60: of for of in sized})
        tables = [read_as_run(tmp_path / f"{trial}-{at}", dice, groups) for at, groups in enumerate(both)]
        found = since_last(*tables)
        wanted, gone = by_definition(*both)
        # A key always stands for the same members.
        assert dict(zip(tables[1].keys.tolist(), found.words, strict=True)) == wanted
        assert {int(tables[0].keys[row]) for row in found.gone} == gone
        seen |= set(wanted.values())
    assert seen == {"new", "grown", "shrunk", "changed", "same"}


def read_as_run(path: Path, dice: random.Random, groups: Groups) -> GroupRows:
    """Groups as read from a run's tables: left members in any order, right members with the same names."""
    path.mkdir()
    members = [
        {"group_key": key, "side": side, "key": name}
        for key, (left, _) in groups.items()
        for side, names in (("left", left), ("right", [str(dice.randrange(14))]))
        for name in dice.sample(sorted(names), len(names))
    ]
    schema = pa.schema([("group_key", pa.int64()), ("side", pa.string()), ("key", pa.string())])
    pq.write_table(pa.Table.from_pylist(members, schema), path / "group_members.parquet")
    columns = {
        "group_key": pa.array(list(groups), pa.int64()),
        "is_muted": pa.array([False] * len(groups), pa.bool_()),
        "n_left": pa.array([len(left) for left, _ in groups.values()], pa.int32()),
        "n_edges": pa.array([n for _, n in groups.values()], pa.int64()),
    }
    pq.write_table(pa.table(columns), path / "groups.parquet")
    return read_group_rows(path)


def test_other_items_and_buckets_make_no_group_new(tmp_path: Path) -> None:
    """Each week the same accounts act together on that week's items, so the runs share no right key."""
    dice = random.Random(4)
    week = 7 * 86_400
    noise = [(f"u{dice.randrange(30)}", dice.randrange(30), dice.randrange(4 * week)) for _ in range(200)]
    made = []
    for number in range(1, 4):
        ring = [(f"ring {u}", 1000 * number + v, number * week + 60 * v) for u in range(6) for v in range(5)]
        columns = zip(*[*noise, *ring], strict=True)
        edges = pa.table(dict(zip(("l", "r", "t"), map(list, columns), strict=True)))
        asked = {"left": "l", "right": "r", "timestamp": "t", "time_bucket": "7d"}
        made.append(run(settings(tmp_path, input=asked), edges))
    of_rings = []
    for result in made:
        lefts = groups_of(result.run_dir)
        since = {row["group_key"]: (row["since"], row["case"]) for row in rows(result.run_dir, "groups")}
        (key,) = [key for key, (left, _) in lefts.items() if "ring 0" in left]
        of_rings.append(since[key])
    assert [word for word, _ in of_rings] == [None, "changed", "changed"]
    assert len({case for _, case in of_rings}) == 1


def test_groups_of_an_incomplete_run_are_not_called_new(tmp_path: Path) -> None:
    limited = {"engine": "reference", "max_bicliques": 100}
    whole = run(settings(tmp_path, execution=limited), EDGES)
    assert whole.manifest.truncated is None
    many = planted(1, ((8, 5), (6, 6), (20, 12)))
    for u in range(12):
        many = also(many, f"busy {u}", dice_items(u))
    cut = run(settings(tmp_path, execution=limited), many)
    assert cut.manifest.truncated is not None
    assert {row["since"] for row in rows(cut.run_dir, "groups")} <= {None}
    assert "new and lost groups are unknown" in comparison(cut).remarks[0]
    assert comparison(cut).n_same is None
    # The incomplete run is not the last complete one.
    after = run(settings(tmp_path, execution=limited), EDGES)
    assert comparison(after).run_id == whole.run_dir.name
    assert {row["since"] for row in rows(after.run_dir, "groups")} == {"same"}


def dice_items(seed: int) -> list[int]:
    return random.Random(seed).sample(range(30), 14)


def test_members_are_read_only_of_shown_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = settings(tmp_path, groups=SHORT)
    run(config, without(EDGES, *(f"ring 1 <{u}>" for u in range(6))))
    run_dir = run(config, EDGES).run_dir
    both = PUBLICATION.largest(run_dir, 20)
    # New groups come first, whatever their rank.
    assert [row["since"] for row in both] == ["new", "same"]
    asked: list[int] = []
    whole = listed_groups.with_members
    monkeypatch.setattr(listed_groups, "with_members", lambda path, rows: asked.append(len(rows)) or whole(path, rows))
    assert PUBLICATION.largest(run_dir, 1) == both[:1]
    assert asked == [1]
    assert PUBLICATION.largest(run_dir, 0) == []


def test_without_a_comparison_nothing_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(settings(tmp_path), EDGES)
    never = run(settings(tmp_path, output={"directory": str(tmp_path), "compare": 0}), EDGES)
    assert never.manifest.derived_comparison == {}
    assert {row["since"] for row in rows(never.run_dir, "groups")} == {None}
    # Another query, too many groups, and other columns.
    other = run(settings(tmp_path, groups={"max_overlap": 0.3}), EDGES)
    assert comparison(other).run_id is None
    few = run(
        settings(tmp_path, output={"directory": str(tmp_path), "compare": 1}),
        without(EDGES, "ring 1 <0>", "ring 0 <1>"),
    )
    assert "more groups differ than output.compare" in comparison(few).remarks[0]
    assert {row["since"] for row in rows(few.run_dir, "groups")} == {None}

    swapped = run(settings(tmp_path, input={"left": 1, "right": 0}), EDGES)
    assert "the columns differ" in comparison(swapped).remarks[0]
    assert {row["since"] for row in rows(swapped.run_dir, "groups")} == {None}

    def refuse(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(completing, "since_last", refuse)
    lost = run(settings(tmp_path, input={"left": 1, "right": 0}), without(EDGES, "ring 1 <0>"))
    assert comparison(lost).remarks == ("the two could not be compared: out of memory",)
    for result in (first, never, other, swapped, few, lost):
        verify_run(result.run_dir)


def test_a_damaged_earlier_run_does_not_fail_a_run(tmp_path: Path) -> None:
    first = run(settings(tmp_path), EDGES)
    path = first.run_dir / "group_members.parquet"
    path.write_bytes(bytes(path.stat().st_size))
    second = run(settings(tmp_path), EDGES)
    assert "could not be compared" in comparison(second).remarks[0]
    assert {row["since"] for row in rows(second.run_dir, "groups")} == {None}


def test_muted_groups_are_not_reported_as_new(tmp_path: Path) -> None:
    allow = write(tmp_path / "a.parquet", [("left", f"ring 1 <{u}>", None) for u in range(6)])
    calm = {"allow": allow, **SHORT}
    # The list is not part of the query, so a run without it can be compared.
    run(settings(tmp_path / "o", groups=SHORT), without(EDGES, *(f"ring 1 <{u}>" for u in range(6))))
    second = run(settings(tmp_path / "o", groups=calm), EDGES)
    assert told(second)["ring 1"][0] == "new"
    assert (comparison(second).counts, comparison(second).n_same) == ({}, 1)
    page = (second.run_dir / "report.html").read_text()
    assert "1 muted group: all members of one side are known good, or the case is labelled fine" in page
    assert "nothing differs; 1 unchanged" in page
    third = run(settings(tmp_path / "o", groups=calm), without(EDGES, *(f"ring 1 <{u}>" for u in range(6))))
    assert comparison(third).counts == {}


def test_forged_statuses_are_found(tmp_path: Path) -> None:
    result = run(settings(tmp_path), EDGES)
    edit(result.run_dir, lambda values: values.update(comparison=None))
    edit(result.run_dir, lambda values: values["config"]["output"].update(compare=0))
    with pytest.raises(VerificationError, match=r"derived_comparison is set, but output\.compare of its config is 0"):
        verify_run(result.run_dir)


def test_without_a_comparison_the_section_is_empty() -> None:
    assert since_section(None) == ""
