"""Compare `mbe_stage.device` with the host's functions: on a GPU, or on the emulator with NumPy as CuPy.

Import it when `cupy` is the intended one of the two.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import cupy as cp
import numpy as np
import pytest

from mbe_stage import BicliqueBlock, BipartiteCSR, TableSink, enumerate_into
from mbe_stage.bicliques import keys, vertex_statistics
from mbe_stage.bicliques.cuda import keys as device_keys
from mbe_stage.bicliques.cuda import search
from mbe_stage.bicliques.cuda import vertex_statistics as device_statistics
from mbe_stage.bicliques.cuda.blocks import DeviceBlock
from mbe_stage.device import graph as device_graph
from mbe_stage.device import to_host as device_to_host
from mbe_stage.device import two_hop as device_two_hop
from mbe_stage.graphs import two_hop

TEXTS = ["", "a", "ann", "Ann", "5", "007", "Zoë", "\u00e9", "e\u0301", "日本語", "x" * 5000, " 5", "5 ", "ann"]
INTEGERS = [0, 1, -1, 9, 10, 99, 100, -100, 2**31, 2**40 + 7, 2**63 - 1, -(2**63), 10**18, 10**18 - 1]


def check_hashes() -> None:
    """Hashes of texts and integers, and of both as vertices of either side."""
    data = [text.encode() for text in TEXTS]
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in data])])
    content = np.frombuffer(b"".join(data), np.uint8)
    wanted = keys.hash_text(offsets, content)
    for kind in (np.int32, np.int64):
        assert _same(device_keys.hash_text(cp.asarray(offsets.astype(kind)), cp.asarray(content)), wanted)
    assert device_keys.hash_text(cp.zeros(1, cp.int32), cp.zeros(0, cp.uint8)).size == 0
    numbers = np.array(INTEGERS, np.int64)
    wanted = keys.hash_integers(numbers)
    assert _same(device_keys.hash_integers(cp.asarray(numbers)), wanted)
    for side in ("left", "right"):
        assert _same(device_keys.vertex_hashes(cp.asarray(wanted), side), keys.vertex_hashes(wanted, side))


def check_copies() -> None:
    """Kept and dropped blocks of all sizes, with little pinned memory."""
    chance = np.random.default_rng(0)
    sizes = {"_PIECE_BYTES": 1 << 12, "_STEP_BYTES": 1 << 8, "_BYTES_WITHOUT": 1 << 10}
    sizes |= {"_SMALL_BYTES": 1 << 8}
    with pytest.MonkeyPatch.context() as patch:
        for name, size in sizes.items():
            patch.setattr(device_to_host, name, size)
        pinned = device_to_host._Pinned()
        patch.setattr(device_to_host, "_PINNED", pinned)
        kept = []
        for most in (20, 200, 300, 300, 3000) * 20:
            lengths = chance.integers(0, most, 3)
            wanted = [chance.integers(0, 2**30, n).astype(kind) for n, kind in zip(lengths, "ilb", strict=True)]
            found = device_to_host.to_host(*map(cp.asarray, wanted))
            assert [array.dtype for array in found] == [array.dtype for array in wanted]
            if chance.random() < 0.2:
                kept.append((found, wanted))
            assert all(map(np.array_equal, found, wanted))
        for found, wanted in kept:
            assert all(map(np.array_equal, found, wanted))
        assert pinned._n_pieces == 4 > len(pinned._free)
        kept.clear()
        del found
        assert len(pinned._free) == 4


def check_cuts() -> None:
    """Blocks are cut as a loop over every biclique cuts them."""
    chance = np.random.default_rng(1)
    with pytest.MonkeyPatch.context() as patch:
        for stride, largest, most in itertools.product((1, 3, 16), (1, 4, 60), (1, 20, 500)):
            patch.setattr(search, "_STRIDE", stride)
            n = int(chance.integers(1, 70))
            left, right = chance.integers(1, largest + 1, (2, n))
            offsets = [np.append(0, np.cumsum(sizes)) for sizes in (left, right)]
            members = [np.empty(ends[-1], np.int32) for ends in offsets]
            given = (cp.asarray(each) for side in zip(offsets, members, strict=True) for each in side)
            cuts = list(search._cuts(DeviceBlock(*given), most))
            firsts = [0, *(stop for _, stop, *_ in cuts)]
            for number, (first, stop, *sides) in enumerate(cuts):
                assert first == firsts[number] < stop
                bounds = [slice(int(ends[first]), int(ends[stop])) for ends in offsets]
                assert sides == bounds
                entries = 2 * (stop - first) + sum(side.stop - side.start for side in sides)
                assert entries <= most or stop == first + 1
            assert firsts[-1] == n


def check_graph(graph: BipartiteCSR, seed: int = 0) -> None:
    """The CSR from unordered, repeated edges; and the fingerprints."""
    left, right = graph.edges()
    chance = np.random.default_rng(seed)
    shuffled = np.concatenate([chance.permutation(left.size), chance.integers(0, max(1, left.size), left.size // 3)])
    for order in (np.arange(left.size), shuffled):
        made = device_graph.graph_from_edges(
            cp.asarray(left[order]), cp.asarray(right[order]), graph.n_left, graph.n_right
        )
        for name in ("left_offsets", "left_members", "right_offsets", "right_members"):
            wanted = getattr(graph, name)
            assert _same(getattr(made, name), wanted), name
            assert getattr(made, name).dtype == wanted.dtype, name
    hashes = hashes_of(graph)
    wanted = keys.edge_fingerprint(left, right, *hashes)
    on_device = (cp.asarray(each) for each in (left, right, *hashes))
    assert device_keys.edge_fingerprint(*on_device) == wanted


def check_two_hop(graph: BipartiteCSR, *memory_bytes: int) -> None:
    """Both sides, for any memory."""
    on_device = to_device(graph)
    assert device_two_hop.two_hop_steps(on_device) == two_hop.two_hop_steps(graph)
    for ours, theirs in ((on_device, graph), (on_device.swapped(), graph.swapped())):
        wanted = two_hop.two_hop_degrees(theirs)
        assert _same(device_two_hop.two_hop_degrees(ours), wanted)
        for most in memory_bytes:
            assert _same(device_two_hop.two_hop_degrees(ours, most), wanted), most


def check_sums(graph: BipartiteCSR, blocks: Iterable[DeviceBlock]) -> str:
    """Check keys, fingerprint, long form, sizes and vertex statistics of blocks; return the fingerprint."""
    hashes = hashes_of(graph)
    d_hashes = [cp.asarray(each) for each in hashes]
    n_vertices = graph.n_left, graph.n_right
    fingerprint, d_fingerprint = keys.Fingerprint(), keys.Fingerprint()
    sizes, d_sizes = vertex_statistics.SizeCounts(), device_statistics.DeviceSizeCounts()
    sides = [vertex_statistics.VertexStatistics.of(n) for n in n_vertices]
    d_sides = [device_statistics.DeviceVertexStatistics.of(n) for n in n_vertices]
    for d_block in blocks:
        block = to_host(d_block)
        wanted, found = keys.biclique_keys(block, *hashes), device_keys.biclique_keys(d_block, *d_hashes)
        assert _same(found, wanted)
        assert found.dtype == np.int64
        nobody = np.zeros(block.n_bicliques, np.int32), block.left_members, np.empty(0, np.int32)
        left_only = keys.biclique_keys(BicliqueBlock(block.n_bicliques, block.left_sizes, *nobody), *hashes)
        d_left = d_block.left_offsets, d_block.left_members, d_hashes[0]
        assert _same(device_keys.keys_of_left_vertices(*d_left), left_only)
        fingerprint.add(wanted)
        device_keys.add_to(d_fingerprint, found)
        lists = block.left_sizes, block.left_members, block.right_sizes, block.right_members
        for column, other in zip(
            device_statistics.long_form(d_block, found), vertex_statistics.long_form(wanted, *lists), strict=True
        ):
            assert _same(column, other)
            assert column.dtype == other.dtype
        sizes.add(block.left_sizes, block.right_sizes)
        d_sizes.add(d_block.left_sizes, d_block.right_sizes)
        n_edges = block.left_sizes.astype(np.int64) * block.right_sizes
        sides[0].add(block.left_sizes, block.left_members, n_edges, wanted)
        sides[1].add(block.right_sizes, block.right_members, n_edges, wanted)
        d_sides[0].add(d_block.left_offsets, d_block.left_members, d_block.n_edges, found)
        d_sides[1].add(d_block.right_offsets, d_block.right_members, d_block.n_edges, found)
    assert str(d_fingerprint) == str(fingerprint)
    for ours, theirs in zip(d_sizes.sorted_rows(), sizes.sorted_rows(), strict=True):
        assert _same(ours, theirs)
    for d_side, side in zip(d_sides, sides, strict=True):
        back = d_side.to_host()
        for name in ("n_bicliques", "largest_edges", "largest_keys"):
            assert _same(getattr(back, name), getattr(side, name)), name
    return str(fingerprint)


def blocks_of(graph: BipartiteCSR, n_blocks: int) -> list[DeviceBlock]:
    """Return the CPU engine's bicliques in this many blocks, one of them empty."""
    sink = TableSink()
    enumerate_into(sink, graph, engine="cpu")
    table = sink.table()
    whole = DeviceBlock(
        *(cp.asarray(a) for a in (table.left_offsets, table.left_members, table.right_offsets, table.right_members))
    )
    bounds = np.linspace(0, len(table), n_blocks + 1).astype(int).tolist()
    parts = [whole.part(start, stop) for start, stop in itertools.pairwise(bounds)]
    return [*parts, DeviceBlock.empty(1.0)]


def to_host(block: DeviceBlock) -> BicliqueBlock:
    arrays = (block.left_sizes, block.right_sizes, block.left_members, block.right_members)
    return BicliqueBlock(block.n_bicliques, *map(cp.asnumpy, arrays), work_done=block.work_done)


def to_device(graph: BipartiteCSR) -> BipartiteCSR:
    offsets_and_members = (graph.left_offsets, graph.left_members, graph.right_offsets, graph.right_members)
    return BipartiteCSR(graph.n_left, graph.n_right, *map(cp.asarray, offsets_and_members))


def hashes_of(graph: BipartiteCSR) -> tuple[np.ndarray, np.ndarray]:
    left, right = (keys.hash_integers(np.arange(n)) for n in (graph.n_left, graph.n_right))
    return keys.vertex_hashes(left, "left"), keys.vertex_hashes(right, "right")


def _same(found: cp.ndarray, wanted: np.ndarray) -> bool:
    return np.array_equal(cp.asnumpy(found), wanted)
