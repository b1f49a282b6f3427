"""Known cases, known good and cases: figures by definition, muting and refusals; labels do not change the ranking."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from fractions import Fraction
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbe_stage.groups.members import GroupMembers
from mbe_stage.pipeline import regroup, run
from mbe_stage.pipeline.errors import InputError, VerificationError
from mbe_stage.pipeline.problems.groups.association import associations, known_shares
from mbe_stage.pipeline.problems.groups.cases import case_ids, case_numbers, inherited_ids, members_of_cases
from mbe_stage.pipeline.problems.groups.known import Known
from mbe_stage.pipeline.problems.groups.known_keys import read_lists
from mbe_stage.pipeline.problems.groups.section import GroupsSection
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.publish.run_store import RunStore
from mbe_stage.pipeline.verify import verify_run
from tests.pipeline.groups_support import EDGES, planted, rows, settings, tables
from tests.pipeline.test_groups_verify import changed
from tests.pipeline.test_problem_seam import edit, forge, mbe, refusal, said

N_LEFT, N_RIGHT = 30, 20
KEYS = pa.array([f"u{u}" for u in range(N_LEFT)]), pa.array(range(N_RIGHT), pa.int64())


def dice_groups(dice: random.Random, n: int) -> list[tuple[list[int], list[int]]]:
    return [
        (
            sorted(dice.sample(range(N_LEFT), dice.randint(1, 9))),
            sorted(dice.sample(range(N_RIGHT), dice.randint(1, 5))),
        )
        for _ in range(n)
    ]


def write(path: Path, listed: list[tuple[str, str, str | None]]) -> str:
    """Write a list of keys with side and class, without a class column if every class is None; return its path."""
    columns = {"key": [key for _, key, _ in listed], "side": [side for side, _, _ in listed]}
    if any(name is not None for _, _, name in listed):
        columns["class"] = [name for _, _, name in listed]
    pq.write_table(pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()}), path)
    return str(path)


def dice_labels(dice: random.Random, kinds: tuple[int, int]) -> list[tuple[str, str, str]]:
    """Random labels per side: none (0), known cases only (1), or known cases and others (2); plus some unknown keys."""
    listed = [("left", "nobody", "1"), ("right", "u1", "0")]
    for side, keys, kind in zip(("left", "right"), KEYS, kinds, strict=True):
        listed += [
            (side, str(key), "spam" if kind == 1 or dice.random() < 0.5 else dice.choice(["0", "Good"]))
            for key in dice.sample(keys.to_pylist(), kind and dice.randint(3, 15))
        ]
    dice.shuffle(listed)
    return listed


def known_of(path: str, **asked: Any) -> Known:
    section = GroupsSection(**{"labels": path, **asked})
    return Known.of(read_lists(section), KEYS)


def counted_sides(
    listed: list[tuple[str, str, str]],
) -> list[tuple[set[int], set[int], set[int]]]:
    """Return for each side the labelled vertices, the known cases, and the vertices among which these are counted."""
    found = []
    for side, keys in zip(("left", "right"), KEYS, strict=True):
        places = {str(key): place for place, key in enumerate(keys.to_pylist())}
        classes = {places[key]: name for of_side, key, name in listed if of_side == side and key in places}
        cases = {vertex for vertex, name in classes.items() if name == "spam"}
        found.append((set(classes), cases, set(classes) if cases != set(classes) else set(places.values())))
        if not classes:
            found[-1] = (set(), set(), set())
    return found


# --- figures ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", [(2, 0), (1, 0), (0, 2), (2, 2), (1, 2), (1, 1), (0, 0)])
def test_known_cases_are_counted_and_their_chance_is_exact(tmp_path: Path, kinds: tuple[int, int]) -> None:
    """Chances equal binomial coefficients in exact fractions; figures of each vertex are checked too."""
    dice = random.Random(sum(kinds) + 7 * kinds[0])
    for seed in range(6):
        listed = dice_labels(dice, kinds)
        groups = dice_groups(dice, 8)
        known = known_of(write(tmp_path / f"{seed}.parquet", listed))
        assert known.labels is not None
        members = GroupMembers.of(groups)
        shares = known_shares(members, known.labels)
        sides = counted_sides(listed)
        figures = []
        for row, group in enumerate(groups):
            chances = [Fraction(1)]
            n_known = n_drawn = 0
            for vertices, (_, cases, counted) in zip(group, sides, strict=True):
                known_here, drawn = len(cases & set(vertices)), len(counted & set(vertices))
                n_known, n_drawn = n_known + known_here, n_drawn + drawn
                ways = [
                    Fraction(
                        comb(len(cases), k) * comb(len(counted) - len(cases), drawn - k) if k <= drawn else 0,
                        comb(len(counted), drawn),
                    )
                    for k in range(len(cases) + 1)
                ]
                both = [Fraction(0)] * (len(chances) + len(ways))
                for i, one in enumerate(chances):
                    for k, other in enumerate(ways):
                        both[i + k] += one * other
                chances = both
            figures.append((n_known, n_drawn))
            assert (shares.n_known[row], shares.n_drawn[row]) == (n_known, n_drawn)
            assert shares.p_values[row] == pytest.approx(float(sum(chances[n_known:])), rel=1e-9)
        is_muted = np.array([dice.random() < 0.2 for _ in groups])
        told = associations(members, is_muted, shares, known.labels).to_pylist()
        n_counted = sum(len(counted) for _, _, counted in sides)
        base = sum(len(cases) for _, cases, _ in sides) / n_counted if n_counted else None
        for place, value in enumerate(told):
            side, vertex = divmod(place, N_LEFT) if place < N_LEFT else (1, place - N_LEFT)
            labelled, _, counted = sides[side]
            if vertex in labelled or base is None:
                assert value is None
                continue
            near = [
                (n_known + base) / (n_drawn - (vertex in counted) + 1)
                for group, (n_known, n_drawn), muted in zip(groups, figures, is_muted, strict=True)
                if vertex in group[side] and not muted
            ]
            assert value == pytest.approx(max(near, default=base))


def classes(path: Path, names: Sequence[str | None], **asked: Any) -> dict[str, str]:
    """Return how each class of a list is taken; the first class is that of key u0, and so on."""
    listed = [("left", f"u{row}", name) for row, name in enumerate(names)]
    section = GroupsSection(**{"labels": write(path / "l.parquet", listed), **asked})
    return {each.name: each.taken for each in read_lists(section)["labels"].classes}


@pytest.mark.parametrize(
    ("asked", "taken"),
    [
        ({}, ("negative", "positive", "negative", "negative", "ignored", "negative")),
        ({"negative": ["honest"]}, ("negative", "positive", "positive", "positive", "ignored", "positive")),
        ({"negative": [0, "HONEST"]}, ("negative", "positive", "negative", "positive", "ignored", "positive")),
        ({"positive": ["spam"]}, ("negative", "positive", "negative", "negative", "ignored", "negative")),
        ({"positive": [0, "Unknown"]}, ("negative", "negative", "positive", "negative", "positive", "negative")),
        (
            {"positive": ["spam"], "negative": ["non_fraud"]},
            ("ignored", "positive", "ignored", "ignored", "ignored", "negative"),
        ),
    ],
)
def test_classes_are_taken_as_the_user_or_their_names_say(tmp_path: Path, asked: Any, taken: tuple[str, ...]) -> None:
    names = ("Honest", "spam", "0", " TRUSTED ", "unknown", "Non-Fraud")
    assert classes(tmp_path, names, **asked) == dict(zip(names, taken, strict=True))
    labels = known_of(str(tmp_path / "l.parquet"), **asked).labels
    assert labels is not None
    assert np.flatnonzero(labels[0].is_positive).tolist() == [i for i, how in enumerate(taken) if how == "positive"]
    assert np.flatnonzero(labels[0].is_drawn).tolist() == [i for i, how in enumerate(taken) if how != "ignored"]
    assert [int(u) for u in np.flatnonzero(~labels[0].is_unknown)] == np.flatnonzero(labels[0].is_drawn).tolist()


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        (("ring leader", "0"), ["'ring leader': it is unclear"]),
        (("A", "B"), ["'A', 'B': it is unclear"]),
        # Some data sets mark the fakes with -1 and the others with 1.
        (("-1", "1"), ["'-1', '1': it is unclear"]),
        (("0", "1", "2", "fraud"), ["'0', '1', '2': it is unclear"]),
        (("spam", "fraud"), ["'fraud', 'spam': no class is clearly one of other cases"]),
        (("spam", "unknown"), ["no class is clearly one"]),
        (("1",), ["'1': no class is clearly one"]),
    ],
)
def test_unclear_classes_are_refused(tmp_path: Path, names: tuple[str, ...], parts: list[str]) -> None:
    """The refusal names the classes and both settings; following each remedy reads the list."""
    with pytest.raises(InputError) as found:
        classes(tmp_path, names)
    message = str(found.value)
    for part in (*parts, "groups.negative", "groups.positive", "column 'class'", str(tmp_path)):
        assert part in message
    assert "\n" not in message
    assert found.value.settings
    ways = []
    for each in found.value.settings:
        asked = {key.removeprefix("groups."): value for key, value in each.items()}
        ways.append(classes(tmp_path, names, **asked))
    for name in names:
        # Some remedy says whatever the user meant.
        assert len({way[name] for way in ways}) == 2 or name not in parts[0] or "no class" in parts[0]


def test_remedies_keep_recognised_classes(tmp_path: Path) -> None:
    with pytest.raises(InputError) as found:
        classes(tmp_path, ("legit", "mule", "partner"))
    taken = [
        classes(tmp_path, ("legit", "mule", "partner"), **{k.removeprefix("groups."): v for k, v in each.items()})
        for each in found.value.settings
    ]
    assert {each["legit"] for each in taken} == {"negative"}
    assert {each["mule"] for each in taken} == {"positive"}
    assert {each["partner"] for each in taken} == {"positive", "negative"}


@pytest.mark.parametrize("how", ["positive", "negative"])
def test_a_mistyped_class_is_refused(tmp_path: Path, how: str) -> None:
    with pytest.raises(InputError, match=f"none of the classes named by groups.{how}.*did you mean 'Trusted'"):
        classes(tmp_path, ("Trusted", "spam"), **{how: ["trsuted"]})
    with pytest.raises(ValueError, match=r"both name 'spam'"):
        GroupsSection(positive=["spam"], negative=["Spam"])


def test_a_list_without_classes_is_of_known_cases(tmp_path: Path) -> None:
    assert classes(tmp_path, (None, None)) == {"positive": "positive"}
    assert classes(tmp_path, (None,), negative=["0", "no"]) == {"positive": "positive"}
    with pytest.raises(InputError, match=r"none of the classes named by groups.positive"):
        classes(tmp_path, (None,), positive=["fraud"])
    with pytest.raises(InputError, match=r"1,001 classes; expected at most 1,000"):
        classes(tmp_path, [str(n) for n in range(1001)], positive=["7"])


def test_classes_are_shown_on_the_screen_in_the_report_and_in_the_manifest(tmp_path: Path) -> None:
    pq.write_table(EDGES, tmp_path / "edges.parquet")
    names = ["fraud", "fraud", "trusted", "unknown"]
    write(tmp_path / "l.parquet", [("left", f"ring 0 <{u}>", name) for u, name in enumerate(names)])
    asked = ("groups", tmp_path / "edges.parquet", "--out", tmp_path / "o", "--engine", "reference", "--quiet")
    shown = mbe(*asked, "--labels", tmp_path / "l.parquet").stdout
    assert "labels     'fraud' positive (2), 'trusted' negative (1), 'unknown' ignored (1)\n" in shown
    run_dir = RunStore(tmp_path / "o").latest()
    assert run_dir is not None
    assert "fraud&#39; positive (2)" in (run_dir / "report.html").read_text()
    facts = read_manifest(run_dir).derived_inputs["groups"]["labels"]
    assert [(each.name, each.taken, each.keys) for each in facts.classes] == [
        ("fraud", "positive", 2),
        ("trusted", "negative", 1),
        ("unknown", "ignored", 1),
    ]
    assert {row["label"] for row in rows(run_dir, "group_members")} == {None, "fraud", "trusted"}
    verify_run(run_dir)
    told = said(*asked, "--labels", tmp_path / "l.parquet", "--positive", "trusted")
    assert told["derived_inputs"]["groups"]["labels"]["classes"][1] == {
        "name": "trusted",
        "taken": "positive",
        "keys": 1,
    }
    verify_run(told["run"])
    edit(Path(told["run"]), _take_otherwise)
    with pytest.raises(VerificationError, match=r"labels\.classes is"):
        verify_run(told["run"])


def test_the_explicit_default_equals_the_default(tmp_path: Path) -> None:
    """Configurations copied from ours list the seven words."""
    words = ["0", "false", "no", "negative", "normal", "good", "benign"]
    assert classes(tmp_path, ("trusted", "fraud"), negative=words) == {"trusted": "negative", "fraud": "positive"}


def _take_otherwise(values: Any) -> None:
    values["derived_inputs"]["groups"]["labels"]["classes"][0]["taken"] = "positive"


def test_the_refusal_names_the_options_of_the_command(tmp_path: Path) -> None:
    pq.write_table(EDGES, tmp_path / "edges.parquet")
    labels = write(tmp_path / "l.parquet", [("left", "u01", "vip"), ("left", "u02", "fraud")])
    asked = (tmp_path / "edges.parquet", "--out", tmp_path / "o", "--quiet")
    assert "with --positive, or the other classes with --negative" in refusal(
        "groups", *asked, "--labels", labels, code=2
    )
    assert "with --groups-positive, or the other classes with --groups-negative" in refusal(
        "enumerate", *asked, "--groups-labels", labels, code=2
    )
    assert not (tmp_path / "o").exists()


def test_a_group_is_muted_if_one_side_is_all_known_good(tmp_path: Path) -> None:
    allowed = write(
        tmp_path / "a.parquet",
        [("left", "u1", None), ("left", "u2", None), ("right", "3", None), ("right", "u4", None)],
    )
    section = GroupsSection(allow=allowed)
    known = Known.of(read_lists(section), KEYS)
    groups = [([1], [0, 1]), ([1, 2], [0]), ([1, 2, 3], [0]), ([4, 5], [3]), ([4], [3, 4]), ([3], [1])]
    assert known.is_muted(GroupMembers.of(groups)).tolist() == [True, True, False, True, False, False]
    assert known.labels is None


# --- cases --------------------------------------------------------------------------------------------------------


def cases_by_definition(groups: list[tuple[list[int], set[tuple[int, int]]]], is_muted: list[bool]) -> list[int]:
    """Compute cases with sets: the first case whose head shares half of the smaller group's left members and edges."""
    heads: list[int] = []
    cases = []
    for row, (left, edges) in enumerate(groups):
        for case, head in enumerate(heads):
            smaller = min((row, head), key=lambda each: (len(groups[each][0]), len(groups[each][1])))
            common = set(left) & set(groups[head][0]), edges & groups[head][1]
            if (
                is_muted[row] == is_muted[head]
                and 2 * len(common[0]) >= len(groups[smaller][0])
                and 2 * len(common[1]) >= len(groups[smaller][1])
            ):
                cases.append(case)
                break
        else:
            cases.append(len(heads))
            heads.append(row)
    return cases


