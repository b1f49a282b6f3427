"""Two runs compared: equal to the quadratic reference on random runs, and right where the answer is known."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.diff import PAIRED, diff_runs, search
from tests.diff_reference import statuses
from tests.diff_support import Group, group, keyed, make_run


def found(old: Path, new: Path, **options) -> tuple[dict[int, tuple], set[int]]:
    """What `diff_runs` says, as the reference says it."""
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


def sides(most: int):
    return st.frozensets(st.integers(0, most), min_size=1, max_size=most + 1)


def runs(most_left: int, most_right: int, most_groups: int):
    one = st.tuples(sides(most_left), sides(most_right))
    return st.lists(one, max_size=most_groups, unique=True)


@settings(max_examples=300)
@given(runs(3, 3, 12), runs(3, 3, 12))
def test_small_runs_equal_the_reference(old: list[Group], new: list[Group]) -> None:
    assert_equal_to_the_reference(old, new)


@settings(max_examples=150)
@given(runs(9, 7, 25), runs(9, 7, 25))
def test_wide_runs_equal_the_reference(old: list[Group], new: list[Group]) -> None:
    assert_equal_to_the_reference(old, new)


def random_groups(dice: random.Random, n: int, n_vertices: int, most: int) -> list[Group]:
    return list({group(*(dice.sample(range(n_vertices), dice.randint(1, most)) for _ in range(2))) for _ in range(n)})


def mutated(dice: random.Random, groups: list[Group], n_vertices: int) -> list[Group]:
    """Most groups with a few vertices exchanged, as another day has them; some vertices are new."""
    result = set()
    for one in groups:
        sides = [set(side) for side in one]
        for side in sides:
            for _ in range(dice.randint(0, 2)):
                side.symmetric_difference_update({dice.randrange(n_vertices + 3)})
        if all(sides):
            result.add(group(*sides))
    return sorted(result, key=repr)


@pytest.mark.parametrize("seed", range(6))
def test_changed_runs_equal_the_reference(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In stretches and blocks of a few rows, so that everything is put together from pieces."""
    monkeypatch.setattr(search, "_INDEXED", 300)
    monkeypatch.setattr(search, "_COMPARED", 70)
    monkeypatch.setattr(search, "_FEWEST_BLOCK_ROWS", 7)
    monkeypatch.setattr(search, "_POSTING", 0)
    dice = random.Random(seed)
    old = random_groups(dice, 250, 30, 8)
    assert_equal_to_the_reference(old, mutated(dice, old, 30))
