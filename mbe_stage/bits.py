"""Bit counting for 64-bit words, as single machine instructions."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["lowest_bit_index", "popcount"]


@intrinsic
def popcount(typing_context, word):  # noqa: ARG001 - the signature is Numba's
    """Number of set bits of a uint64, as int64."""
    return types.int64(types.uint64), lambda _context, builder, _signature, args: builder.ctpop(args[0])


@intrinsic
def lowest_bit_index(typing_context, word):  # noqa: ARG001 - the signature is Numba's
    """Index of the lowest set bit of a uint64, as int64; 64 for zero."""

    def build(_context, builder, _signature, args):
        zero_is_undefined = ir.Constant(ir.IntType(1), 0)
        return builder.cttz(args[0], zero_is_undefined)

    return types.int64(types.uint64), build
