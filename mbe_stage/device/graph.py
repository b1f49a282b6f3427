"""Build graphs in CSR form in device memory, and copy them."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import cupy as cp
import numpy as np

from mbe_stage.device.arrays import sent
from mbe_stage.device.peers import brought_here
from mbe_stage.errors import InvalidArgument
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.graphs.undirected import UndirectedCSR

Graph = TypeVar("Graph", BipartiteCSR, UndirectedCSR)


def graph_from_edges(left_ids: cp.ndarray, right_ids: cp.ndarray, n_left: int, n_right: int) -> BipartiteCSR:
    """Build the graph like `BipartiteCSR.from_edges`, with CuPy arrays; duplicate pairs are merged.

    Parameters
    ----------
    left_ids, right_ids : (n_pairs,) integers
        Dense ids of the two ends of each edge, in any order.
    n_left, n_right : int

    Raises
    ------
    InvalidArgument
        Lengths differ, or an id is negative or not below the number of vertices.
    """
    if left_ids.shape != right_ids.shape:
        raise InvalidArgument(
            f"left_ids has {left_ids.size} entries and right_ids {right_ids.size}: "
            "give one left and one right id per edge"
        )
    _check_ids(left_ids, n_left, "left_ids")
    _check_ids(right_ids, n_right, "right_ids")
    codes = pair_codes(left_ids, right_ids)
    # The pipeline's edges are sorted and distinct already, and checking that costs less than sorting.
    if codes.size and not bool((codes[1:] > codes[:-1]).all()):
        codes = cp.unique(codes)
    left_offsets, (left, right) = _offsets(codes, n_left), pairs_of(codes)
    # In place, because this is the peak of a large input.
    codes = pair_codes(right, left, out=codes)
    codes.sort()
    return BipartiteCSR(
        n_left=n_left,
        n_right=n_right,
        left_offsets=left_offsets,
        left_members=right,
        right_offsets=_offsets(codes, n_right),
        right_members=codes.astype(cp.int32),
    )


def pair_codes(first: cp.ndarray, second: cp.ndarray, out: cp.ndarray | None = None) -> cp.ndarray:
    """Return pairs of ids as numbers that sort alike, (n,) int64: the second id is in the lower 32 bits."""
    codes = cp.empty(first.size, cp.int64) if out is None else out
    codes[:] = first
    codes <<= 32
    codes |= second.astype(cp.int32, copy=False)
    return codes


def pairs_of(codes: cp.ndarray) -> tuple[cp.ndarray, cp.ndarray]:
    """Return the ids of `pair_codes`, ``(n,) int32`` each."""
    halves = codes.view(cp.int32)
    return halves[1::2].copy(), halves[::2].copy()


def undirected_from_edges(src: cp.ndarray, dst: cp.ndarray, n: int) -> UndirectedCSR:
    """Build the graph like `UndirectedCSR.from_edges`, with CuPy arrays; duplicates are merged, loops dropped.

    Parameters
    ----------
    src, dst : (n_pairs,) integers
        Dense ids of the two ends of each edge, in either direction or both.
    n : int

    Raises
    ------
    InvalidArgument
        Lengths differ, or an id is negative or not below the number of vertices.
    """
    if src.shape != dst.shape:
        raise InvalidArgument(f"src has {src.size} entries and dst {dst.size}: give both ends of each edge")
    _check_ids(src, n, "src")
    _check_ids(dst, n, "dst")
    is_edge = src != dst
    src, dst = src[is_edge], dst[is_edge]
    codes = cp.concatenate([pair_codes(src, dst), pair_codes(dst, src)])
    if codes.size:
        codes = cp.unique(codes)
    return UndirectedCSR(n, _offsets(codes, n), codes.astype(cp.int32))


def _check_ids(ids: cp.ndarray, n: int, name: str) -> None:
    if not np.issubdtype(ids.dtype, np.integer):
        raise InvalidArgument(f"{name} has dtype {ids.dtype}: expected dense integer ids")
    if ids.size == 0:
        return
    least, most = (int(value) for value in cp.asnumpy(cp.stack([ids.min(), ids.max()])))
    if least < 0 or most >= n:
        raise InvalidArgument(
            f"{name} runs from {least} to {most}: expected dense ids from 0 to {n - 1}, of {n} vertices"
        )


def _offsets(codes: cp.ndarray, n: int) -> cp.ndarray:
    """Return the offset of each vertex's edges, int64; sorted codes have the vertex above their lower 32 bits."""
    return cp.searchsorted(codes, cp.arange(n + 1, dtype=cp.int64) << 32)


def on_host(graph: BipartiteCSR) -> BipartiteCSR:
    """Return the same graph with NumPy arrays."""
    return BipartiteCSR(
        graph.n_left,
        graph.n_right,
        cp.asnumpy(graph.left_offsets),
        cp.asnumpy(graph.left_members),
        cp.asnumpy(graph.right_offsets),
        cp.asnumpy(graph.right_members),
    )


def on_this_device(graph: Graph) -> Graph:
    """Copy a graph from another device to the current one; return a graph on the host or this device unchanged.

    Work that produces the graph must be complete.
    """
    if graph.is_on_host:
        return graph
    arrays = {name: getattr(graph, name) for name in graph.__slots__ if name.endswith(("offsets", "members"))}
    return replace(graph, **dict(zip(arrays, brought_here(*arrays.values()), strict=True)))


def copy_bytes(graph: BipartiteCSR) -> int:
    """Return the device memory that `on_device` takes for a graph: nothing if it is there already."""
    return 8 * (graph.n_edges + graph.n_left + graph.n_right + 2) if graph.is_on_host else 0


def on_device(graph: BipartiteCSR) -> BipartiteCSR:
    """Return the graph with CuPy arrays; existing CuPy arrays are not copied."""
    if not graph.is_on_host:
        return graph
    arrays = (graph.left_offsets, graph.left_members, graph.right_offsets, graph.right_members)
    typed = (array.astype(kind, copy=False) for array, kind in zip(arrays, (np.int64, np.int32) * 2, strict=True))
    return BipartiteCSR(graph.n_left, graph.n_right, *sent(*typed))
