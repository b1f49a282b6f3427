"""Frames from blocks of results in device memory, for programs that use frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from mbe_stage.errors import InvalidArgument
from mbe_stage.pipeline.backends.cudf.frames import MOST_BYTES, MOST_CHILDREN, Frame, concatenated
from mbe_stage.pipeline.backends.cudf.member_rows import BlockRows


class FrameSink:
    """Compute keys and sums of results, and pass them on as frames; the base of a problem's sink for its library.

    Parameters
    ----------
    on_frame : callable or None
        Receives the rows in pieces; None collects them in one frame.
    n_members : callable
        Returns the number of members in a list column of the collected frame so far.
    fewer : str
        Advice for fewer results: ``ask for larger cliques (min_size)``.
    """

    on_device: Literal[True] = True

    def __init__(
        self, rows: BlockRows, on_frame: Callable[[Frame], None] | None, n_members: Callable[[], int], fewer: str
    ) -> None:
        self._rows, self._on_frame, self._n_members, self._fewer = rows, on_frame, n_members, fewer
        self._frames: list[Frame] = []

    def accept(self, block: Any) -> None:
        """Take one block.

        Raises
        ------
        InvalidArgument
            There are more members than a column can hold, and no `on_frame`.
        """
        for piece in self._rows.table.pieces(block, MOST_BYTES):
            keys = self._rows.named(piece)
            if self._on_frame is not None:
                self._on_frame(self._rows.table.frame(piece, keys))
                continue
            self._check_capacity()
            self._frames.append(self._rows.table.frame(piece, keys))

    def rows(self) -> Frame:
        """Return all kept rows in one frame."""
        return concatenated([self._rows.no_rows(), *self._frames])

    def _check_capacity(self) -> None:
        if self._n_members() > MOST_CHILDREN:
            raise InvalidArgument(
                f"the result has more than {MOST_CHILDREN} members, the most that a cuDF list column holds: pass "
                f"on_frame to take it piece by piece, {self._fewer}, or publish a run"
            )
