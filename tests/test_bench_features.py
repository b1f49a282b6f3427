"""Features of the benchmark that compares account classifiers with and without our columns."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections import Counter

import numpy as np
import pytest

from benchmarks.groups.features import Compared, account_features, our_columns, table_of, value_entropies
from benchmarks.groups.labelled import Events
from benchmarks.groups.metrics import Estimate

N = 30


def events(seed: int = 2) -> Events:
    """Return rows of accounts; the last account has none."""
    dice = random.Random(seed)
    found = [
        (u, dice.randrange(12), dice.randrange(1, 4), dice.randrange(40 * 86_400))
        for u in range(N - 1)
        for _ in range(u % 5 + 1)
    ]
    found += [(u, v, 5, dice.randrange(86_400)) for u in range(8) for v in range(12, 18)]
    left, right, weights, times = (np.array(column) for column in zip(*found, strict=True))
    labels = np.arange(N) % 2
    return Events("toy", left, right, weights.astype(np.float64), times, 86_400, labels)


def test_features_are_what_plain_python_counts() -> None:
    given = events()
    found = account_features(given)
    columns = (given.left, given.right, given.weights, given.times)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    degrees = Counter(v for _, v in {(u, v) for u, v, _, _ in rows})
    for u in range(N):
        own = [row for row in rows if row[0] == u]
        assert found["rows"][u] == len(own)
        assert found["degree"][u] == len({v for _, v, _, _ in own})
        assert found["item_entropy"][u] == pytest.approx(entropy([v for _, v, _, _ in own]))
        assert found["amount_entropy"][u] == pytest.approx(entropy([w for _, _, w, _ in own]))
        assert found["active_days"][u] == len({t // 86_400 for *_, t in own})
        if not own:
            assert math.isnan(found["amount_median"][u])
            continue
        amounts = [w for _, _, w, _ in own]
        assert found["amount_median"][u] == statistics.median_low(amounts)
        assert found["amount_mean"][u] == pytest.approx(statistics.fmean(amounts))
        assert found["amount_deviation"][u] == pytest.approx(statistics.pstdev(amounts))
        assert found["amount_total"][u] == pytest.approx(sum(amounts))
        assert found["item_degree_greatest"][u] == max(degrees[v] for v in {v for _, v, _, _ in own})
        times = sorted(t for *_, t in own)
        gaps = [(b - a) / 86_400 for a, b in itertools.pairwise(times)]
        if gaps:
            assert found["gap_greatest"][u] == pytest.approx(max(gaps))
        else:
            assert math.isnan(found["gap_greatest"][u])


def entropy(values: list[float]) -> float:
    counts = Counter(values).values()
    return -sum(count / len(values) * math.log(count / len(values)) for count in counts)


def test_entropy_of_one_value_is_zero() -> None:
    assert value_entropies(np.array([0, 0, 2]), np.array([5.0, 5.0, 1.0]), 3).tolist() == [0, 0, 0]


def test_our_columns_carry_no_label() -> None:
    found = our_columns(events())
    assert {len(column) for column in found.values()} == {N}
    assert {"score", "grown_surprise", "group_surprise", "group_busiest_share"} <= set(found)
    assert not {name for name in found if "known" in name or "association" in name or "label" in name}
    assert np.isnan(found["score"][N - 1])
    assert np.isfinite(found["group_surprise"][:8]).all()


def test_times_that_count_from_another_moment_are_read() -> None:
    assert table_of(events())["time"].to_numpy().min() >= 10**8


def test_a_win_is_an_interval_above_zero() -> None:
    def verdict(low: float, high: float) -> str:
        return Compared("toy", 2, 1, {}, Estimate((low + high) / 2, low, high), 0.0).verdict

    assert [verdict(0.1, 0.2), verdict(-0.1, 0.2), verdict(-0.2, -0.1)] == ["WIN", "even", "LOSS"]
