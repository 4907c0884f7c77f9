"""Random scalar code of FUN that means the same in any order of evaluation.

What depends on rounding (sums that are not exact, exponentials) flows only into results,
never into a comparison, a conversion to integers or a difference. For that each float is
known to be a multiple of 1/4 below some power of two (`bits`), or to be inexact (None).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from programs.random_data import neutral
from weft.fun import nodes as fun
from weft.fun.builder import Builder
from weft.ops import table
from weft.ops.dtypes import DType
from weft.sizes import Poly, Size, as_poly

I64 = fun.Scalar(DType.I64)
FLOAT_BITS = {DType.F32: 20, DType.F64: 48}  # below this a sum of multiples of 1/4 is exact

_UNARY = (
    "negative", "abs", "square", "sign", "floor", "ceil", "trunc", "round", "isnan", "isinf",
    "isfinite", "logical_not", "bitwise_invert", "sqrt", "exp", "log", "sin", "tanh", "atan",
)  # fmt: skip
_INEXACT = {"sqrt", "exp", "log", "sin", "tanh", "atan", "square"}
_COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
_BINARY = {
    "b": ("logical_and", "logical_or", "logical_xor", "equal", "not_equal", "where"),
    "i": ("add", "subtract", "multiply", "floor_divide", "remainder", "minimum", "maximum",
          "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift",
          "bitwise_right_shift", "where", *_COMPARISONS),
    "f": ("add", "subtract", "multiply", "minimum", "maximum", "where", *_COMPARISONS),
}  # fmt: skip
_BINARY["u"] = _BINARY["i"]
# Parts of complex numbers stay apart: products of infinities and NaN are the C library's.
_BINARY["c"] = ("add", "subtract", "equal", "not_equal", "where")
_UNARY_COMPLEX = ("negative", "conj", "real", "imag", "abs", "isnan", "isfinite")


@dataclass
class Known:
    """An array or scalar in scope, and how exact its floats are."""

    var: fun.Atom
    bits: int | None  # None: inexact; for integers and booleans 0

    @property
    def dtype(self) -> DType:
        return self.var.type.dtype

    @property
    def shape(self) -> tuple[Size, ...]:
        return self.var.type.shape if isinstance(self.var.type, fun.Array) else ()

    @property
    def exact(self) -> bool:
        return self.bits is not None


@dataclass
class Generator:
    """Grows a program statement by statement; `draw` makes every decision."""

    draw: Callable[[Any], Any]
    dtypes: tuple[DType, ...]
    sizes: dict[str, int]
    builder: Builder
    arrays: list[Known] = field(default_factory=list)

    # ------------------------------------------------------------ decisions

    def pick(self, items: Any) -> Any:
        return self.draw(st.sampled_from(list(items)))

    def number(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def chance(self) -> bool:
        return bool(self.draw(st.booleans()))

    def array(self, suits: Callable[[Known], bool] = lambda known: True) -> Known | None:
        found = [known for known in self.arrays if suits(known)]
        return self.pick(found) if found else None

    def value(self, size: Size) -> int:
        return size.evaluate(self.sizes)

    def space(self, shape: tuple[Size, ...]) -> tuple[fun.Range, ...]:
        return tuple(fun.Range(self.builder.index(), extent) for extent in shape)

    def add(self, expr: fun.Expr, *results: tuple[DType, tuple[Size, ...], int | None]) -> None:
        types = tuple(
            fun.Array(dtype, shape) if shape else fun.Scalar(dtype) for dtype, shape, _ in results
        )
        pattern = self.builder.bind(expr, types)
        for var, (_, shape, bits) in zip(pattern, results, strict=True):
            if shape:
                self.arrays.append(Known(var, bits))

    # ------------------------------------------------------------ scalar code

    def read(self, inner: Builder, known: Known, indices: tuple[Size, ...]) -> Known:
        """Read an array at indices that match its shape from the right (0 where it is 1)."""
        own = indices[len(indices) - len(known.shape) :]
        at = tuple(as_poly(0) if s == 1 else i for s, i in zip(known.shape, own, strict=True))
        assert isinstance(known.var, fun.Var)
        return Known(inner.let(fun.Index(known.var, at), fun.Scalar(known.dtype), "x"), known.bits)

    def cast(self, inner: Builder, known: Known, dtype: DType) -> Known | None:
        if known.dtype is dtype:
            return known
        bits = self.cast_bits(known, dtype)
        if bits == -1:
            return None
        cast = inner.let(fun.Cast(dtype, known.var), fun.Scalar(dtype), "c")
        return Known(cast, bits)

    def cast_bits(self, known: Known, dtype: DType) -> int | None:
        """The bits after a cast; -1 where it is not allowed."""
        source = known.dtype
        if not dtype.is_float:
            return 0 if known.exact else -1
        if not known.exact:
            return None
        assert known.bits is not None
        bits = known.bits if source.is_float else 8 * source.itemsize + 2
        return bits if bits <= FLOAT_BITS[dtype] else None

    def constant(self, dtype: DType) -> Known:
        match dtype.kind:
            case "b":
                return Known(fun.Const(self.chance(), dtype), 0)
            case "f":
                value = self.pick([0.0, -0.0, 1.0, -1.5, 0.25, 3.0, np.nan, np.inf, -np.inf])
                return Known(fun.Const(float(value), dtype), 5)
            case _:
                low = -5 if dtype.is_signed else 0
                return Known(fun.Const(self.number(low, 7), dtype), 0)

    def scalar(self, inner: Builder, known: list[Known]) -> Known:
        """One more scalar operation on known scalars."""
        left = self.pick(known)
        operation, arguments, bits = self.operation(inner, left, known)
        dtypes = tuple(argument.dtype for argument in arguments)
        result = table.lookup(operation).result(dtypes)
        expr = fun.Apply(operation, tuple(argument.var for argument in arguments))
        return Known(inner.let(expr, fun.Scalar(result)), bits if result.is_float else 0)

    def partner(self, inner: Builder, left: Known, known: list[Known]) -> Known:
        for _ in range(2):
            right = self.cast(inner, self.pick(known), left.dtype)
            if right is not None and right.exact:
                return right
        return self.constant(left.dtype)

    def operation(
        self, inner: Builder, left: Known, known: list[Known]
    ) -> tuple[str, list[Known], int | None]:
        dtype = left.dtype
        if not left.exact:
            name = self.pick(["negative", "abs", "isnan", "maximum", "minimum"])
            if name in ("maximum", "minimum"):
                return name, [left, self.partner(inner, left, known)], None
            return name, [left], None
        if dtype.is_complex and self.chance():
            name = self.pick(_UNARY_COMPLEX)
            return name, [left], None if name == "abs" else 12
        unary = [name for name in _UNARY if dtype in table.lookup(name).accepts]
        if not dtype.is_complex and unary and self.number(0, 2) == 0:
            name = self.pick(unary)
            return name, [left], None if name in _INEXACT else left.bits
        binary = [name for name in _BINARY[dtype.kind] if dtype in table.lookup(name).accepts]
        name = self.pick(binary)
        right = self.partner(inner, left, known)
        if name == "where":
            conditions = [k for k in known if k.dtype is DType.BOOL]
            condition = self.pick(conditions) if conditions else self.constant(DType.BOOL)
            return name, [condition, left, right], self.wider(left, right, 0)
        if name == "multiply":
            return name, [left, right], self.limited(dtype, (left.bits or 0) + (right.bits or 0))
        return name, [left, right], self.wider(left, right, 1)

    def limited(self, dtype: DType, bits: int) -> int | None:
        if not dtype.is_float:
            return 0
        return bits if bits <= FLOAT_BITS[dtype] else None

    def wider(self, left: Known, right: Known, more: int) -> int | None:
        if left.bits is None or right.bits is None:
            return None
        return self.limited(left.dtype, max(left.bits, right.bits) + more)

    def code(self, inner: Builder, known: list[Known], most: int = 3) -> Known:
        """Several operations; one of their results."""
        for _ in range(self.number(0, most)):
            known = [*known, self.scalar(inner, known)]
        return known[-1]

    def fused(self, shape: tuple[Size, ...]) -> tuple[tuple[fun.Range, ...], Builder, list[Known]]:
        """A space of a shape, a body inside it, and scalars read there from arrays."""
        space = self.space(shape)
        inner = self.builder.inner()
        indices = tuple(Poly.var(r.index.name) for r in space)
        fitting = [known for known in self.arrays if self.fits(known.shape, shape)]
        count = self.number(1, 3) if fitting else 0
        scalars = [self.read(inner, self.pick(fitting), indices) for _ in range(count)]
        if not scalars or self.number(0, 4) == 0:
            at = self.pick(indices)
            scalars.append(Known(inner.let(fun.SizeValue(at), I64, "s"), 0))
        return space, inner, scalars

    def fits(self, own: tuple[Size, ...], shape: tuple[Size, ...]) -> bool:
        """Whether a shape broadcasts to another."""
        if len(own) > len(shape):
            return False
        tail = shape[len(shape) - len(own) :]
        return all(a == b or a == 1 for a, b in zip(own, tail, strict=True))

    def operator(self, names: tuple[str, ...], types: tuple[fun.Scalar, ...]) -> fun.Lambda:
        """An operator that applies a scalar operation to each component."""
        left = [self.builder.var("l", type_) for type_ in types]
        right = [self.builder.var("r", type_) for type_ in types]
        inner = self.builder.inner()
        results = [
            inner.let(fun.Apply(name, (a, b)), type_)
            for name, a, b, type_ in zip(names, left, right, types, strict=True)
        ]
        return fun.Lambda((*left, *right), inner.body(results))

    def associative(self, known: Known, extent: int) -> tuple[str, fun.Const, int | None]:
        """An associative operation for values, its neutral element, and the result's bits."""
        dtype = known.dtype
        names = ["add"] if dtype.is_complex else ["minimum", "maximum"]
        if dtype.kind == "b":
            names += ["logical_and", "logical_or"]
        elif known.exact and not dtype.is_complex:
            names += ["add", "add"] + (["multiply"] if dtype.is_integer else [])
        name = self.pick(names)
        bits = known.bits
        if name == "add" and bits is not None:
            bits = self.limited(dtype, bits + extent.bit_length())
        return name, neutral(name, dtype), bits