def test_cases_are_groups_that_overlap_their_head_by_half() -> None:
    dice = random.Random(3)
    sizes = []
    for _ in range(200):
        sides = [
            (sorted(dice.sample(range(9), dice.randint(1, 6))), sorted(dice.sample(range(5), dice.randint(1, 4))))
            for _ in range(dice.randint(0, 12))
        ]
        groups = [
            (left, {(u, v) for u in left for v in right if dice.random() < 0.8 or (u, v) == (left[0], right[0])})
            for left, right in sides
        ]
        is_muted = [dice.random() < 0.3 for _ in groups]
        edges = [np.unique(np.array([100 * u + v for u, v in of], np.int64)) for _, of in groups]
        found = case_numbers(GroupMembers.of(sides), edges, np.array(is_muted, np.bool_))
        assert found.tolist() == cases_by_definition(groups, is_muted)
        sizes.append(len(groups) - len(set(found.tolist())))
    assert max(sizes) >= 4


def test_one_popular_account_and_chains_connect_no_cases() -> None:
    popular = [([0, *range(10 * k, 10 * k + 5)], [k]) for k in range(1, 6)]
    chain = [(list(range(k, k + 4)), [9]) for k in range(100, 120, 2)]
    for groups in (popular, chain):
        edges = [np.array([1000 * u + v for u in left for v in right]) for left, right in groups]
        numbers = case_numbers(GroupMembers.of(groups), edges, np.zeros(len(groups), np.bool_)).tolist()
        # In a chain, each group shares half with the next one and with no other.
        assert numbers == (list(range(5)) if groups is popular else [0, 0, 1, 1, 2, 2, 3, 3, 4, 4])


