"""Comparison of two runs: equal to the quadratic reference on random runs, and correct in known cases."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.views.diff import (
    PAIRED,
    compile_steps,
    diff_runs,
    kernels,
    keys,
    largest_differences,
    partners,
    prefixes,
    rows,
    search,
)
from tests.pipeline.diff_reference import statuses
from tests.pipeline.diff_support import Group, group, keyed, make_run


def found(old: Path, new: Path, **options) -> tuple[dict[int, tuple], set[int]]:
    """Return the result of `diff_runs` in the form of the reference."""
    diff = diff_runs(old, new, threads=2, **options)
    assert diff.pairs is not None
    pairs, new_keys, old_keys = diff.pairs, diff.only_new.keys.tolist(), diff.only_old.keys.tolist()
    fresh = {
        key: ("new", None, None)
        if partner < 0
        else (PAIRED[pairs.kind[at] - 1], old_keys[partner], pytest.approx(pairs.jaccard[at]))
        for at, (key, partner) in enumerate(zip(new_keys, pairs.partner_of_new.tolist(), strict=True))
    }
    for at, partner in enumerate(pairs.partner_of_gone.tolist()):
        assert partner < 0 or pairs.partner_of_new[partner] == at
    return fresh, {key for key, partner in zip(old_keys, pairs.partner_of_gone.tolist(), strict=True) if partner < 0}


def assert_equal_to_the_reference(old: list[Group], new: list[Group], **options) -> None:
    with TemporaryDirectory() as directory:
        runs = make_run(Path(directory) / "old", old), make_run(Path(directory) / "new", new)
        fresh, gone = found(*runs, **options)
    expected, expected_gone = statuses(keyed(old), keyed(new))
    assert (fresh, gone) == (expected, expected_gone)


def test_only_announced_functions_are_compiled(tmp_path: Path) -> None:
    """`mbe compile` and the step before a comparison compile everything; no call uses other types."""
    old, new = mixed_runs(tmp_path)
    found(old, new)
    found(old, new, search_limit=200)
    functions = [f for module in (kernels, prefixes) for f in vars(module).values()]
    functions += [keys._only_in_first, keys._positions, rows._translated]
    announced = {step.what.rpartition(".")[2] for step in compile_steps()}
    compiled = {f.py_func.__name__: f for f in functions if hasattr(f, "py_func") and f.py_func.__name__ in announced}
    assert set(compiled) == announced
    assert {name: len(f.signatures) for name, f in compiled.items()} == dict.fromkeys(announced, 1)


def mixed_runs(directory: Path) -> tuple[Path, Path]:
    dice = random.Random(1)
    old = random_groups(dice, 60, 20, 6)
    return make_run(directory / "old", old), make_run(directory / "new", mutated(dice, old, 20))


def sides(most: int):
    return st.frozensets(st.integers(0, most), min_size=1, max_size=most + 1)


def runs(most_left: int, most_right: int, most_groups: int):
    one = st.tuples(sides(most_left), sides(most_right))
    return st.lists(one, max_size=most_groups, unique=True)


@settings(max_examples=200)
@given(runs(3, 3, 12), runs(3, 3, 12))
def test_small_runs_equal_the_reference(old: list[Group], new: list[Group]) -> None:
    assert_equal_to_the_reference(old, new)


@settings(max_examples=100)
@given(runs(9, 7, 25), runs(9, 7, 25))
def test_wide_runs_equal_the_reference(old: list[Group], new: list[Group]) -> None:
    assert_equal_to_the_reference(old, new)


def random_groups(dice: random.Random, n: int, n_vertices: int, most: int) -> list[Group]:
    return list({group(*(dice.sample(range(n_vertices), dice.randint(1, most)) for _ in range(2))) for _ in range(n)})


def mutated(dice: random.Random, groups: list[Group], n_vertices: int) -> list[Group]:
    """Exchange a few vertices of most groups, some for new ones, as another day's input would."""
    result = set()
    for one in groups:
        sides = [set(side) for side in one]
        for side in sides:
            for _ in range(dice.randint(0, 2)):
                side.symmetric_difference_update({dice.randrange(n_vertices + 3)})
        if all(sides):
            result.add(group(*sides))
    return sorted(result, key=repr)


