"""Keys and fingerprints of bicliques in device memory, bit for bit those of `bicliques.keys`, which has the recipe."""

from __future__ import annotations

import cupy as cp
import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda.blocks import DeviceBlock
from mbe_stage.bicliques.keys import SIDE_SALTS, Fingerprint
from mbe_stage.device.grid import this_thread, this_warp
from mbe_stage.device.jit import I32, I64, U8, U64, kernel
from mbe_stage.device.launch import launch_threads, launch_warps
from mbe_stage.device.warp import sum_all
from mbe_stage.splitmix import finalised

# Items processed at once when arithmetic makes copies: this bounds memory.
_CHUNK = 1 << 24
_U = np.uint64
_FNV_OFFSET = _U(0xCBF29CE484222325)
_FNV_PRIME = _U(0x100000001B3)


def hash_text(offsets: cp.ndarray, data: cp.ndarray) -> cp.ndarray:
    """Hash each UTF-8 string of an Arrow-style string column.

    Parameters
    ----------
    offsets : (n + 1,) int32 or int64
    data : uint8
        The bytes of all strings.

    Returns
    -------
    (n,) uint64
    """
    hashes = cp.empty(offsets.size - 1, cp.uint64)
    launch_threads(text_hash_thread_per_string, hashes.size, offsets.astype(cp.int64, copy=False), data, hashes)
    return hashes


def hash_integers(values: cp.ndarray) -> cp.ndarray:
    """Hash each integer as the text of its decimal digits; ``(n,) int64 -> (n,) uint64``."""
    hashes = cp.empty(values.size, cp.uint64)
    launch_threads(integer_hash_thread_per_value, hashes.size, values.astype(cp.int64), hashes)
    return hashes


def vertex_hashes(text_hashes: cp.ndarray, side: str) -> cp.ndarray:
    """Turn the text hashes of one side's keys into vertex hashes; ``side`` is ``left`` or ``right``."""
    return finalised(text_hashes + _U(SIDE_SALTS[side]))


def biclique_keys(block: DeviceBlock, left_hashes: cp.ndarray, right_hashes: cp.ndarray) -> cp.ndarray:
    """Key of every biclique of a block; ``(n_bicliques,) int64``."""
    left_sums, right_sums = (
        _sums(offsets, members, hashes)
        for offsets, members, hashes in (
            (block.left_offsets, block.left_members, left_hashes),
            (block.right_offsets, block.right_members, right_hashes),
        )
    )
    return _pair_keys(left_sums, right_sums)


def keys_of_left_vertices(offsets: cp.ndarray, members: cp.ndarray, hashes: cp.ndarray) -> cp.ndarray:
    """Key of every biclique with these left vertices and no right one, ``(n,) int64``.

    Parameters
    ----------
    offsets : (n + 1,) int64
        First member of each.
    members : int32
        Dense ids.
    hashes : (n_vertices,) uint64
        Vertex hashes of the left side.
    """
    sums = _sums(offsets, members, hashes)
    return _pair_keys(sums, cp.zeros_like(sums))


def add_to(fingerprint: Fingerprint, keys: cp.ndarray) -> None:
    """Add int64 keys to a fingerprint of the host."""
    for start in range(0, keys.size, _CHUNK):
        mixed = finalised(keys[start : start + _CHUNK].view(cp.uint64))
        sums = cp.stack([mixed.sum(dtype=cp.uint64), finalised(mixed + _U(1)).sum(dtype=cp.uint64)])
        fingerprint.add_sums(mixed.size, *cp.asnumpy(sums).tolist())


def edge_fingerprint(
    left_ids: cp.ndarray, right_ids: cp.ndarray, left_hashes: cp.ndarray, right_hashes: cp.ndarray
) -> str:
    """Fingerprint of a set of edges by their ends' own keys, in any order."""
    fingerprint = Fingerprint()
    for start in range(0, left_ids.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        add_to(fingerprint, _pair_keys(left_hashes[left_ids[part]], right_hashes[right_ids[part]]))
    return str(fingerprint)


def _pair_keys(left_sums: cp.ndarray, right_sums: cp.ndarray) -> cp.ndarray:
    return finalised(left_sums + finalised(right_sums)).view(cp.int64)


def _sums(offsets: cp.ndarray, members: cp.ndarray, hashes: cp.ndarray) -> cp.ndarray:
    """Wrapping sums of the members' hashes, list by list."""
    sums = cp.empty(offsets.size - 1, cp.int64)
    launch_warps(hash_sum_warp_per_list, sums.size, offsets, members, hashes.view(cp.int64), sums)
    return sums.view(cp.uint64)


@kernel(I64, I32, I64, I64)
def hash_sum_warp_per_list(offsets, members, hashes, sums):
    """Sum the hashes of a list's members; signed numbers wrap to the same bits."""
    index = this_warp()
    if index >= sums.size:
        return
    total = np.int64(0)
    for i in range(offsets[index] + cuda.laneid, offsets[index + 1], 32):
        total += hashes[members[i]]
    total = sum_all(total)
    if cuda.laneid == 0:
        sums[index] = total


@kernel(I64, U8, U64)
def text_hash_thread_per_string(offsets, data, hashes):
    """Hash by FNV-1a."""
    index = this_thread()
    if index >= hashes.size:
        return
    value = _FNV_OFFSET
    for i in range(offsets[index], offsets[index + 1]):
        value = (value ^ _U(data[i])) * _FNV_PRIME
    hashes[index] = value


@kernel(I64, U64)
def integer_hash_thread_per_value(values, hashes):
    """Hash the decimal digits by FNV-1a, the first one first."""
    index = this_thread()
    if index >= hashes.size:
        return
    number = values[index]
    value = _FNV_OFFSET
    magnitude = _U(number)
    if number < 0:
        # -2**63 has no positive counterpart in int64; its magnitude is right when read as unsigned.
        magnitude = _U(0) - _U(number)
        value = (value ^ _U(45)) * _FNV_PRIME
    power = _U(1)
    while magnitude // power >= _U(10):
        power *= _U(10)
    while power > _U(0):
        value = (value ^ (_U(48) + magnitude // power % _U(10))) * _FNV_PRIME
        power //= _U(10)
    hashes[index] = value