def test_a_case_keeps_its_id_while_most_of_it_is_there() -> None:
    before = [np.array(range(10), np.uint64), np.array(range(20, 24), np.uint64), np.array([50], np.uint64)]
    names = ["ten", "four", "one"]

    def kept(*members: list[int]) -> dict[int, str]:
        return inherited_ids([np.array(each, np.uint64) for each in members], before, names)

    assert kept([0, 1, 2, 3, 4, 5]) == {0: "ten"}
    # Half is not a majority; of two parts, the larger one keeps the id.
    assert kept([0, 1, 2, 3, 4], [5, 6, 7, 8, 9]) == {}
    assert kept([0, 1, 2], [3, 4, 5, 6, 7, 8, 9]) == {1: "ten"}
    # If two cases merge, the one with more of its members there keeps its id.
    assert kept([*range(10), *range(20, 24)]) == {0: "ten"}
    assert kept([*range(6), *range(20, 24), 50]) == {0: "ten"}
    # Growth does not matter.
    assert kept(list(range(20, 400)), [50, 500, 501]) == {0: "four", 1: "one"}
    assert kept() == {}


def test_ids_depend_on_the_members_and_are_unique() -> None:
    hashes = np.arange(100, 110, dtype=np.uint64)
    members = members_of_cases(np.array([0, 1, 0]), np.array([0, 0, 1, 2]), hashes[[3, 1, 5, 1]])
    assert [each.tolist() for each in members] == [[101, 103], [105]]
    first = case_ids(members)
    assert first == case_ids(members)
    assert len(set(first)) == 2
    assert all(len(name) == 16 for name in first)
    # A case has the id that another would get.
    other = case_ids(members, {1: first[0]})
    assert other[1] == first[0]
    assert other[0] not in first
    # Muted and other groups may have the same members.
    assert len(set(case_ids([members[0], members[0], members[0]]))) == 3