@pytest.mark.parametrize("seed", range(3))
def test_changed_runs_equal_the_reference(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces have a few rows, so that every result is put together from several."""
    monkeypatch.setattr(search, "_INDEXED", 300)
    monkeypatch.setattr(search, "_COMPARED", 70)
    monkeypatch.setattr(search, "_FEWEST_BLOCK_ROWS", 7)
    monkeypatch.setattr(search, "_POSTING", 0)
    dice = random.Random(seed)
    old = random_groups(dice, 250, 30, 8)
    assert_equal_to_the_reference(old, mutated(dice, old, 30))


@pytest.mark.parametrize("seed", range(3))
def test_a_bounded_search_finds_every_pair_of_its_level(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing all pairs is too much; rare members find every pair with a Jaccard of at least 0.5 or 0.7."""
    dice = random.Random(seed)
    old = random_groups(dice, 150, 25, 7)
    new = mutated(dice, old, 25)
    least = (0.5, 0.7, 0.5)[seed]
    monkeypatch.setattr(partners, "_LEVELS", (least,))
    monkeypatch.setattr(partners, "_PAIR_COST", 0)
    with TemporaryDirectory() as directory:
        runs = make_run(Path(directory) / "old", old), make_run(Path(directory) / "new", new)
        diff = diff_runs(*runs, search_limit=0, threads=2)
        fresh, gone = found(*runs, search_limit=0)
    assert diff.pairs is not None
    assert diff.pairs.searched_from == least
    assert (fresh, gone) == statuses(keyed(old), keyed(new), Fraction(least).limit_denominator(10))


def test_without_any_work_groups_that_differ_by_one_member_are_paired(tmp_path: Path) -> None:
    # The search at 0.7 is free, since no two groups share a prefix there.
    old = make_run(tmp_path / "old", [group("ab", "x"), group("cd", "yz")])
    new = make_run(tmp_path / "new", [group("abc", "x"), group("cde", "yzw")])
    diff = diff_runs(old, new, search_limit=0)
    assert diff.pairs is not None
    assert (diff.counts["grown"], diff.counts["new"], diff.pairs.searched_from) == (1, 1, 0.7)


KNOWN = {
    "more on the left": ("grown", group("ab", "xy"), group("abc", "xy")),
    "contained on one side, met on the other": ("grown", group("ab", "xy"), group("abcdefgh", "xz")),
    "less on the right": ("shrunk", group("ab", "xyz"), group("ab", "xy")),
    "wider here, narrower there, larger": ("grown", group("ab", "xyz"), group("abcd", "xy")),
    "wider here, narrower there, smaller": ("shrunk", group("ab", "wxyz"), group("abc", "x")),
    "one exchanged, half in common": ("changed", group("ab", "xy"), group("ac", "xy")),
    "half of all in common, on one side only": ("changed", group("abcd", "x"), group("abcde", "yz")),
    "less than half in common": (None, group("abc", "xyz"), group("abd", "uvw")),
    "contained on one side, not met on the other": (None, group("ab", "xy"), group("abcde", "uv")),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_differences(tmp_path: Path, name: str) -> None:
    status, before, after = KNOWN[name]
    fresh, gone = found(make_run(tmp_path / "old", [before]), make_run(tmp_path / "new", [after]))
    assert [value[0] for value in fresh.values()] == [status or "new"]
    assert len(gone) == (status is None)


def test_of_two_groups_that_became_one_the_more_similar_is_its_partner(tmp_path: Path) -> None:
    old = make_run(tmp_path / "old", [group("ab", "x"), group("abcde", "xy"), group("z", "q")])
    new = make_run(tmp_path / "new", [group("abcdef", "xy"), group("z", "q")])
    diff = diff_runs(old, new)
    assert {status: n for status, n in diff.counts.items() if n} == {"grown": 1, "gone": 1}
    grown, gone = largest_differences(diff, 5, ["grown"]), largest_differences(diff, 5, ["gone"])
    assert (grown[0].biclique.left, grown[0].partner and grown[0].partner.left) == (tuple("abcdef"), tuple("abcde"))
    assert (grown[0].jaccard, gone[0].biclique.left) == (pytest.approx(7 / 8), ("a", "b"))
    assert (diff.n_old, diff.n_new, diff.n_same) == (3, 2, 1)


def test_equal_runs_do_not_differ_and_are_not_read(tmp_path: Path) -> None:
    old = make_run(tmp_path / "old", [group("ab", "x")])
    new = make_run(tmp_path / "new", [group("ab", "x")], extra=("c", "y"))
    for part in (old / "bicliques").iterdir():
        part.write_bytes(b"")
    assert not diff_runs(old, new).differ


@pytest.mark.parametrize(
    ("old", "new", "remark", "counts"),
    [
        ({}, {"config": {"query": {"min_left": 2}}}, "query.min_left was 1 and is 2", ("only_in_new", "only_in_old")),
        (
            {"config": {"input": {"left": "a"}}},
            {"config": {"input": {"left": "b"}}},
            "the columns differ: input.left was 'a' and is 'b'",
            ("only_in_new", "only_in_old"),
        ),
        (
            {},
            {"config": {"input": {"left": 2}}},
            "the columns differ: input.left was 0 and is 2",
            ("only_in_new", "only_in_old"),
        ),
        (
            {"config": {"input": {"timestamp": 2}}},
            {},
            "the columns differ: input.timestamp was 2 and is null",
            ("only_in_new", "only_in_old"),
        ),
        ({}, {"truncated": "stopped after 1 s"}, "the NEW run is incomplete: it stopped", ("new", "only_in_old")),
        (
            {"truncated": "stopped after 1 s"},
            {},
            "the OLD run is incomplete: it stopped",
            ("only_in_new", "only_in_old"),
        ),
    ],
)
def test_uncertain_differences_are_not_called_gone_or_new(
    tmp_path: Path, old: dict, new: dict, remark: str, counts: tuple[str, str]
) -> None:
    runs = [
        make_run(tmp_path / name, groups, **options)
        for name, groups, options in (("old", [group("ab", "xy")], old), ("new", [group("abc", "xy")], new))
    ]
    diff = diff_runs(*runs)
    assert remark in diff.comparability.remarks[0]
    assert {status: n for status, n in diff.counts.items() if n} == dict.fromkeys(counts, 1)
    assert {one.status for one in largest_differences(diff, 3)} == set(counts)


@pytest.mark.parametrize(("before", "after"), [(0, "account"), ("account", "0"), (0, "0")])
def test_unknown_columns_by_position_and_by_name_are_compared_with_a_remark(
    tmp_path: Path, before: object, after: object
) -> None:
    """Manifests of earlier versions do not state columns."""
    old = make_run(tmp_path / "old", [group("ab", "x")], config={"input": {"left": before}})
    new = make_run(tmp_path / "new", [group("cd", "y")], config={"input": {"left": after}})
    diff = diff_runs(old, new)
    assert f"input.left was {before!r} and is {after!r}" in " ".join(diff.comparability.remarks)
    assert "differ" not in " ".join(diff.comparability.remarks)
    assert {status: n for status, n in diff.counts.items() if n} == {"new": 1, "gone": 1}


Column = tuple[str, int, str | None]


def remarks_on(tmp_path: Path, before: tuple[Any, list[Column]], after: tuple[Any, list[Column]]) -> tuple[str, ...]:
    """Return the remarks on two runs whose `input.right` meant these columns."""
    runs = []
    for name, (setting, columns) in (("old", before), ("new", after)):
        config = {"input": {"right": setting}}
        runs.append(make_run(tmp_path / name, [group(name, "x")], config=config, input_columns=columns))
    diff = diff_runs(*runs)
    # Differences are called new and gone only if the columns are the same.
    are_same = not any("the columns differ" in remark for remark in diff.comparability.remarks)
    assert diff.comparability.knows_gone == diff.comparability.knows_new == are_same
    return diff.comparability.remarks


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1, [("right", 1, "shop")]), ("shop", [("right", 1, "shop")])),
        # The file now has one more column.
        ((1, [("right", 1, "shop")]), ("shop", [("right", 2, "shop")])),
        (("shop", [("right", 2, "shop")]), (1, [("right", 1, "shop")])),
        ((1, [("right", 1, "shop")]), ("1", [("right", 1, "shop")])),
        (("shop", [("right", 1, "shop")]), (["shop"], [("right", 1, "shop")])),
        # If one file has no names, positions decide.
        ((1, [("right", 1, None)]), ("shop", [("right", 1, "shop")])),
        (
            ([1, 3], [("right", 1, "shop"), ("right", 3, "stars")]),
            (["shop", "stars"], [("right", 2, "shop"), ("right", 1, "stars")]),
        ),
        # The same name needs no remark.
        (("shop", [("right", 1, "shop")]), ("shop", [("right", 2, "shop")])),
        # The name that stands for a position in a file without names.
        (("right", [("right", 1, None)]), ("right", [("right", 4, "right")])),
    ],
)
def test_one_column_by_position_and_by_name_needs_no_remark(
    tmp_path: Path, before: tuple[Any, list[Column]], after: tuple[Any, list[Column]]
) -> None:
    assert remarks_on(tmp_path, before, after) == ()


