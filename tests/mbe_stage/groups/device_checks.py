"""The candidates' sink on a device against the host's: on a GPU, or on the emulator with NumPy as CuPy.

Import it where `cupy` is whichever of the two is meant.
"""

from __future__ import annotations

from collections.abc import Sequence

import cupy as cp
import numpy as np

from mbe_stage import BicliqueBlock, BipartiteCSR
from mbe_stage.bicliques.cuda.blocks import DeviceBlock
from mbe_stage.groups import CandidateSink, NullModel
from mbe_stage.groups.cuda.candidates import DeviceCandidateSink
from mbe_stage.groups.members import offsets_of

Blocks = Sequence[tuple[BicliqueBlock, np.ndarray]]
OF_VERTICES = ("left_best", "right_best", "left_share", "right_share", "n_bicliques_of_left", "n_bicliques_of_right")


def check(graph: BipartiteCSR, blocks: Blocks, top: int) -> list[int]:
    """Both sinks keep the same of the same blocks, and are asked twice; returns the keys of what is kept."""
    model = NullModel.of(graph)
    on_host = CandidateSink(model, graph.n_left, graph.n_right, top)
    on_device = DeviceCandidateSink(model, graph.n_left, graph.n_right, top)
    for number, (block, keys) in enumerate(blocks):
        on_host.accept(block, keys)
        on_device.accept(to_device(block), cp.asarray(keys))
        if number == 2:
            assert_same(on_device, on_host)
    return assert_same(on_device, on_host)


def assert_same(on_device: DeviceCandidateSink, on_host: CandidateSink) -> list[int]:
    """Candidates and figures of vertices, values and types; returns the keys."""
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


def to_device(block: BicliqueBlock) -> DeviceBlock:
    """The same block in device memory."""
    return DeviceBlock(
        cp.asarray(offsets_of(block.left_sizes)),
        cp.asarray(block.left_members),
        cp.asarray(offsets_of(block.right_sizes)),
        cp.asarray(block.right_members),
    )
