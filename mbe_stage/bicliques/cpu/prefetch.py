"""Load memory ahead of its use. Columns of large graphs are scattered, and each ends where its entries say."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

_AHEAD = 8


@intrinsic
def prefetch(typing_context, array, index):  # noqa: ARG001 - the signature is Numba's
    """Ask for the cache line of ``array[index]``; the position may be anywhere."""

    def build(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [byte, number, number, number]), "llvm.prefetch.p0i8"
        )
        place = builder.bitcast(builder.gep(data, [args[1]]), byte)
        # To be read, soon again, data.
        builder.call(function, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.none(array, types.int64), build


@njit(inline="always")
def prefetch_column(child, k, at_end):
    """Ask for the first entry or the last of a later column than the `k`-th: of the left set, or of the next child."""
    later = child.column_offsets + child.node[min(k + _AHEAD, child.column_members - 1)]
    prefetch(child.node, np.int64(child.column_members + child.node[later + at_end] - at_end))
