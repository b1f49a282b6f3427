"""Stacks of word frames that no warp holds for now: what makes room where arenas grow and memory is short.

A stack stands by itself: whichever warp it is given to goes on where another one left off.
"""

from __future__ import annotations

from dataclasses import dataclass

import cupy as cp
import numpy as np

from mbe_stage.bicliques.cuda import layout as at

__all__ = ["COUNTERS", "SCRATCH", "ParkedStack", "park", "resume", "warps_to_keep"]

COUNTERS = (at.FOUND, at.N_OPENED, at.N_FAMILIES, at.N_WIDE, at.N_GIVEN)
"""Fields of a warp's state that outlive the warp."""
SCRATCH = ("own_nodes", "bits", "counts", "touched", "columns")
"""Arrays that hold nothing between two slices, once nodes of one's own are forgotten."""


@dataclass(frozen=True, slots=True, eq=False)
class ParkedStack:
    """What a warp had in its arenas.

    Attributes
    ----------
    frames : (n, FRAME_FIELDS)
        From the shallowest to the deepest.
    words, ints
        The part of the arenas that the frames hold.
    emitted : int
        As `layout.EMITTED`.
    """

    frames: cp.ndarray
    words: cp.ndarray
    ints: cp.ndarray
    emitted: int

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return int(self.frames.nbytes + self.words.nbytes + self.ints.nbytes)


def warps_to_keep(state: np.ndarray, n_warps: int) -> np.ndarray:
    """Which warps go on where only `n_warps` can, ascending: those with a child in hand, then those with a stack.

    Parameters
    ----------
    state : (n, STATE_FIELDS) int64
    n_warps : int
    """
    importance = np.where(state[:, at.PENDING_NODE] >= 0, 0, np.where(state[:, at.DEPTH] >= 0, 1, 2))
    return np.sort(np.argsort(importance, kind="stable")[:n_warps])


def park(warps: at.Warps, state: np.ndarray, parked: np.ndarray, with_ints: bool) -> list[ParkedStack]:
    """Copies of the stacks of the warps `parked`; those without one are left out."""
    stacks = []
    for warp in parked[state[parked, at.DEPTH] >= 0].tolist():
        depth = int(state[warp, at.DEPTH])
        frames = warps.frames[warp, : depth + 1].copy()
        deepest = cp.asnumpy(frames[depth])
        n_words, n_ints = int(deepest[at.WORDS_TOP]), int(deepest[at.INTS_TOP]) if with_ints else 0
        words, ints = warps.words[warp, :n_words].copy(), warps.ints[warp, :n_ints].copy()
        stacks.append(ParkedStack(frames, words, ints, int(state[warp, at.EMITTED])))
    return stacks


def resume(stacks: list[ParkedStack], warps: at.Warps) -> None:
    """Give stacks to warps, all of which have nothing to do; what there are too many of stays in the list."""
    for warp in range(min(len(stacks), warps.state.shape[0])):
        stack = stacks.pop()
        warps.frames[warp, : stack.frames.shape[0]] = stack.frames
        warps.words[warp, : stack.words.size] = stack.words
        warps.ints[warp, : stack.ints.size] = stack.ints
        warps.state[warp, at.DEPTH] = stack.frames.shape[0] - 1
        warps.state[warp, at.EMITTED] = stack.emitted
