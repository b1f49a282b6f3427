"""Replace `mbe_stage.device.warp` functions of several lane meetings by ones of a single meeting, to save time.

As a script, compares them with the originals on random and extreme values, and prints the number of agreements.
"""

from __future__ import annotations

import itertools
import json
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from greenlet import getcurrent

from tests.mbe_stage import warp_emulator
from tests.mbe_stage.warp_emulator import Met, meet, of_all

__all__ = ["IN_ONE", "install_emulator"]

_BITS = [1 << lane for lane in range(32)]


def _up_to_each(name: str, kind: Any) -> Callable[[Any], Any]:
    """Return a function that gives every lane the prefix sum up to and including it."""

    def function(value: Any) -> Any:
        met = meet(name, kind(value))
        if met.common is None:
            met.common = list(itertools.accumulate(met))
        return met.common[getcurrent().lane]

    return function


def _owner_of(position: Any, ends: Any) -> Any:
    met = meet("owner_of", ends)
    low = 0
    for step in (16, 8, 4, 2, 1):
        if position >= met[low + step - 1]:
            low += step
    return np.int32(low)


def _with_bits(met: Met) -> Any:
    return np.uint32(sum(itertools.compress(_BITS, met)))


def _of_lane(word: Any, lane: Any) -> Any:
    return meet("shfl", np.uint32(word))[int(lane) % 32]


def _across(word: Any, bits: Any) -> Any:
    met = meet("shfl_xor", np.uint32(word))
    return met[getcurrent().lane ^ bits]


IN_ONE: dict[str, Callable] = {
    "sum_all": of_all("sum_all", np.int64, lambda met: sum(met, np.int64(0))),
    "inclusive_sum": _up_to_each("inclusive_sum", np.int32),
    "inclusive_sum_64": _up_to_each("inclusive_sum_64", np.int64),
    "owner_of": _owner_of,
    "ballot": of_all("ballot", bool, _with_bits),
    "shuffle_word": _of_lane,
    "shuffle_xor": _across,
}
# Their arguments besides the value.
_PLACES = {"shuffle_word": range(32), "shuffle_xor": (1, 2, 4, 8, 16)}


def install_emulator() -> None:
    """Install the emulator and these functions; call it before importing modules that use `warp`."""
    warp_emulator.install()
    from mbe_stage.device import warp

    for name, function in IN_ONE.items():
        setattr(warp, name, function)


def values(name: str, chance: np.random.Generator) -> list[Any]:
    """Return one value per lane: small, large, and the extremes of the type."""
    words = dict.fromkeys(("shuffle_word", "shuffle_xor"), np.uint32)
    kind = (words | {"sum_all": np.int64, "inclusive_sum_64": np.int64}).get(name, np.int32)
    ends = np.iinfo(kind)
    spread = (0, 40) if chance.random() < 0.4 else (ends.min, ends.max)
    drawn = chance.integers(*spread, 32, dtype=kind, endpoint=True)
    return list(np.sort(drawn) if name == "owner_of" and chance.random() < 0.8 else drawn)


def same_as(original: Callable, name: str, chance: np.random.Generator) -> bool:
    """Return whether all lanes get the same value and type from both."""
    brought = values(name, chance)
    positions = chance.permutation(brought) if name == "owner_of" else None
    place = [chance.choice(_PLACES[name])] if name in _PLACES else []
    found: list[list[Any]] = []
    for function in (original, IN_ONE[name]):
        answers: list[Any] = [None] * 32

        def kernel(function: Callable = function, answers: list[Any] = answers) -> None:
            lane = getcurrent().lane
            given = (brought[lane], *place) if positions is None else (positions[lane], brought[lane])
            answers[lane] = function(*given)

        warp_emulator.launch(kernel, 1, 1, ())
        found.append(answers)
    return found[0] == found[1] and [type(one) for one in found[0]] == [type(one) for one in found[1]]


def main() -> None:
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    warp_emulator.install()
    from mbe_stage.device import warp

    chance = np.random.default_rng(1)
    same: Counter = Counter()
    for name, _ in itertools.product(IN_ONE, range(40)):
        same[name] += same_as(getattr(warp, name), name, chance)
    print(json.dumps(same))


if __name__ == "__main__":
    main()
