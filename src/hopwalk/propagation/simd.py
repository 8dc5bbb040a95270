"""Vectors of float32 that numba keeps in registers: a row of a table is one value, `a * x + y` is one instruction per 16 floats.

numba cannot prove that two arrays do not overlap, so loops over the D columns of several tables are compiled with checks and
without keeping sums in registers. A `Vec` has no memory behind it and none of these costs. Widths are compile-time constants:
pass them as literals or as closure variables.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import ForceLiteralArg
from numba.extending import intrinsic, models, overload, register_model

_FAST = ("contract", "reassoc", "nsz")  # fused multiply-add; sums of lanes in any (fixed) order


class VecType(types.Type):  # type: ignore[misc]
    """`width` float32 values."""

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(name=f"Vec({width})")


@register_model(VecType)
class _VecModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, fe_type: VecType) -> None:
        super().__init__(manager, fe_type, ir.VectorType(ir.FloatType(), fe_type.width))


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, offset: Any, vector: Any) -> Any:
    """A vector pointer to the flat position `offset` of a contiguous array."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), vector.as_pointer())


def _splat(builder: Any, value: Any, width: int) -> Any:
    vector = ir.VectorType(value.type, width)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(
        first, ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width)
    )


@intrinsic(prefer_literal=True)
def load(typingctx, array, offset, width):  # type: ignore[no-untyped-def]
    """The `width` float32 of a contiguous array from flat position `offset` on."""
    if not isinstance(width, types.IntegerLiteral):
        raise ForceLiteralArg({2})
    vec = VecType(width.literal_value)

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        offset = context.cast(builder, args[1], signature.args[1], types.int64)
        pointer = _pointer(context, builder, signature.args[0], args[0], offset, context.get_value_type(vec))
        return builder.load(pointer, align=4)

    return vec(array, offset, width), codegen


@intrinsic
def store(typingctx, array, offset, vec):  # type: ignore[no-untyped-def]
    """Write a vector to a contiguous array from flat position `offset` on."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        offset = context.cast(builder, args[1], signature.args[1], types.int64)
        pointer = _pointer(context, builder, signature.args[0], args[0], offset, context.get_value_type(signature.args[2]))
        builder.store(args[2], pointer, align=4)
        return context.get_dummy_value()

    return types.none(array, offset, vec), codegen


@intrinsic(prefer_literal=True)
def splat(typingctx, value, width):  # type: ignore[no-untyped-def]
    """A vector of one value."""
    if not isinstance(width, types.IntegerLiteral):
        raise ForceLiteralArg({1})
    vec = VecType(width.literal_value)

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        scalar = context.cast(builder, args[0], signature.args[0], types.float32)
        return _splat(builder, scalar, vec.width)

    return vec(value, width), codegen


@intrinsic
def _scale(typingctx, value, vec):  # type: ignore[no-untyped-def]
    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        scalar = context.cast(builder, args[0], signature.args[0], types.float32)
        return builder.fmul(_splat(builder, scalar, signature.args[1].width), args[1], flags=_FAST)

    return vec(value, vec), codegen


@intrinsic
def axpy(typingctx, value, x, y):  # type: ignore[no-untyped-def]
    """value · x + y."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        scalar = context.cast(builder, args[0], signature.args[0], types.float32)
        product = builder.fmul(_splat(builder, scalar, signature.args[1].width), args[1], flags=_FAST)
        return builder.fadd(product, args[2], flags=_FAST)

    return y(value, x, y), codegen


def _binary(operation: str) -> Any:
    @intrinsic
    def apply(typingctx, first, second):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            return getattr(builder, operation)(args[0], args[1], flags=_FAST)

        return first(first, second), codegen

    return apply


_add, _sub, _mul, _div = (_binary(name) for name in ("fadd", "fsub", "fmul", "fdiv"))


@overload(operator.add)
def _overload_add(first, second):  # type: ignore[no-untyped-def]
    if isinstance(first, VecType) and isinstance(second, VecType):
        return lambda first, second: _add(first, second)
    return None


@overload(operator.sub)
def _overload_sub(first, second):  # type: ignore[no-untyped-def]
    if isinstance(first, VecType) and isinstance(second, VecType):
        return lambda first, second: _sub(first, second)
    return None


@overload(operator.mul)
def _overload_mul(first, second):  # type: ignore[no-untyped-def]
    if isinstance(first, VecType) and isinstance(second, VecType):
        return lambda first, second: _mul(first, second)
    if isinstance(first, types.Float) and isinstance(second, VecType):
        return lambda first, second: _scale(first, second)
    return None


