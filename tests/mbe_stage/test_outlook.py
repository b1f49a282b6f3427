"""Outlook of a running search: expected results, share found, seconds left."""

from __future__ import annotations

import itertools
from math import exp, log

import pytest

from mbe_stage.forecast import Forecast, Outlook, seconds_left

HUGE = 2**1100


def heard(*outlooks: Outlook, most: int | None = None) -> Forecast:
    forecast = Forecast(most)
    for outlook in outlooks:
        forecast.hear(outlook)
    return forecast


def test_an_unknown_outlook_is_not_shown() -> None:
    forecast = heard()
    assert forecast.expected(5) is None
    forecast.hear(Outlook.unknown())
    assert forecast.expected(5) == Outlook(5, 5, None)
    assert forecast.share(5) is None
    forecast.hear(None)
    assert forecast.expected(5) is None
    assert forecast.share(5) is None
    assert seconds_left(None, 10.0) is None
    assert seconds_left(0.0, 10.0) is None


@pytest.mark.parametrize("outlook", [Outlook(100, 400, None), Outlook(100, 200, 401), Outlook(0, 0, 0)], ids=repr)
def test_an_open_or_wide_interval_gives_no_share(outlook: Outlook) -> None:
    forecast = heard(outlook)
    assert forecast.share(50) is None
    assert forecast.expected(50) == outlook.at_least(50)


def test_a_narrow_interval_gives_a_share_and_seconds() -> None:
    forecast = heard(Outlook(950, 1000, 1060))
    share = forecast.share(250)
    assert share == pytest.approx(0.25, rel=1e-6)
    assert seconds_left(share, 60.0) == pytest.approx(180.0, rel=1e-5)
    assert forecast.share(0) == 0.0


@pytest.mark.parametrize("scale", [1, HUGE], ids=["1", "2**1100"])
@pytest.mark.parametrize("high", [1050, 1300, 2000, 4000])
def test_the_share_rises_and_stays_below_1(high: int, scale: int) -> None:
    forecast = heard(Outlook(1000 * scale, (1000 + high) // 2 * scale, high * scale))
    shares = [forecast.share(n * scale) for n in range(0, high + 1, 10)]
    known = [share for share in shares if share is not None]
    assert len(known) == len(shares)
    assert all(earlier <= later for earlier, later in itertools.pairwise(known))
    assert known[-1] < 1
    # More are missing than the few hundredths that are left of the interval.
    assert heard(Outlook(1000, 2000, 4000)).share(3900) < 0.95


def test_more_results_than_expected_is_shown_as_unknown() -> None:
    forecast = heard(Outlook(95, 100, 106))
    assert forecast.share(107) is None
    assert forecast.expected(107) == Outlook(107, 107, None)
    forecast.hear(Outlook(190, 200, 210))
    assert forecast.share(107) == pytest.approx(107 / 200, rel=1e-3)


def test_a_known_number_gives_the_exact_share() -> None:
    forecast = heard(Outlook.exactly(200))
    assert [forecast.share(n) for n in (50, 100)] == pytest.approx([0.25, 0.5])
    assert forecast.share(200) == 0.999


def test_the_share_falls_slowly_to_a_lower_estimate() -> None:
    forecast = heard(Outlook(700, 1000, 1500))
    last = forecast.share(100)
    assert last is not None
    for k in range(40):
        forecast.hear(Outlook(900 + k, 2000, 3000 + k))
        share = forecast.share(100)
        assert share is not None
        assert 0.95 * last <= share <= last * (1 + 1e-12)
        # Repeating it changes nothing.
        assert forecast.share(100) == share
        last = share
    assert last == pytest.approx(0.05, rel=1e-3)


def test_a_doubled_expectation_halves_the_share() -> None:
    forecast = heard(Outlook(900, 1000, 1150), Outlook(1800, 2000, 2300))
    assert forecast.share(300) == pytest.approx(0.15, rel=1e-3)


def test_a_lower_expectation_is_accepted_at_once() -> None:
    forecast = heard(Outlook(1800, 2000, 2300), Outlook(900, 1000, 1150))
    assert forecast.share(300) == pytest.approx(0.3, rel=1e-3)


def test_an_interval_that_opens_again_removes_the_share() -> None:
    forecast = heard(Outlook(900, 1000, 1150), Outlook(500, 3000, None))
    assert forecast.share(300) is None
    assert forecast.expected(300) == Outlook(500, 3000, None)
    # The next sufficient one is accepted like the first.
    forecast.hear(Outlook(2800, 3000, 3300))
    assert forecast.share(300) == pytest.approx(0.1, rel=1e-3)


def test_a_limit_on_results_caps_the_expectation() -> None:
    forecast = heard(Outlook(10**9, 10**10, None), most=1000)
    assert forecast.expected(10) == Outlook.exactly(1000)
    assert heard(Outlook.unknown(), most=1000).expected(10) == Outlook(10, 10, 1000)
    assert heard(Outlook.unknown(), most=1000).share(10) is None
    assert forecast.share(250) == pytest.approx(0.25)
    between = heard(Outlook(800, 1000, 1300), most=1000)
    assert between.expected(10) == Outlook(800, 1000, 1000)
    assert heard(Outlook(800, 850, 900), most=1000).expected(10) == Outlook(800, 850, 900)


def test_a_limit_does_not_close_an_open_interval() -> None:
    forecast = heard(Outlook(300, 350, None), most=1000)
    assert forecast.share(100) is None
    assert forecast.expected(100) == Outlook(300, 350, 1000)
    forecast.hear(Outlook(1000, 1200, None))
    assert forecast.share(100) == pytest.approx(0.1)


def test_shares_are_right_on_the_average() -> None:
    """If the interval is right, the expectation is the mean of the remaining possibilities."""
    scatter = 0.2
    truths = [exp(log(10**9) + scatter * z / 50) for z in range(-150, 151)]
    weights = [exp(-0.5 * (z / 50) ** 2) for z in range(-150, 151)]
    low, high = (round(exp(log(10**9) + 2 * sign * scatter)) for sign in (-1, 1))
    forecast = heard(Outlook(low, 10**9, high))
    for found in (1e8, 8e8, 1e9, 1.2e9):
        later = [(log(truth), weight) for truth, weight in zip(truths, weights, strict=True) if truth > found]
        mean = sum(x * weight for x, weight in later) / sum(weight for _, weight in later)
        share = forecast.share(round(found))
        assert share is not None
        assert log(share) == pytest.approx(log(found) - mean, abs=0.005)
