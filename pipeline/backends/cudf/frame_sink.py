"""Blocks of results in device memory as frames, for a program that takes them as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from mbe_stage.errors import InvalidArgument
from mbe_stage.pipeline.backends.cudf.frames import MOST_BYTES, MOST_CHILDREN, Frame, concatenated
from mbe_stage.pipeline.backends.cudf.member_rows import BlockRows

__all__ = ["FrameSink"]


class FrameSink:
    """Names results, sums them up, and hands them on as frames; a problem's sink for its library is one.

    Parameters
    ----------
    rows : BlockRows
    on_frame : callable or None
        Takes the rows piece by piece; None where they are kept, for one frame of them all.
    n_members : callable
        Gives the members that a list column of that frame would hold by now.
    fewer : str
        How to ask for fewer results: ``ask for larger cliques (min_size)``.
    """

    on_device: Literal[True] = True

    def __init__(
        self, rows: BlockRows, on_frame: Callable[[Frame], None] | None, n_members: Callable[[], int], fewer: str
    ) -> None:
        self._rows, self._on_frame, self._n_members, self._fewer = rows, on_frame, n_members, fewer
        self._frames: list[Frame] = []

    def accept(self, block: Any) -> None:
        """Take one block in.

        Raises
        ------
        InvalidArgument
            More members than a column holds, and no `on_frame`.
        """
        for piece in self._rows.table.pieces(block, MOST_BYTES):
            keys = self._rows.named(piece)
            if self._on_frame is not None:
                self._on_frame(self._rows.table.frame(piece, keys))
                continue
            self._check_room()
            self._frames.append(self._rows.table.frame(piece, keys))

    def rows(self) -> Frame:
        """All rows that are kept, in one frame."""
        return concatenated([self._rows.no_rows(), *self._frames])

    def _check_room(self) -> None:
        if self._n_members() > MOST_CHILDREN:
            raise InvalidArgument(
                f"the result has more than {MOST_CHILDREN} members, the most that a cuDF list column holds: pass "
                f"on_frame to take it piece by piece, {self._fewer}, or publish a run"
            )
