"""Count, gather and spread bits of 64-bit words, by single machine instructions if the processor has them.

Sets of subsets of six vertices, as one word: bit ``s`` is set if the subset with index ``s`` is in it.

Bit ``b`` of ``s`` stands for vertex ``b``.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

_U = np.uint64
_ONE = _U(1)
# They have the instructions in microcode, slower than the loops below.
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
    """The bits of a uint64 where a mask has ones, moved together to the lowest places (``pext``)."""
    return types.uint64(types.uint64, types.uint64), _field_instruction("llvm.x86.bmi.pext.64", extracted)


@intrinsic
def deposit_bits(typing_context, word, mask):  # noqa: ARG001 - the signature is Numba's
    """The lowest bits of a uint64, moved to the places where a mask has ones (``pdep``)."""
    return types.uint64(types.uint64, types.uint64), _field_instruction("llvm.x86.bmi.pdep.64", deposited)


def extracted(word, mask):
    """Result of `extract_bits`, bit by bit: for other processors."""
    gathered, place = _U(0), _ONE
    while mask != _U(0):
        if word & mask & (~mask + _ONE):
            gathered |= place
        place <<= _ONE
        mask &= mask - _ONE
    return gathered


def deposited(word, mask):
    """Result of `deposit_bits`, bit by bit: for other processors."""
    spread = _U(0)
    while mask != _U(0):
        if word & _ONE:
            spread |= mask & (~mask + _ONE)
        word >>= _ONE
        mask &= mask - _ONE
    return spread


def _field_instruction(name, bit_by_bit):
    """The instruction of that name, or a function where the processor that is compiled for is better off with it."""

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
    """All subsets of the members of a set of subsets."""
    subsets |= (subsets & ~WITHOUT_0) >> _U(1)
    subsets |= (subsets & ~WITHOUT_1) >> _U(2)
    subsets |= (subsets & ~WITHOUT_2) >> _U(4)
    subsets |= (subsets & ~WITHOUT_3) >> _U(8)
    subsets |= (subsets & ~WITHOUT_4) >> _U(16)
    subsets |= (subsets & ~WITHOUT_5) >> _U(32)
    return subsets
