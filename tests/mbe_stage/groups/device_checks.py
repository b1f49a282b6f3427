"""Compare the candidate sink of a device with the host's: on a GPU, or on the emulator with NumPy as CuPy.

Import it when `cupy` is the intended one of the two.
"""

from __future__ import annotations

from collections.abc import Sequence

import cupy as cp
import numpy as np

from mbe_stage import BicliqueBlock, BipartiteCSR
from mbe_stage.bicliques.cuda.blocks import DeviceBlock
from mbe_stage.groups import CandidateSink, NullModel
from mbe_stage.groups.cuda.candidates import DeviceCandidateSink

Blocks = Sequence[tuple[BicliqueBlock, np.ndarray]]
OF_VERTICES = ("left_best", "right_best", "left_share", "right_share", "n_bicliques_of_left", "n_bicliques_of_right")


def check(graph: BipartiteCSR, blocks: Blocks, top: int) -> list[int]:
    """Both sinks keep the same of the same blocks, and are read twice; return the kept keys."""
    model = NullModel.of(graph)
    on_host = CandidateSink(model, graph.n_left, graph.n_right, top)
    on_device = DeviceCandidateSink(model, graph.n_left, graph.n_right, top)
    for number, (block, keys) in enumerate(blocks):
        take_in((on_device, on_host), block, keys)
        if number == 2:
            assert_same(on_device, on_host)
    return assert_same(on_device, on_host)


def check_merge(graph: BipartiteCSR, blocks: Blocks, top: int, rng: np.random.Generator) -> list[int]:
    """Merge sinks of disjoint bicliques in any order, some read before, and continue; return the keys.

    The continuing sinks have restored the state of the other kind.
    """
    model, n_sinks = NullModel.of(graph), int(rng.integers(2, 5))
    pairs = [_sinks(model, graph, top) for _ in range(n_sinks)]
    n_late = int(rng.integers(0, 2))
    for block, keys in blocks[: len(blocks) - n_late]:
        take_in(pairs[rng.integers(0, n_sinks)], block, keys)
    one, *others = (pairs[i] for i in rng.permutation(n_sinks))
    for other in others:
        is_requested = bool(rng.random() < 0.5)
        before = assert_same(*other) if is_requested else []
        one[0].merge(other[0])
        one[1].merge(other[1])
        assert not is_requested or assert_same(*other) == before
    resumed = _sinks(model, graph, top)
    for each, kept in zip(resumed, reversed(one), strict=True):
        each.restore(kept.sums())
    for block, keys in blocks[len(blocks) - n_late :]:
        take_in(resumed, block, keys)
    return assert_same(*resumed)


def _sinks(model: NullModel, graph: BipartiteCSR, top: int) -> tuple[DeviceCandidateSink, CandidateSink]:
    """Return two empty sinks, one on the device and one on the host."""
    shape = model, graph.n_left, graph.n_right, top
    return DeviceCandidateSink(*shape), CandidateSink(*shape)


def take_in(sinks: tuple[DeviceCandidateSink, CandidateSink], block: BicliqueBlock, keys: np.ndarray) -> None:
    on_device, on_host = sinks
    on_host.accept(block, keys)
    on_device.accept(DeviceBlock.from_host(block), cp.asarray(keys))


def assert_same(on_device: DeviceCandidateSink, on_host: CandidateSink) -> list[int]:
    """Compare candidates and vertex figures, values and types; return the keys."""
    found, wanted = on_device.finish(), on_host.finish()
    arrays = [
        ("keys", found.keys, wanted.keys),
        ("surprise", found.surprise, wanted.surprise),
        *(
            (name, getattr(found.members, name), getattr(wanted.members, name))
            for name in ("left_offsets", "left_members", "right_offsets", "right_members")
        ),
        *((name, getattr(on_device, name), getattr(on_host, name)) for name in OF_VERTICES),
    ]
    for name, ours, theirs in arrays:
        assert isinstance(ours, np.ndarray), name
        assert ours.dtype == theirs.dtype, name
        assert np.array_equal(ours, theirs), (name, ours, theirs)
    return found.keys.tolist()
