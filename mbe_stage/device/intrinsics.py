"""Kernel functions written in LLVM IR; no other kernel code uses llvmlite.

Each one stands for one or two PTX instructions that Python for GPUs cannot express: the clock of the whole device, a
load that is not moved out of a loop, an address that stays in a register, an addition that compilers do not look
through, and reductions over a warp. docs/decisions/numba-cuda.md describes their replacement under numba-cuda's
successor.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.cuda.extending import intrinsic


@intrinsic
def global_nanoseconds(typing_context):  # noqa: ARG001 - the signature is Numba's
    """Return the clock shared by all multiprocessors of the GPU, int64."""

    def build(_context, builder, _signature, _args):
        read = ir.InlineAsm(ir.FunctionType(ir.IntType(64), []), "mov.u64 $0, %globaltimer;", "=l", side_effect=True)
        return builder.call(read, [])

    return types.int64(), build


@intrinsic
def load_fresh(typing_context, array, index):  # noqa: ARG001 - the signature is Numba's
    """Read an element of a flat array that other multiprocessors change, bypassing the cache each time.

    `cuda.ldcv` does not work here: the compiler sees no side effect in its assembly, and moves it out of waiting loops.
    """

    def build(context, builder, signature, args):
        array_type, _ = signature.args
        element = context.get_value_type(array_type.dtype)
        n_bits = array_type.dtype.bitwidth
        data = context.make_array(array_type)(context, builder, value=args[0]).data
        read = ir.InlineAsm(
            ir.FunctionType(element, [element.as_pointer()]),
            f"ld.relaxed.gpu.global.b{n_bits} $0, [$1];",
            f"={'r' if n_bits == 32 else 'l'},l,~{{memory}}",
            side_effect=True,
        )
        return builder.call(read, [builder.gep(data, [args[1]])])

    return array.dtype(array, types.int64), build


@intrinsic
def held(typing_context, array):  # noqa: ARG001 - the signature is Numba's
    """Return the array with its address kept in a register.

    A warp's own data is a row of a larger array. Otherwise the compilers would compute its address at every access, in
    about six instructions.
    """

    def build(context, builder, signature, args):
        array_type = signature.args[0]
        result = context.make_array(array_type)(context, builder, value=args[0])
        i64 = ir.IntType(64)
        keep = ir.InlineAsm(ir.FunctionType(i64, [i64]), "mov.b64 $0, $1;", "=l,l", side_effect=True)
        address = builder.call(keep, [builder.ptrtoint(result.data, i64)])
        element = result.data.type.pointee
        in_global_memory = builder.inttoptr(address, ir.PointerType(element, 1))
        result.data = builder.addrspacecast(in_global_memory, result.data.type)
        return result._getvalue()

    return array(array), build


@intrinsic
def onward(typing_context, position, step):  # noqa: ARG001 - the signature is Numba's
    """Return ``position + step``, int32, for the step of a loop.

    The compilers cannot look through it, so they do not unroll the loop. Unrolled sixteen times, the kernel would
    exceed the instruction caches, and warps would mostly wait for instructions.
    """

    def build(_context, builder, _signature, args):
        i32 = ir.IntType(32)
        asm = r".pragma \22nounroll\22; add.s32 $0, $1, $2;"
        add = ir.InlineAsm(ir.FunctionType(i32, [i32, i32]), asm, "=r,r,r", side_effect=True)
        return builder.call(add, args)

    return types.int32(types.int32, types.int32), build


def over_lanes(operation: str, kind: Any) -> Any:
    """Make a reduction over the lanes of a warp: one instruction from compute capability 8.0 on, else shuffles."""
    steps = (f"shfl.sync.bfly.b32 t, $0, {bits}, 31, -1; {operation} $0, $0, t;" for bits in (16, 8, 4, 2, 1))
    codes = f"redux.sync.{operation} $0, $1, -1;", f"{{ .reg .b32 t; mov.b32 $0, $1; {' '.join(steps)} }}"

    def reduce(typing_context, value):  # noqa: ARG001 - the signature is Numba's
        def build(context, builder, _signature, args):
            i32 = ir.IntType(32)
            text = context.insert_string_const_addrspace(builder, "__CUDA_ARCH")
            asks = ir.FunctionType(i32, [text.type])
            reflect = cgutils.get_or_insert_function(builder.module, asks, "__nvvm_reflect")
            architecture = builder.call(reflect, [text])
            result = cgutils.alloca_once(builder, i32)
            with builder.if_else(builder.icmp_signed(">=", architecture, i32(800))) as branches:
                for branch, code in zip(branches, codes, strict=True):
                    with branch:
                        asm = ir.InlineAsm(ir.FunctionType(i32, [i32]), code, "=&r,r", side_effect=True)
                        builder.store(builder.call(asm, args, attrs=("convergent",)), result)
            return builder.load(result)

        return kind(kind), build

    reduce.__name__ = operation
    return intrinsic(reduce)
