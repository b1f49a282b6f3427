"""CuPy arrays as cuDF columns without a copy, and blocks cut so that each fits one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import cudf
import cupy as cp
import pylibcudf as plc

if TYPE_CHECKING:
    from mbe_stage.bicliques.cuda.blocks import DeviceBlock

__all__ = ["MOST_BYTES", "MOST_CHILDREN", "list_column", "pieces"]

MOST_CHILDREN = 2**31 - 1
"""Values below one list column: libcudf counts with int32."""
MOST_BYTES = 4 * MOST_CHILDREN
# Key, sizes, edges, two offsets.
_ROW_BYTES = 32


def list_column(offsets: cp.ndarray, members: cp.ndarray) -> cudf.Series:
    """Ragged arrays as a column of lists; the members are not copied.

    Work on `members` that is still under way on the current stream is waited for.

    Parameters
    ----------
    offsets : (n + 1,) int64 or int32
        Where each list begins, from 0 to ``members.size``.
    members : int32

    Returns
    -------
    cudf.Series
        n lists of int32.

    Raises
    ------
    OverflowError
        More members than a column can hold: cut with `pieces` first.
    """
    if members.size > MOST_CHILDREN:
        raise OverflowError(
            f"{members.size} members: a list column holds at most {MOST_CHILDREN}; cut it with pieces()"
        )
    children = [
        plc.Column.from_cuda_array_interface(array) for array in (offsets.astype(cp.int32, copy=False), members)
    ]
    # libcudf works on a stream of its own choice.
    cp.cuda.get_current_stream().synchronize()
    column = plc.Column(plc.DataType(plc.TypeId.LIST), offsets.size - 1, None, None, 0, 0, children)
    return cudf.Series.from_pylibcudf(column)


def pieces(block: DeviceBlock, most_bytes: int = MOST_BYTES) -> Iterator[DeviceBlock]:
    """The block in consecutive pieces of at most so many bytes as rows of `bicliques/`; a larger biclique alone."""
    # In place: of a small budget, a block and its offsets are a good part.
    ends = block.left_offsets[1:] + block.right_offsets[1:]
    ends *= 4
    ends += cp.arange(_ROW_BYTES, (block.n_bicliques + 1) * _ROW_BYTES, _ROW_BYTES)
    if block.n_bicliques and int(ends[-1]) <= most_bytes:
        yield block
        return
    first, before = 0, 0
    while first < block.n_bicliques:
        fitting = int(cp.searchsorted(ends, cp.asarray(before + most_bytes, ends.dtype), side="right"))
        stop = max(first + 1, fitting)
        yield block.part(first, stop)
        first, before = stop, int(ends[stop - 1])