@overload(operator.truediv)
def _overload_div(first, second):  # type: ignore[no-untyped-def]
    if isinstance(first, VecType) and isinstance(second, VecType):
        return lambda first, second: _div(first, second)
    return None


@intrinsic
def positive(typingctx, vec):  # type: ignore[no-untyped-def]
    """relu: the values above 0, and 0."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        zero = ir.Constant(args[0].type, None)
        return builder.select(builder.fcmp_ordered(">", args[0], zero), args[0], zero)

    return vec(vec), codegen


@intrinsic
def where_positive(typingctx, condition, vec):  # type: ignore[no-untyped-def]
    """The values of `vec` where `condition` is above 0, else 0: the backward of relu."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        zero = ir.Constant(args[0].type, None)
        return builder.select(builder.fcmp_ordered(">", args[0], zero), args[1], zero)

    return vec(condition, vec), codegen


def _unary(name: str) -> Any:
    @intrinsic
    def apply(typingctx, vec):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            function = ir.FunctionType(args[0].type, [args[0].type])
            full_name = f"llvm.{name}.v{signature.args[0].width}f32"
            return builder.call(cgutils.get_or_insert_function(builder.module, function, full_name), [args[0]])

        return vec(vec), codegen

    return apply


absolute, root = _unary("fabs"), _unary("sqrt")


@intrinsic
def total(typingctx, vec):  # type: ignore[no-untyped-def]
    """The sum of the values, by halves."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        value, width = args[0], signature.args[0].width
        int32 = ir.IntType(32)
        while width > 1 and width % 2 == 0:
            undefined = ir.Constant(value.type, ir.Undefined)
            halves = [
                builder.shuffle_vector(value, undefined, ir.Constant(ir.VectorType(int32, width // 2), list(lanes)))
                for lanes in (range(width // 2), range(width // 2, width))
            ]
            value, width = builder.fadd(*halves, flags=_FAST), width // 2
        result = builder.extract_element(value, ir.Constant(int32, 0))
        for lane in range(1, width):
            result = builder.fadd(result, builder.extract_element(value, ir.Constant(int32, lane)), flags=_FAST)
        return result

    return types.float32(vec), codegen


@intrinsic
def raise_maximum(typingctx, maxima, owners, offset, vec, owner):  # type: ignore[no-untyped-def]
    """Where `vec` is above the stored maxima, store it and write `owner` beside it; of equals the first stays."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        offset = context.cast(builder, args[2], signature.args[2], types.int64)
        owner = context.cast(builder, args[4], signature.args[4], types.int32)
        width = signature.args[3].width
        values = _pointer(context, builder, signature.args[0], args[0], offset, args[3].type)
        ids = _pointer(context, builder, signature.args[1], args[1], offset, ir.VectorType(ir.IntType(32), width))
        before = builder.load(values, align=4)
        is_above = builder.fcmp_ordered(">", args[3], before)
        bits = builder.bitcast(is_above, ir.IntType(width))
        with builder.if_then(builder.icmp_unsigned("!=", bits, ir.Constant(ir.IntType(width), 0))):
            builder.store(builder.select(is_above, args[3], before), values, align=4)
            before_ids = builder.load(ids, align=4)
            builder.store(builder.select(is_above, _splat(builder, owner, width), before_ids), ids, align=4)
        return context.get_dummy_value()

    return types.none(maxima, owners, offset, vec, owner), codegen


@intrinsic
def where_owner(typingctx, owners, offset, owner, vec):  # type: ignore[no-untyped-def]
    """The values of `vec` where the stored owner is `owner`, else 0: the backward of the maximum."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        offset = context.cast(builder, args[1], signature.args[1], types.int64)
        owner = context.cast(builder, args[2], signature.args[2], types.int32)
        width = signature.args[3].width
        ids = _pointer(context, builder, signature.args[0], args[0], offset, ir.VectorType(ir.IntType(32), width))
        is_own = builder.icmp_signed("==", builder.load(ids, align=4), _splat(builder, owner, width))
        return builder.select(is_own, args[3], ir.Constant(args[3].type, None))

    return vec(owners, offset, owner, vec), codegen


@intrinsic
def take_number(typingctx, counter):  # type: ignore[no-untyped-def]
    """The counter's first value, which goes up by one: threads share out work with it."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.atomic_rmw("add", data, ir.Constant(ir.IntType(64), 1), "monotonic")

    return types.int64(counter), codegen