@pytest.mark.parametrize(
    ("before", "after", "remark"),
    [
        (
            (1, [("right", 1, "shop")]),
            ("item", [("right", 1, "item")]),
            "the columns differ: input.right was 1 (column 1, 'shop') and is 'item' (column 1, 'item')",
        ),
        (
            (1, [("right", 1, None)]),
            ("item", [("right", 2, "item")]),
            "the columns differ: input.right was 1 (column 1) and is 'item' (column 2, 'item')",
        ),
        (
            ([1, 2], [("right", 1, "shop"), ("right", 2, "stars")]),
            (["shop", "item"], [("right", 1, "shop"), ("right", 3, "item")]),
            "the columns differ: input.right was [1, 2] (column 1, 'shop'; column 2, 'stars') and is ['shop', 'item'] "
            "(column 1, 'shop'; column 3, 'item')",
        ),
    ],
)
def test_another_column_by_position_or_by_name_is_another_query(
    tmp_path: Path, before: tuple[Any, list[Column]], after: tuple[Any, list[Column]], remark: str
) -> None:
    assert remarks_on(tmp_path, before, after) == (remark,)


def test_a_renamed_column_is_compared_with_a_remark(tmp_path: Path) -> None:
    said = remarks_on(tmp_path, (1, [("right", 1, "shop")]), (1, [("right", 1, "item")]))
    assert said == ("input.right is 1 in both runs, but means column 'shop' in OLD and column 'item' in NEW",)


