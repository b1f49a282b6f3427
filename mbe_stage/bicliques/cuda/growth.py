"""Moving what is in use to larger memory: a warp's stack, the nodes of the pool that are still needed."""

from __future__ import annotations

from numba import cuda

from mbe_stage.bicliques.cuda import layout as at

__all__ = ["copy_nodes_block_per_node", "copy_stacks_block_per_warp"]


@cuda.jit(cache=True)
def copy_stacks_block_per_warp(state, frames, sources, old_words, old_ints, words, ints, with_ints):
    """Copy the words, and where something is written the ids, that the frames of each warp's stack hold.

    `state` and `frames` are those of the warps as they are to be, `sources` which warps they were.
    """
    warp = cuda.blockIdx.x
    source = sources[warp]
    depth = state[warp, at.DEPTH]
    n_words = 0
    n_ints = 0
    if depth >= 0:
        n_words = frames[warp, depth, at.WORDS_TOP]
        n_ints = frames[warp, depth, at.INTS_TOP]
    for k in range(cuda.threadIdx.x, n_words, cuda.blockDim.x):
        words[warp, k] = old_words[source, k]
    if with_ints:
        for k in range(cuda.threadIdx.x, n_ints, cuda.blockDim.x):
            ints[warp, k] = old_ints[source, k]


@cuda.jit(cache=True)
def copy_nodes_block_per_node(old_ints, old_bases, sizes, ints, bases):
    """Copy each node's piece of the pool to where it is to stand."""
    node = cuda.blockIdx.x
    for k in range(cuda.threadIdx.x, sizes[node], cuda.blockDim.x):
        ints[bases[node] + k] = old_ints[old_bases[node] + k]
