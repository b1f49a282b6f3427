"""Work on eight rows of 64 bits at a time.

Numba makes no vector code of loops that end early or append to a list. So these are written for LLVM, which translates
vectors of eight words for any processor.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_LANES = 8
_WORD, _BIT = ir.IntType(64), ir.IntType(1)
_ROWS, _WEIGHTS = ir.VectorType(_WORD, _LANES), ir.VectorType(ir.IntType(32), _LANES)
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

    builder.cbranch(builder.icmp_signed(">=", n, _number(_LANES)), many, few)

    builder.position_at_end(many)
    splat = _all_lanes(builder, row)
    last = builder.sub(n, _number(_LANES))
    builder.branch(step)

    builder.position_at_end(step)
    at = builder.phi(_WORD)
    at.add_incoming(_number(0), many)
    held = builder.load(builder.bitcast(builder.gep(rows, [at]), _ROWS.as_pointer()), align=8)
    missing = builder.and_(splat, builder.xor(held, ir.Constant(_ROWS, [-1] * _LANES)))
    hits = builder.bitcast(builder.icmp_signed("==", missing, ir.Constant(_ROWS, [0] * _LANES)), _HITS)
    builder.cbranch(builder.icmp_signed("!=", hits, ir.Constant(_HITS, 0)), hit, following)

    builder.position_at_end(following)
    later = builder.add(at, _number(_LANES))
    later = builder.select(builder.icmp_signed("<", later, last), later, last)
    at.add_incoming(later, following)
    builder.cbranch(builder.icmp_signed("<", at, last), step, none)

    builder.position_at_end(few)
    at = builder.phi(_WORD)
    at.add_incoming(_number(0), entry)
    builder.cbranch(builder.icmp_signed("<", at, n), one, none)
    builder.position_at_end(one)
    missing = builder.and_(row, builder.not_(builder.load(builder.gep(rows, [at]))))
    at.add_incoming(builder.add(at, _number(1)), one)
    builder.cbranch(builder.icmp_signed("==", missing, _number(0)), hit, few)

    for block, answer in ((hit, 1), (none, 0)):
        builder.position_at_end(block)
        builder.ret(ir.Constant(_BIT, answer))
    return function


@intrinsic
def weight_of_holders(typing_context, words, start, end, columns, ints, weights_at):  # noqa: ARG001 - the signature is Numba's
    """Sum the weights, from ``ints[weights_at]`` on, of the rows ``words[start:end]`` that hold all `columns`."""

    def build(context, builder, signature, args):
        words, start, end, columns, ints, weights_at = args
        rows = builder.gep(context.make_array(signature.args[0])(context, builder, words).data, [start])
        numbers = builder.gep(context.make_array(signature.args[4])(context, builder, ints).data, [weights_at])
        n, wanted = builder.sub(end, start), _all_lanes(builder, columns)
        total = cgutils.alloca_once_value(builder, ir.Constant(_WEIGHTS, None))
        with cgutils.for_range_slice(builder, _number(0), n, _number(_LANES)) as (at, _):
            lanes = builder.add(_all_lanes(builder, at), ir.Constant(_ROWS, list(range(_LANES))))
            is_row = builder.icmp_signed("<", lanes, _all_lanes(builder, n))
            held = builder.and_(wanted, _loaded(builder, builder.gep(rows, [at]), is_row, _ROWS, "v8i64"))
            is_holder = builder.and_(is_row, builder.icmp_signed("==", held, wanted))
            found = _loaded(builder, builder.gep(numbers, [at]), is_holder, _WEIGHTS, "v8i32")
            builder.store(builder.add(builder.load(total), found), total)
        kind = ir.FunctionType(_WEIGHTS.element, [_WEIGHTS])
        add = cgutils.get_or_insert_function(builder.module, kind, "llvm.vector.reduce.add.v8i32")
        return builder.zext(builder.call(add, [builder.load(total)]), _WORD)

    return types.int64(words, types.int64, types.int64, types.uint64, ints, types.int64), build


def _loaded(builder, place, lanes, vector, name):
    """Load these lanes of a vector, and zeros for the others."""
    kind = ir.FunctionType(vector, [vector.as_pointer(), ir.IntType(32), lanes.type, vector])
    load = cgutils.get_or_insert_function(builder.module, kind, f"llvm.masked.load.{name}.p0{name}")
    pointer = builder.bitcast(place, vector.as_pointer())
    return builder.call(load, [pointer, ir.IntType(32)(4), lanes, ir.Constant(vector, None)])


@intrinsic
def restrict_eight(typing_context, words, start, end, mask, inside, kept, heavy, least):  # noqa: ARG001 - the signature is Numba's
    """Restrict rows to a mask, eight at a time, where the processor has AVX-512; elsewhere it leaves all of them.

    Parameters
    ----------
    start, end : int64
        The rows; the last few, fewer than eight, are left.
    inside : uint64
        Rows inside this one are not kept.
    kept : int64
        Restricted rows of several columns, those with `least` or a `heavy` one, are written from ``words[kept]`` on.
        Room: that of the rows and eight more.

    Returns
    -------
    first_left, kept_end : int
    singles : uint64
        The union of the rows of a single column.
    """

    def build(context, builder, signature, args):
        words, start, end, mask, inside, kept, heavy, least = args
        if "+avx512f" not in context.codegen().magic_tuple()[2].split(","):
            return context.make_tuple(builder, signature.return_type, [start, kept, _number(0)])
        data = context.make_array(signature.args[0])(context, builder, words).data
        rows, n = builder.gep(data, [start]), builder.sub(end, start)
        kept_rows = builder.gep(data, [kept])
        result = builder.call(_restrict(builder.module), [rows, n, mask, inside, kept_rows, heavy, least])
        n_done, n_kept, singles = (builder.extract_value(result, k) for k in range(3))
        parts = [builder.add(start, n_done), builder.add(kept, n_kept), singles]
        return context.make_tuple(builder, signature.return_type, parts)

    results = types.Tuple((types.int64, types.int64, types.uint64))
    arguments = words, *[types.int64] * 2, *[types.uint64] * 2, types.int64, types.uint64, types.int64
    return results(*arguments), build


def _restrict(module):
    """The function in LLVM."""
    place = _WORD.as_pointer()
    kind = ir.FunctionType(ir.LiteralStructType([_WORD] * 3), [place, _WORD, _WORD, _WORD, place, _WORD, _WORD])
    function = cgutils.get_or_insert_function(module, kind, "mbe_restrict_eight")
    if function.blocks:
        return function
    function.linkage = "linkonce_odr"
    rows, n, mask, inside, kept, heavy, least = function.args
    entry, step, done = (function.append_basic_block(name) for name in ("entry", "step", "done"))
    builder = ir.IRBuilder(entry)
    zeros, ones = (ir.Constant(_ROWS, [value] * _LANES) for value in (0, 1))
    masks, heavies, leasts = (_all_lanes(builder, each) for each in (mask, heavy, least))
    outside = _all_lanes(builder, builder.not_(inside))
    end = builder.and_(n, ir.Constant(_WORD, -_LANES))
    builder.cbranch(builder.icmp_signed(">", end, _number(0)), step, done)

    builder.position_at_end(step)
    at, n_kept = builder.phi(_WORD), builder.phi(_WORD)
    found = builder.phi(_ROWS)
    row = builder.and_(masks, builder.load(builder.bitcast(builder.gep(rows, [at]), _ROWS.as_pointer()), align=8))
    is_single = builder.icmp_signed("==", builder.and_(row, builder.sub(row, ones)), zeros)
    n_columns = cgutils.get_or_insert_function(module, ir.FunctionType(_ROWS, [_ROWS]), "llvm.ctpop.v8i64")
    is_wide = builder.icmp_signed(">=", builder.call(n_columns, [row]), leasts)
    is_heavy = builder.icmp_signed("!=", builder.and_(row, heavies), zeros)
    is_outside = builder.icmp_signed("!=", builder.and_(row, outside), zeros)
    is_kept = builder.and_(builder.and_(builder.not_(is_single), is_outside), builder.or_(is_wide, is_heavy))
    lanes = ir.VectorType(_BIT, _LANES)
    compress = cgutils.get_or_insert_function(
        module, ir.FunctionType(_ROWS, [_ROWS, _ROWS, lanes]), "llvm.x86.avx512.mask.compress.v8i64"
    )
    together = builder.call(compress, [row, zeros, is_kept])
    builder.store(together, builder.bitcast(builder.gep(kept, [n_kept]), _ROWS.as_pointer()), align=8)
    number = builder.zext(builder.ctpop(builder.bitcast(is_kept, _HITS)), _WORD)
    later, n_later = builder.add(at, _number(_LANES)), builder.add(n_kept, number)
    all_found = builder.or_(found, builder.select(is_single, row, zeros))
    for phi, first, following in ((at, _number(0), later), (n_kept, _number(0), n_later), (found, zeros, all_found)):
        phi.add_incoming(first, entry)
        phi.add_incoming(following, step)
    builder.cbranch(builder.icmp_signed("<", later, end), step, done)

    builder.position_at_end(done)
    total, lanes_found = builder.phi(_WORD), builder.phi(_ROWS)
    for phi, first, last in ((total, _number(0), n_later), (lanes_found, zeros, all_found)):
        phi.add_incoming(first, entry)
        phi.add_incoming(last, step)
    union = cgutils.get_or_insert_function(module, ir.FunctionType(_WORD, [_ROWS]), "llvm.vector.reduce.or.v8i64")
    result = ir.Constant(kind.return_type, ir.Undefined)
    for k, part in enumerate((end, total, builder.call(union, [lanes_found]))):
        result = builder.insert_value(result, part, k)
    builder.ret(result)
    return function


def _number(value):
    return ir.Constant(_WORD, value)


def _all_lanes(builder, word):
    """A vector of one word eight times."""
    undefined, number = ir.Constant(_ROWS, ir.Undefined), ir.IntType(32)
    first = builder.insert_element(undefined, word, ir.Constant(number, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(number, _LANES), [0] * _LANES))