# --- runs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["both", "short_list"])
def test_labels_and_allow_in_a_run(tmp_path: Path, kind: str) -> None:
    labels = write(
        tmp_path / "l.parquet",
        [*(("left", f"ring 0 <{u}>", "spam") for u in range(5)), ("left", "u01", "good"), ("left", "gone", "spam")],
    )
    allow = write(tmp_path / "a.parquet", [("left", f"ring 1 <{u}>", None) for u in range(6)])
    plain = run(settings(tmp_path / "a", "cpu", groups={"kind": kind}), EDGES)
    told = run(settings(tmp_path / "b", "cpu", groups={"kind": kind, "labels": labels}), EDGES)
    # Labels change neither the ranking nor the groups.
    mine = {"n_known", "known_share", "known_p_value"}
    of_plain, of_told = (
        [{name: value for name, value in row.items() if name not in mine} for row in rows(each.run_dir, "groups")]
        for each in (plain, told)
    )
    assert of_plain == of_told
    assert {row["n_known"] for row in rows(plain.run_dir, "groups")} == {None}
    assert {row["label"] for row in rows(told.run_dir, "group_members")} == {None, "spam"}
    assert told.manifest.config_fingerprint == plain.manifest.config_fingerprint
    muted = run(settings(tmp_path / "c", "cpu", groups={"kind": kind, "allow": allow, "limit": 1}), EDGES)
    listed = rows(muted.run_dir, "groups")
    heard = [row for row in listed if not row["is_muted"]]
    assert len(heard) == 1
    assert heard[-1] == listed[-1]
    assert muted.manifest.derived["groups"]["muted"] == len(listed) - 1
    assert [row["group_key"] for row in listed] == [row["group_key"] for row in of_plain][: len(listed)]
    for each in (told, muted):
        assert {"groups", "cases", "vertex scores"} <= {check.name for check in verify_run(each.run_dir).checks}


