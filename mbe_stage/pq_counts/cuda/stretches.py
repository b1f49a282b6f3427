"""Words of the pool that nodes stand in, and how they are moved together between two quanta."""

from __future__ import annotations

from dataclasses import dataclass

import cupy as cp
import numpy as np

from mbe_stage.device.copying import copy_pieces

__all__ = ["Stretches", "whole_lines"]


@dataclass(frozen=True, slots=True, eq=False)
class Stretches:
    """Stretches of words, in the order in which they stand in the pool.

    Attributes
    ----------
    starts, sizes, places : (n,) int64
        Where each begins, how many words it has, and where it is to be: on cache lines, one behind the other.
    of_nodes : (n_nodes,) int64
        The stretch of each node: levels of one frame share theirs.
    n_words : int
        In all, in whole cache lines.
    """

    starts: np.ndarray
    sizes: np.ndarray
    places: np.ndarray
    of_nodes: np.ndarray
    n_words: int

    @classmethod
    def of(cls, offsets: np.ndarray, sizes: np.ndarray) -> Stretches:
        """Those of nodes whose words begin at `offsets`, so many each."""
        starts, firsts, of_nodes = np.unique(offsets, return_index=True, return_inverse=True)
        sizes = sizes[firsts]
        ends = np.cumsum(whole_lines(sizes))
        return cls(starts, sizes, ends - whole_lines(sizes), of_nodes, int(ends[-1]) if ends.size else 0)

    def copied(self, words: cp.ndarray, first: int = 0, stop: int | None = None) -> cp.ndarray:
        """Copies of some, one behind the other."""
        starts, sizes, places = self.starts[first:stop], self.sizes[first:stop], self.places[first:stop]
        n_words = int(places[-1] + whole_lines(sizes[-1]) - places[0]) if places.size else 0
        together = cp.empty(n_words, cp.uint32)
        if n_words:
            copy_pieces(words.view(cp.int32), starts, sizes, together.view(cp.int32), places - places[0])
        return together

    def slide(self, words: cp.ndarray, room: int) -> None:
        """Move all to their places, which are never behind those where they stand: one after the other, none is lost.

        Parameters
        ----------
        words : uint32
        room : int
            Words of device memory that may be taken, as many as the largest has at least.
        """
        ends = self.places + whole_lines(self.sizes)
        first = int(np.argmin(self.starts == self.places)) if (self.starts != self.places).any() else ends.size
        while first < ends.size:
            place = int(self.places[first])
            stop = max(first + 1, int(np.searchsorted(ends, place + room, side="right")))
            words[place : int(ends[stop - 1])] = self.copied(words, first, stop)
            first = stop


def whole_lines(n: np.ndarray) -> np.ndarray:
    """Words in as many cache lines as `n` of them take."""
    return -(-n // 32) * 32
