"""Elementwise functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from weft.array import Array, fitting, node_of
from weft.errors import ArgumentError, user_place
from weft.frontend import layout
from weft.frontend.elementwise import apply, as_dtype, common_dtype, out_of_range, python_value
from weft.frontend.extent import Extent
from weft.ops.dtypes import DType
from weft.ops.promotion import promote

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "fma",
    "fmax",
    "fmin",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "where",
]  # fmt: skip


def _unary(name: str) -> Callable[[Any], Array]:
    def function(x: Any, /) -> Array:
        return Array(apply(name, node_of(x)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""`{name}` of each element.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    weft.Array
        Of the shape of `x`.

    Raises
    ------
    DTypeError
        For a dtype on which `{name}` has no meaning.
    """
    return function


def _binary(name: str) -> Callable[[Any, Any], Array]:
    def function(x1: Any, x2: Any, /) -> Array:
        return Array(apply(name, *fitting.operands(name, x1, x2)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""`{name}` of each pair of elements.

    Parameters
    ----------
    x1, x2 : array_like
        Of shapes that broadcast; dtypes are promoted, Python scalars are weak.

    Returns
    -------
    weft.Array

    Raises
    ------
    ShapeError, DTypeError
        When shapes do not broadcast, or dtypes have no such operation.
    """
    return function


abs = _unary("abs")
acos = _unary("acos")
acosh = _unary("acosh")
asin = _unary("asin")
asinh = _unary("asinh")
atan = _unary("atan")
atanh = _unary("atanh")
bitwise_invert = _unary("bitwise_invert")
cbrt = _unary("cbrt")
ceil = _unary("ceil")
conj = _unary("conj")
cos = _unary("cos")
cosh = _unary("cosh")
erf = _unary("erf")
erfc = _unary("erfc")
exp = _unary("exp")
exp2 = _unary("exp2")
expm1 = _unary("expm1")
floor = _unary("floor")
imag = _unary("imag")
isfinite = _unary("isfinite")
isinf = _unary("isinf")
isnan = _unary("isnan")
log = _unary("log")
log1p = _unary("log1p")
log2 = _unary("log2")
log10 = _unary("log10")
logical_not = _unary("logical_not")
nearest = _unary("round")  # integers, the even one of two; `weft.round` has decimals, too
negative = _unary("negative")
positive = _unary("positive")
real = _unary("real")
sign = _unary("sign")
signbit = _unary("signbit")
sin = _unary("sin")
sinh = _unary("sinh")
square = _unary("square")
sqrt = _unary("sqrt")
tan = _unary("tan")
tanh = _unary("tanh")
trunc = _unary("trunc")

add = _binary("add")
atan2 = _binary("atan2")
bitwise_and = _binary("bitwise_and")
bitwise_left_shift = _binary("bitwise_left_shift")
bitwise_or = _binary("bitwise_or")
bitwise_right_shift = _binary("bitwise_right_shift")
bitwise_xor = _binary("bitwise_xor")
copysign = _binary("copysign")
divide = _binary("divide")
equal = _binary("equal")
floor_divide = _binary("floor_divide")
fmax = _binary("fmax")
fmin = _binary("fmin")
greater = _binary("greater")
greater_equal = _binary("greater_equal")
hypot = _binary("hypot")
less = _binary("less")
less_equal = _binary("less_equal")
logaddexp = _binary("logaddexp")
logical_and = _binary("logical_and")
logical_or = _binary("logical_or")
logical_xor = _binary("logical_xor")
maximum = _binary("maximum")
minimum = _binary("minimum")
multiply = _binary("multiply")
nextafter = _binary("nextafter")
not_equal = _binary("not_equal")
pow = _binary("pow")
remainder = _binary("remainder")
subtract = _binary("subtract")


def reciprocal(x: Any, /) -> Array:
    """1 / x of each element; of integers the whole part, which is 0 of 0, too.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    weft.Array
        Of the shape of `x`, and its dtype; int8 of booleans.
    """
    node = node_of(x)
    if node.dtype.kind not in "biu":
        return Array(apply("reciprocal", node))
    node = as_dtype(node, DType.I8) if node.dtype is DType.BOOL else node
    whole = apply("equal", apply("abs", node), node_of(1))
    return Array(apply("where", whole, node, node_of(0)))


def fma(x1: Any, x2: Any, x3: Any, /) -> Array:
    """x1 * x2 + x3 of each triple of elements, rounded once.

    Nothing else is contracted so: where that is meant, as in a polynomial by Horner's rule,
    this is faster and more accurate than `x1 * x2 + x3`.

    Parameters
    ----------
    x1, x2, x3 : array_like
        Real, of shapes that broadcast; dtypes are promoted, Python scalars are weak.

    Returns
    -------
    weft.Array

    Raises
    ------
    ShapeError, DTypeError
        When shapes do not broadcast, or for complex numbers.
    """
    return Array(apply("fma", node_of(x1), node_of(x2), node_of(x3)))


def where(condition: Any, x1: Any, x2: Any, /) -> Array:
    """x1 where the condition holds, else x2; the three broadcast together.

    Parameters
    ----------
    condition : array
        Numbers hold where they are not 0.
    x1, x2 : array or Python scalar
        The result has the dtype that both promote to.

    Raises
    ------
    ShapeError
        For shapes that do not broadcast together.
    """
    test = as_dtype(node_of(condition), DType.BOOL)
    return Array(apply("where", test, node_of(x1), node_of(x2)))


def clip(x: Any, /, min: Any = None, max: Any = None) -> Array:
    """x, but min where it is less, and max where it is greater; NaN stays.

    The result has the dtype of `x`; fractions of limits of integers are cut off.

    Raises
    ------
    IntegerRangeError
        For a limit beyond which all integers of the dtype of `x` are.
    """
    node = node_of(x)
    dtype = node.dtype
    for bound, operation, beyond in ((min, "maximum", "less"), (max, "minimum", "greater")):
        if bound is None:
            continue
        if dtype.is_complex:
            raise ArgumentError("clip of complex numbers", "real ones", place=user_place())
        if dtype.is_integer and isinstance(bound, float):
            if bound != bound:
                continue
            bound = int(bound if math.isfinite(bound) else math.copysign(2**64, bound))
        limit = node_of(bound)
        if dtype.is_integer and isinstance(bound, int | Extent) and not _held(bound, dtype):
            if (bound < 0) == (operation == "maximum"):
                continue  # nothing is beyond it
            raise out_of_range(int(bound), dtype.numpy)
        if limit.dtype.is_float and dtype.is_integer:  # compared: floats do not hold all ints
            node = apply("where", apply(beyond, node, limit), as_dtype(limit, dtype), node)
        else:
            wide = common_dtype((node, limit))
            if limit.weak and limit.dtype is DType.I64 and python_value(limit) is None:
                wide = wide if wide is DType.U64 else promote(wide, DType.I64)  # which holds it
            node = apply(operation, as_dtype(node, wide), as_dtype(limit, wide))
    return Array(as_dtype(layout.broadcast(node, node.shape), dtype))


def _held(bound: Any, dtype: DType) -> bool:
    """Whether integers of a dtype hold an int, which may be one of this call."""
    return bool(getattr(bound, "symbols", ())) or fitting.holds(dtype.numpy, bound)
