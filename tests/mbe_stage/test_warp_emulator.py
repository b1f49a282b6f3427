"""The emulator refuses code that would hang a GPU or give garbage there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

warp_emulator = pytest.importorskip("tests.mbe_stage.warp_emulator", reason="greenlet, of the group dev, is missing")
fake = warp_emulator.FakeCuda()


def _vote(value: bool) -> int:
    return fake.ballot_sync(0xFFFFFFFF, value)


def in_one_place(out: np.ndarray) -> None:
    out[fake.laneid] = _vote(fake.laneid < 16)


def in_two_branches(out: np.ndarray) -> None:
    if fake.laneid < 16:
        out[fake.laneid] = fake.ballot_sync(0xFFFFFFFF, True)
    else:
        out[fake.laneid] = fake.ballot_sync(0xFFFFFFFF, False)


def in_a_function_called_from_two_branches(out: np.ndarray) -> None:
    if fake.laneid < 16:
        out[fake.laneid] = _vote(True)
    else:
        out[fake.laneid] = _vote(False)


def in_two_operations(out: np.ndarray) -> None:
    out[fake.laneid] = fake.all_sync(0xFFFFFFFF, True) if fake.laneid else fake.any_sync(0xFFFFFFFF, True)


def by_some_lanes_only(out: np.ndarray) -> None:
    if fake.laneid:
        out[fake.laneid] = _vote(True)


def launch(kernel: Callable[[np.ndarray], None]) -> np.ndarray:
    out = np.zeros(32, np.uint32)
    warp_emulator.launch(kernel, 1, 1, (out,))
    return out


def test_lanes_meet_in_one_place() -> None:
    assert launch(in_one_place).tolist() == [0xFFFF] * 32


@pytest.mark.parametrize(
    "kernel", [in_two_branches, in_a_function_called_from_two_branches, in_two_operations, by_some_lanes_only]
)
def test_lanes_that_wait_at_different_places_are_refused(kernel: Callable[[np.ndarray], None]) -> None:
    with pytest.raises(warp_emulator.Diverged):
        launch(kernel)
