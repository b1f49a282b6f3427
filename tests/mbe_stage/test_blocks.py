"""Blocks beyond 2^31 members with only their sizes in memory, and the largest allowed block."""

from __future__ import annotations

import numpy as np
import pytest

from mbe_stage import BicliqueBlock, Execution, InvalidArgument
from mbe_stage.options import LARGEST_BLOCK


@pytest.mark.parametrize(
    ("sizes", "kind"), [([2, 3], np.int32), ([2**30, 2**30 - 1], np.int32), ([2**30, 2**30, 7], np.int64)]
)
@pytest.mark.parametrize("side", ["left", "right"])
def test_offsets_have_the_required_width(sizes: list[int], kind: type, side: str) -> None:
    few, many = np.ones(len(sizes), np.int32), np.array(sizes, np.int32)
    block = BicliqueBlock(len(sizes), *((many, few) if side == "left" else (few, many)))
    offsets = getattr(block, f"{side}_offsets")
    assert offsets.dtype == kind
    assert offsets.tolist() == [sum(sizes[:i]) for i in range(len(sizes) + 1)]


def test_the_first_bicliques_of_a_huge_block() -> None:
    sizes = np.full(5, 2**30, np.int32)
    members = np.broadcast_to(np.int32(7), 5 << 30)
    first = BicliqueBlock(5, sizes, sizes, members, members).first(4)
    assert first.left_members is not None
    assert first.left_members.size == first.right_offsets[-1] == 4 << 30


def test_a_block_has_a_bound() -> None:
    assert Execution(block_bytes=LARGEST_BLOCK).block_bytes == LARGEST_BLOCK
    with pytest.raises(InvalidArgument, match=r"block_bytes is 1073741825: expected at most 1073741824 \(1 GiB\)"):
        Execution(block_bytes=LARGEST_BLOCK + 1)