def test_writing_and_checking_labels_agree_on_random_graphs(tmp_path: Path) -> None:
    n_muted = 0
    for seed in range(6):
        dice = random.Random(seed)
        source = planted(seed, ((3 + seed, 5), (6, 3 + seed // 2), (4, 4)))
        left, right = (sorted(set(column.to_pylist())) for column in source.columns)
        labels = write(
            tmp_path / f"{seed}-l.parquet",
            [
                *(("left", key, dice.choice(["1", "0"])) for key in dice.sample(left, 12)),
                *(("right", str(key), "1") for key in dice.sample(right, 5 * (seed % 2))),
                ("left", "nobody", "1"),
            ],
        )
        allow = write(tmp_path / f"{seed}-a.parquet", [("left", key, None) for key in left if key.startswith("ring 1")])
        section = {"labels": labels, "allow": allow, "limit": (1, 100)[seed % 2]}
        output = {"directory": str(tmp_path / str(seed)), "report": False}
        made = run(settings(tmp_path, groups=section, output=output), source)
        verify_run(made.run_dir)
        n_muted += made.manifest.derived["groups"]["muted"]
    assert n_muted >= 3


def test_keys_that_are_not_in_the_graph_are_counted_and_named(tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("key,side,class\n" + "".join(f"<b>{i},right,1\n" for i in range(7)) + "u01,left,0\n")
    result = run(settings(tmp_path / "o", groups={"labels": str(labels)}), EDGES)
    facts = result.manifest.derived_inputs["groups"]["labels"]
    assert (facts.rows, facts.n_not_in_graph) == (8, 7)
    assert facts.not_in_graph == tuple(f"right '<b>{i}'" for i in range(5))
    assert result.manifest.warnings == ()
    page = (result.run_dir / "report.html").read_text()
    assert "7 of 8 keys are not vertices of this graph" in page
    assert "&lt;b&gt;4" in page
    assert "<b>4" not in page
    assert read_manifest(result.run_dir) == result.manifest
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("key,side\nu01,right\n")
    (warning,) = run(settings(tmp_path / "o", groups={"allow": str(wrong)}), EDGES).manifest.warnings
    assert "groups.allow: none of the 1 keys is a vertex of this graph" in warning


def test_a_run_is_unchanged_only_if_the_lists_are(tmp_path: Path) -> None:
    edges, labels = tmp_path / "edges.parquet", tmp_path / "labels.csv"
    pq.write_table(EDGES, edges)

    def check(unchanged: bool, *more: object) -> None:
        options = ("--groups-labels", labels, "--engine", "reference", "--if-changed", "--quiet", *more)
        told = said("enumerate", edges, "--out", tmp_path / "o", *options, code=5 if unchanged else 0)
        assert told["unchanged"] is unchanged

    labels.write_text("key,class\nu01,1\nu02,0\n")
    check(False)
    check(True)
    labels.write_text("class\tside\tkey\n0\tleft\tu02\n1\tleft\tu01\n")
    check(True)
    labels.write_text("key,class\nu01,0\nu02,1\n")
    check(False)
    check(False, "--groups-allow", labels)
    check(True, "--groups-allow", labels)
    check(False, "--groups-negative", "1")


def test_groups_of_a_published_run_take_lists_too(tmp_path: Path) -> None:
    made = run(settings(tmp_path / "o"), EDGES)
    edges = tmp_path / "edges.parquet"
    pq.write_table(EDGES, edges)
    labels = write(
        tmp_path / "l.parquet", [("left", f"ring 0 <{u}>", "spam") for u in range(3)] + [("left", "u01", "0")]
    )
    again = regroup(made.run_dir, {"groups": {"labels": labels}, "input": {"path": str(edges)}})
    assert sum(row["n_known"] for row in rows(again.run_dir, "groups")) >= 2
    assert again.manifest.derived_inputs["groups"]["labels"].rows == 4
    # The same accounts keep their cases.
    assert [row["case"] for row in rows(again.run_dir, "groups")] == [
        row["case"] for row in rows(made.run_dir, "groups")
    ]
    with pytest.raises(InputError, match="no such file"):
        regroup(made.run_dir, {"groups": {"labels": "nowhere.csv"}, "input": {"path": str(edges)}})
    assert len(RunStore(tmp_path / "o").runs()) == 2


REFUSED = [
    ("account,class\nu1,1\n", "no column 'key' for --groups-labels; its columns are 'account', 'class'"),
    ("key,class\nu1,1\nu2,\n", "labels.csv, line 3, column 'class': nothing"),
    ("key,class\n,1\n", "line 2, column 'key': nothing"),
    ("key,side\nu1,middle\n", "line 2, column 'side': 'middle' in the line 'u1, middle'; expected left or right"),
    (
        "key,class\nu1,1\nu2,1\nu1,0\n",
        "line 4, column 'class': '0' for the left key 'u1', which is '1' in a row before",
    ),
    ("key,class\nu1,1,1\n", "line 2: 3 fields"),
    ("key,key\nu1,1\n", "2 columns are named 'key'"),
    ("", "an empty file; expected a table for --groups-labels"),
    (None, "labels.csv: no such file; expected a table for --groups-labels: CSV, TSV or Parquet"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_lists_that_cannot_be_used_are_refused_before_anything_is_read(
    tmp_path: Path, text: str | None, message: str
) -> None:
    labels = tmp_path / "labels.csv"
    if text is not None:
        labels.write_text(text)
    # There are no edges, which would be the next error.
    line = refusal("enumerate", tmp_path / "no.csv", "--out", tmp_path / "o", "--groups-labels", labels, code=2)
    assert message in line
    assert not (tmp_path / "o").exists()


# --- forged -------------------------------------------------------------------------------------------------------

FORGED = [
    ("groups", changed("n_known", lambda n: n + 1), "n_known is"),
    ("groups", changed("n_known", lambda _: None), "n_known is None"),
    ("groups", changed("known_share", lambda share: share / 2), "known_share is"),
    ("groups", changed("known_p_value", lambda p: p * 0.99), "known_p_value is"),
    ("groups", changed("is_muted", lambda muted: not muted), "is_muted is"),
    ("groups", changed("case", lambda case: case[::-1]), "recomputed|overlap"),
    ("groups", changed("since", lambda _: "new"), "names no earlier run"),
    ("groups", changed("since", lambda _: "better"), "since is 'better'"),
    ("group_members", changed("label", lambda _: "other"), "label is 'other'"),
    ("group_members", changed("label", lambda _: None), "label is None"),
    ("vertex_scores", changed("association", lambda x: x / 2, row=20), "association is"),
    ("vertex_scores", changed("association", lambda _: None, row=20), "association must be null exactly for"),
    ("vertex_scores", changed("association", lambda _: 0.5, row=0), "association must be null exactly for"),
    ("known_keys", changed("vertex", lambda v: v + 1), "vertex is"),
    ("known_keys", changed("class", lambda _: "0"), "fingerprint is"),
    ("known_keys", changed("list", lambda _: "allow"), "not a row of a given list"),
    ("known_keys", lambda table: [table[1], table[0], *table[2:]], "out of order"),
    ("known_keys", lambda table: table[1:], "rows is"),
]


@pytest.fixture(scope="module")
def known_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with both lists; its first group has known cases, and vertex 0 has a label."""
    place = tmp_path_factory.mktemp("known")
    labels = [*((("left", f"ring {ring} <{u}>", "1")) for ring in (0, 1) for u in range(4)), ("left", "u05", "0")]
    allow = [("left", f"ring 1 <{u}>", None) for u in range(6)]
    section = {"labels": write(place / "l.parquet", labels), "allow": write(place / "a.parquet", allow)}
    return run(settings(place / "o", groups=section), EDGES).run_dir


@pytest.fixture
def copied(known_run: Path, tmp_path: Path) -> Path:
    for path in known_run.rglob("*"):
        if path.is_file():
            copy = tmp_path / path.relative_to(known_run)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    verify_run(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("table", "change", "message"), FORGED)
def test_forged_tables_are_found(copied: Path, table: str, change: Any, message: str) -> None:
    forge(copied, f"{table}.parquet", change)
    with pytest.raises(VerificationError, match=message):
        verify_run(copied)


@pytest.mark.parametrize(
    ("field", "value"), [("rows", 3), ("n_not_in_graph", 3), ("not_in_graph", ["left 'x'"]), ("source", "elsewhere")]
)
def test_forged_facts_of_the_lists_are_found(copied: Path, field: str, value: Any) -> None:
    edit(copied, lambda values: values["derived_inputs"]["groups"]["labels"].update({field: value}))
    with pytest.raises(VerificationError, match=rf"derived_inputs\.groups\.labels\.{field} is"):
        verify_run(copied)


def test_lists_that_the_configuration_does_not_name_are_found(copied: Path) -> None:
    edit(copied, lambda values: values["config"]["groups"].update(labels=None))
    with pytest.raises(VerificationError, match="not a row of a given list"):
        verify_run(copied)


def test_without_lists_the_columns_are_null(tmp_path: Path) -> None:
    run_dir = run(settings(tmp_path), EDGES).run_dir
    found = tables(run_dir)
    nulls = {"groups": ("since", "n_known", "known_share", "known_p_value"), "group_members": ("label",)}
    nulls["vertex_scores"] = ("association",)
    for name, columns in nulls.items():
        for column in columns:
            assert found[name][column].null_count == found[name].num_rows > 0
    assert not any(found["groups"]["is_muted"].to_pylist())
    assert not (run_dir / "known_keys.parquet").exists()
    assert "derived_inputs" in json.loads((run_dir / "manifest.json").read_text())
