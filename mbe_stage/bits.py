"""Count, gather and spread bits of 64-bit words, by single machine instructions if the processor has them.

A word can also represent a set of subsets of six vertices. Bit ``s`` of the word is set if subset ``s`` is in the set;
bit ``b`` of ``s`` is set if vertex ``b`` is in the subset.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

_U = np.uint64
_ONE = _U(1)
# These processors implement the instructions in microcode, slower than the loops below.
_SLOW_FIELDS = frozenset({"znver1", "znver2"})
# Subsets without vertex 0, 1, ... 5.
WITHOUT_0 = _U(0x5555555555555555)
WITHOUT_1 = _U(0x3333333333333333)
WITHOUT_2 = _U(0x0F0F0F0F0F0F0F0F)
WITHOUT_3 = _U(0x00FF00FF00FF00FF)
WITHOUT_4 = _U(0x0000FFFF0000FFFF)
WITHOUT_5 = _U(0x00000000FFFFFFFF)


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


@intrinsic
def extract_bits(typing_context, word, mask):  # noqa: ARG001 - the signature is Numba's
    """Gather the bits of a uint64 under the ones of a mask into the lowest bits (``pext``)."""
    return types.uint64(types.uint64, types.uint64), _field_instruction("llvm.x86.bmi.pext.64", extracted)


@intrinsic
def deposit_bits(typing_context, word, mask):  # noqa: ARG001 - the signature is Numba's
    """Spread the lowest bits of a uint64 to the ones of a mask (``pdep``)."""
    return types.uint64(types.uint64, types.uint64), _field_instruction("llvm.x86.bmi.pdep.64", deposited)


def extracted(word, mask):
    """The same as `extract_bits`, bit by bit, for processors without a fast instruction."""
    gathered, place = _U(0), _ONE
    while mask != _U(0):
        if word & mask & (~mask + _ONE):
            gathered |= place
        place <<= _ONE
        mask &= mask - _ONE
    return gathered


def deposited(word, mask):
    """The same as `deposit_bits`, bit by bit, for processors without a fast instruction."""
    spread = _U(0)
    while mask != _U(0):
        if word & _ONE:
            spread |= mask & (~mask + _ONE)
        word >>= _ONE
        mask &= mask - _ONE
    return spread


def _field_instruction(name, bit_by_bit):
    """Build the instruction of that name, or the loop if the target processor has no fast instruction."""

    def build(context, builder, signature, args):
        _, processor, features = context.codegen().magic_tuple()
        if "+bmi2" not in features.split(",") or processor in _SLOW_FIELDS:
            return context.compile_internal(builder, bit_by_bit, signature, args)
        word = ir.IntType(64)
        function = builder.module.declare_intrinsic(name, (), ir.FunctionType(word, [word, word]))
        return builder.call(function, args)

    return build


@njit(inline="always")
def down_set(subsets):
    """Return a set of subsets together with all subsets of its members."""
    subsets |= (subsets & ~WITHOUT_0) >> _U(1)
    subsets |= (subsets & ~WITHOUT_1) >> _U(2)
    subsets |= (subsets & ~WITHOUT_2) >> _U(4)
    subsets |= (subsets & ~WITHOUT_3) >> _U(8)
    subsets |= (subsets & ~WITHOUT_4) >> _U(16)
    subsets |= (subsets & ~WITHOUT_5) >> _U(32)
    return subsets
