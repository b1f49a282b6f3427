"""Eight rows of 64 bits at a time. Numba leaves loops with early ends to the processor's words; LLVM knows vectors."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_LANES = 8
_WORD, _BIT = ir.IntType(64), ir.IntType(1)
_ROWS = ir.VectorType(_WORD, _LANES)
_HITS = ir.IntType(_LANES)


@intrinsic
def is_inside_any(typing_context, row, words, start, end):  # noqa: ARG001 - the signature is Numba's
    """True if `row` is a subset of one of the rows ``words[start:end]``; it must not be empty."""

    def build(context, builder, signature, args):
        row, words, start, end = args
        data = context.make_array(signature.args[1])(context, builder, words).data
        return builder.call(_inside_any(builder.module), [row, builder.gep(data, [start]), builder.sub(end, start)])

    return types.boolean(row, words, types.int64, types.int64), build


def _inside_any(module):
    """The function in LLVM: rows in steps of eight, the last step over the last eight again."""
    kind = ir.FunctionType(_BIT, [_WORD, _WORD.as_pointer(), _WORD])
    function = cgutils.get_or_insert_function(module, kind, "mbe_is_inside_any")
    if function.blocks:
        return function
    function.linkage = "linkonce_odr"
    row, rows, n = function.args
    blocks = [
        function.append_basic_block(name) for name in ("entry", "many", "step", "next", "few", "one", "hit", "none")
    ]
    entry, many, step, following, few, one, hit, none = blocks
    builder = ir.IRBuilder(entry)

    def number(value):
        return ir.Constant(_WORD, value)

    builder.cbranch(builder.icmp_signed(">=", n, number(_LANES)), many, few)

    builder.position_at_end(many)
    undefined = ir.Constant(_ROWS, ir.Undefined)
    splat = builder.shuffle_vector(
        builder.insert_element(undefined, row, ir.Constant(ir.IntType(32), 0)),
        undefined,
        ir.Constant(ir.VectorType(ir.IntType(32), _LANES), [0] * _LANES),
    )
    last = builder.sub(n, number(_LANES))
    builder.branch(step)

    builder.position_at_end(step)
    at = builder.phi(_WORD)
    at.add_incoming(number(0), many)
    held = builder.load(builder.bitcast(builder.gep(rows, [at]), _ROWS.as_pointer()), align=8)
    missing = builder.and_(splat, builder.xor(held, ir.Constant(_ROWS, [-1] * _LANES)))
    hits = builder.bitcast(builder.icmp_signed("==", missing, ir.Constant(_ROWS, [0] * _LANES)), _HITS)
    builder.cbranch(builder.icmp_signed("!=", hits, ir.Constant(_HITS, 0)), hit, following)

    builder.position_at_end(following)
    later = builder.add(at, number(_LANES))
    later = builder.select(builder.icmp_signed("<", later, last), later, last)
    at.add_incoming(later, following)
    builder.cbranch(builder.icmp_signed("<", at, last), step, none)

    builder.position_at_end(few)
    at = builder.phi(_WORD)
    at.add_incoming(number(0), entry)
    builder.cbranch(builder.icmp_signed("<", at, n), one, none)
    builder.position_at_end(one)
    missing = builder.and_(row, builder.not_(builder.load(builder.gep(rows, [at]))))
    at.add_incoming(builder.add(at, number(1)), one)
    builder.cbranch(builder.icmp_signed("==", missing, number(0)), hit, few)

    for block, answer in ((hit, 1), (none, 0)):
        builder.position_at_end(block)
        builder.ret(ir.Constant(_BIT, answer))
    return function