def test_unstated_columns_are_compared_as_the_same(tmp_path: Path) -> None:
    said = remarks_on(tmp_path, (1, []), ("shop", [("right", 2, "shop")]))
    assert said == ("input.right was 1 and is 'shop', which may be one column: compared as the same",)


def test_other_key_types_are_compared_with_a_remark(tmp_path: Path) -> None:
    old = make_run(tmp_path / "old", [group([1, 2], "x"), group([5], "y")])
    new = make_run(tmp_path / "new", [group(["1", "2"], "x"), group(["7"], "y")])
    diff = diff_runs(old, new)
    assert "the types of the left keys differ: int64 in OLD, string in NEW" in diff.comparability.remarks[0]
    # Keys are compared as text, so the first group is the same.
    assert {status: n for status, n in diff.counts.items() if n} == {"only_in_new": 1, "only_in_old": 1}


def test_a_moved_time_window_is_compared_with_a_remark(tmp_path: Path) -> None:
    window = {"input": {"timestamp": 2, "time_from": "2026-11-21"}}
    moved = {"input": {"timestamp": 2, "time_from": "2026-11-22"}}
    old = make_run(tmp_path / "old", [group("ab", "x")], config=window)
    new = make_run(tmp_path / "new", [group("abc", "x")], config=moved)
    diff = diff_runs(old, new)
    assert "OLD read from 2026-11-21, NEW from 2026-11-22" in diff.comparability.remarks[0]
    assert diff.counts["grown"] == 1


def test_too_much_that_differs_is_counted_only(tmp_path: Path) -> None:
    old, new = make_run(tmp_path / "old", [group("ab", "x")]), make_run(tmp_path / "new", [group("abc", "x")])
    diff = diff_runs(old, new, most_differing=1)
    assert (diff.pairs, diff.counts["new"], diff.counts["gone"]) == (None, 1, 1)


def test_latest_is_that_of_the_other_run(tmp_path: Path) -> None:
    first = make_run(tmp_path / "out" / "runs" / "1", [group("ab", "x")])
    second = make_run(tmp_path / "out" / "runs" / "2", [group("abc", "x")])
    (tmp_path / "out" / "latest").symlink_to("runs/2")
    assert diff_runs(first, "latest").new.samefile(second)
    assert diff_runs("latest", first).old.samefile(second)
    with pytest.raises(PublishError, match="latest: given for both"):
        diff_runs("latest", "latest")
