"""The table of scalar operations: dtype rule, NumPy meaning, spelling, cost.

Operands have been promoted to one dtype by the front-end (the dtype rule says what of it an
operation takes). Every operation is total: integers wrap, what C leaves undefined gives what
NumPy gives (integer division by zero is 0, shifts past the width give 0 or the sign), and
negative integer exponents, which NumPy refuses, give 1 / x**n rounded towards zero.

A spelling is a template with `{0}`, `{1}`, `{2}` for the operands, each an expression without
side effects; it is parenthesised, may name helpers (`weft.ops.helpers`), and needs gcc's or
clang's `-fwrapv -ffp-contract=off -fno-math-errno -fno-trapping-math`, of which the last two
let loops vectorise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Literal, TypeAlias

import numpy as np

from weft.errors import DTypeError, InternalError
from weft.ops import evaluate
from weft.ops.casts import cast_numpy, cast_spell
from weft.ops.dialects import (
    LIBMVEC,
    TYPEDEFS,
    UNSIGNED,
    Dialect,
    call_name,
    libm_functions,
    libm_prototype,
    libmvec_since,
    type_name,
)
from weft.ops.dtypes import DType
from weft.ops.helpers import needed_helpers
from weft.records import dataclass

__all__ = [
    "LIBMVEC", "TABLE", "TYPEDEFS", "Cost", "Dialect", "Operation", "cast_numpy", "cast_spell",
    "libm_functions", "libm_prototype", "libmvec_since", "lookup", "needed_helpers",
    "type_name",
]  # fmt: skip

Cost: TypeAlias = Literal["cheap", "moderate", "expensive"]
DTypes: TypeAlias = tuple[DType, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """A scalar operation.

    Attributes
    ----------
    accepts : frozenset of DType
        The dtypes of its operands (which are the same, but for the condition of `where`).
    numpy : callable
        Its meaning, on NumPy arrays and scalars: total and silent.
    cost : {"cheap", "moderate", "expensive"}
        cheap as an addition, moderate as a division, expensive as an exponential.
    function : str or None
        The function of <math.h> that is the whole spelling on floats, where one is.
    """

    name: str
    arity: int
    accepts: frozenset[DType]
    gives: Callable[[DType], DType]
    numpy: Callable[..., Any]
    cost: Cost
    spelling: Callable[[Dialect, DType], str]
    function: str | None = None

    @property
    def vector_math(self) -> bool:
        """Whether libmvec has a vector form of `function`."""
        return self.function in LIBMVEC

    def result(self, dtypes: DTypes) -> DType:
        """The dtype of the result.

        Raises
        ------
        DTypeError
            For dtypes that the operation does not take, and for differing ones.
        """
        main = self._operand(dtypes)
        if main is None:
            found = f"{self.name} of {', '.join(str(dtype.numpy) for dtype in dtypes)}"
            names = " or ".join(str(d.numpy) for d in DType if d in self.accepts)
            raise DTypeError(found, f"{self.arity} operands of one dtype: {names}")
        return self.gives(main)

    def _operand(self, dtypes: DTypes) -> DType | None:
        """The common dtype, or None where the operands do not fit."""
        if len(dtypes) != self.arity:
            return None
        if self.name == "where":
            if dtypes[0] is not DType.BOOL:
                return None
            dtypes = dtypes[1:]
        main = dtypes[0]
        return main if main in self.accepts and all(d is main for d in dtypes) else None

    def spell(self, dialect: Dialect, dtypes: DTypes) -> str:
        """The template of the operation on operands of these dtypes.

        Raises
        ------
        UnsupportedError
            For complex dtypes outside C.
        """
        return _spelled(self.name, dialect, dtypes)

    def libm(self, dtypes: DTypes) -> tuple[str, ...]:
        """The C library's functions that the C spelling and its helpers call."""
        text = self.spell("c", dtypes)
        return libm_functions("\n".join((text, *needed_helpers("c", text))))


@cache
def _spelled(name: str, dialect: Dialect, dtypes: DTypes) -> str:
    operation = TABLE[name]
    result = operation.result(dtypes)
    for dtype in (*dtypes, result):
        type_name(dialect, dtype)
    text = operation.spelling(dialect, dtypes[-1])
    if result.is_integer and result.itemsize < 4 and not text.startswith("weft_"):
        text = f"(({type_name(dialect, result)}){text})"  # C computes in int
    return text


def lookup(name: str) -> Operation:
    """The operation of a name; `InternalError` where there is none."""
    operation = TABLE.get(name)
    if operation is None:
        raise InternalError(f"no scalar operation is named {name!r}")
    return operation


# ---------------------------------------------------------------- spellings

def _by_kind(**texts: str) -> Callable[[Dialect, DType], str]:
    """A spelling for each group of kinds ("iu", "f", ...); `@` is the dtype's name."""
    table = {kind: text for kinds, text in texts.items() for kind in kinds}

    def spelling(dialect: Dialect, dtype: DType) -> str:
        return table[dtype.kind].replace("@", dtype.value)

    return spelling


def _arithmetic(symbol: str, **others: str) -> Callable[[Dialect, DType], str]:
    """An operator on integers (wrapping) and floats."""
    other = _by_kind(**others) if others else None

    def spelling(dialect: Dialect, dtype: DType) -> str:
        if other is not None and dtype.kind in "".join(others):
            return other(dialect, dtype)
        plain = f"({{0}} {symbol} {{1}})"
        if dialect == "c" or not dtype.is_signed:  # C has -fwrapv
            return plain
        unsigned = type_name(dialect, UNSIGNED[dtype])
        return f"({type_name(dialect, dtype)})(({unsigned}){{0}} {symbol} ({unsigned}){{1}})"

    return spelling


def _negative(dialect: Dialect, dtype: DType) -> str:
    if not dtype.is_integer or dialect == "c":
        return "(-{0})"
    name = type_name(dialect, dtype)
    return f"({name})(({type_name(dialect, UNSIGNED.get(dtype, dtype))})0 - {{0}})"


def _function(name: str, arity: int = 1, **others: str) -> Callable[[Dialect, DType], str]:
    """A function of <math.h> on floats (`c` + its name on complex numbers)."""
    other = _by_kind(**others)
    arguments = ", ".join(f"{{{k}}}" for k in range(arity))

    def spelling(dialect: Dialect, dtype: DType) -> str:
        if dtype.kind in "".join(others):
            return other(dialect, dtype)
        prefix = "c" if dtype.is_complex else ""
        return f"{call_name(dialect, prefix + name, dtype)}({arguments})"

    return spelling


def _absolute(dialect: Dialect, dtype: DType) -> str:
    match dtype.kind:
        case "b" | "u":
            return "{0}"
        case "f":
            return f"{call_name(dialect, 'fabs', dtype)}({{0}})"
        case _:
            return f"weft_abs_{dtype}({{0}})"


def _scaled_log(base: str, scale: str) -> Callable[[Dialect, DType], str]:
    return _function(base, c=f"weft_scaled_log_@({{0}}, {scale})")


def _signbit(dialect: Dialect, dtype: DType) -> str:
    one = f"({type_name(dialect, dtype)})1"
    return f"({call_name(dialect, 'copysign', dtype)}({one}, {{0}}) < 0)"


def _reciprocal(dialect: Dialect, dtype: DType) -> str:
    if dtype.is_complex:
        return f"weft_reciprocal_{dtype}({{0}})"
    return f"(({type_name(dialect, dtype)})1 / {{0}})"


def _zero_imaginary(dialect: Dialect, dtype: DType) -> str:
    return "(__imag__ {0})" if dtype.is_complex else f"(({type_name(dialect, dtype)})0)"


def _sign_unsigned(dialect: Dialect, dtype: DType) -> str:
    match dtype.kind:
        case "u":
            return f"(({type_name(dialect, dtype)})({{0}} != 0))"
        case "i":
            return f"(({type_name(dialect, dtype)})(({{0}} > 0) - ({{0}} < 0)))"
        case _:
            return f"weft_sign_{dtype}({{0}})"


# ---------------------------------------------------------------- the table


def _kinds(kinds: str) -> frozenset[DType]:
    return frozenset(dtype for dtype in DType if dtype.kind in kinds)


def _same(dtype: DType) -> DType:
    return dtype


def _boolean(dtype: DType) -> DType:
    return DType.BOOL


def _real(dtype: DType) -> DType:
    return dtype.real


def _complex(dtype: DType) -> DType:
    return dtype.complex


def _row(
    name: str,
    arity: int,
    kinds: str,
    numpy: Callable[..., Any],
    spelling: Callable[[Dialect, DType], str],
    cost: Cost = "cheap",
    gives: Callable[[DType], DType] = _same,
    function: str | None = None,
) -> Operation:
    silent = evaluate.quiet(numpy)
    return Operation(name, arity, _kinds(kinds), gives, silent, cost, spelling, function)


def _math(name: str, kinds: str = "fc", base: str | None = None, arity: int = 1) -> Operation:
    """An expensive function that NumPy and <math.h> share."""
    base = base or name
    numpy = getattr(np, {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2",
                         "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh"}
                    .get(name, name))  # fmt: skip
    return _row(name, arity, kinds, numpy, _function(base, arity), "expensive", function=base)


def _comparison(name: str, symbol: str, kinds: str = "biuf") -> Operation:
    text = f"({{0}} {symbol} {{1}})"
    return _row(name, 2, kinds, getattr(np, name), _by_kind(biufc=text), gives=_boolean)


def _rounding(name: str, base: str, numpy: Callable[..., Any], **others: str) -> Operation:
    spelling = _function(base, 1, iu="{0}", **others)
    kinds = "iuf" + "".join(others)
    return _row(name, 1, kinds, evaluate.rounding(numpy), spelling)


_ELEMENTARY = (
    "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh",
    "asin", "acos", "atan", "asinh", "acosh", "atanh",
)  # fmt: skip


def _arithmetic_rows() -> Iterable[Operation]:
    yield _row("add", 2, "biufc", np.add, _arithmetic("+", b="({0} | {1})"))
    yield _row("subtract", 2, "iufc", np.subtract, _arithmetic("-"))
    times = _arithmetic("*", b="({0} & {1})", c="weft_multiply_@({0}, {1})")
    yield _row("multiply", 2, "biufc", np.multiply, times)
    quotient = _by_kind(f="({0} / {1})", c="weft_divide_@({0}, {1})")
    yield _row("divide", 2, "fc", np.divide, quotient, "moderate")
    for name in ("floor_divide", "remainder"):
        numpy = getattr(np, name)
        yield _row(name, 2, "iuf", numpy, _by_kind(iuf=f"weft_{name}_@({{0}}, {{1}})"), "moderate")
    to_the = _function("pow", 2, iuc="weft_pow_@({0}, {1})")
    yield _row("pow", 2, "iufc", evaluate.power, to_the, "expensive", function="pow")
    yield _row("negative", 1, "iufc", np.negative, _negative)
    yield _row("positive", 1, "iufc", np.positive, _by_kind(iufc="{0}"))
    yield _row("abs", 1, "biufc", np.absolute, _absolute, gives=_real)
    squared = _arithmetic("*", c="weft_multiply_@({0}, {0})")
    square = lambda dialect, dtype: squared(dialect, dtype).replace("{1}", "{0}")  # noqa: E731
    yield _row("square", 1, "iufc", np.square, square)
    yield _row("reciprocal", 1, "fc", np.reciprocal, _reciprocal, "moderate")
    yield _row("sign", 1, "iufc", np.sign, _sign_unsigned)
    fused = _function("fma", 3)
    yield _row("fma", 3, "f", evaluate.fused_multiply_add, fused)
    for name in ("maximum", "minimum"):
        logical = "({0} | {1})" if name == "maximum" else "({0} & {1})"
        texts = {"b": logical, "iuf": f"weft_{name}_@({{0}}, {{1}})"}
        yield _row(name, 2, "biuf", getattr(np, name), _by_kind(**texts))
        short, text = ("fmax", "weft_fmax_@") if name == "maximum" else ("fmin", "weft_fmin_@")
        texts = {"b": logical, "iu": f"weft_{name}_@({{0}}, {{1}})", "f": text + "({0}, {1})"}
        yield _row(short, 2, "biuf", getattr(np, short), _by_kind(**texts))


def _logical_rows() -> Iterable[Operation]:
    binary = "({0} SYMBOL {1})"
    for name, symbol in (("less", "<"), ("less_equal", "<="), ("greater", ">")):
        yield _comparison(name, symbol)
    yield _comparison("greater_equal", ">=")
    yield _comparison("equal", "==", "biufc")
    yield _comparison("not_equal", "!=", "biufc")
    for name, symbol in (("and", "&"), ("or", "|"), ("xor", "^")):
        text = binary.replace("SYMBOL", symbol)
        yield _row(f"logical_{name}", 2, "b", getattr(np, f"logical_{name}"), _by_kind(b=text))
        yield _row(f"bitwise_{name}", 2, "biu", getattr(np, f"bitwise_{name}"), _by_kind(biu=text))
    yield _row("logical_not", 1, "b", np.logical_not, _by_kind(b="(!{0})"))
    yield _row("bitwise_invert", 1, "biu", np.invert, _by_kind(b="(!{0})", iu="(~{0})"))
    left, right = _by_kind(iu="weft_shift_left_@({0}, {1})"), "weft_shift_right_@({0}, {1})"
    yield _row("bitwise_left_shift", 2, "iu", np.left_shift, left)
    yield _row("bitwise_right_shift", 2, "iu", np.right_shift, _by_kind(iu=right))
    either = _by_kind(biuf="({0} ? {1} : {2})", c="weft_where_@({0}, {1}, {2})")
    yield _row("where", 3, "biufc", evaluate.select, either)


def _part_rows() -> Iterable[Operation]:
    """Rounding, and the parts of floats and complex numbers."""
    yield _rounding("floor", "floor", np.floor, b="{0}")
    yield _rounding("ceil", "ceil", np.ceil, b="{0}")
    yield _rounding("trunc", "trunc", np.trunc, b="{0}")
    yield _rounding("round", "rint", np.rint, c="weft_round_@({0})")
    nan = _by_kind(biu="((void){0}, 0)", fc="weft_isnan_@({0})")
    inf = _by_kind(biu="((void){0}, 0)", fc="weft_isinf_@({0})")
    finite = _by_kind(biu="((void){0}, 1)", f="({0} - {0} == 0)", c="weft_isfinite_@({0})")
    yield _row("isnan", 1, "biufc", np.isnan, nan, gives=_boolean)
    yield _row("isinf", 1, "biufc", np.isinf, inf, gives=_boolean)
    yield _row("isfinite", 1, "biufc", np.isfinite, finite, gives=_boolean)
    yield _row("signbit", 1, "f", np.signbit, _signbit, gives=_boolean)
    yield _row("copysign", 2, "f", np.copysign, _function("copysign", 2))
    after = _function("nextafter", 2)
    yield _row("nextafter", 2, "f", np.nextafter, after, "moderate", function="nextafter")
    yield _row("conj", 1, "iufc", np.conjugate, _by_kind(iuf="{0}", c="(~{0})"))
    yield _row("real", 1, "biufc", np.real, _by_kind(biuf="{0}", c="(__real__ {0})"), gives=_real)
    yield _row("imag", 1, "biufc", np.imag, _zero_imaginary, gives=_real)
    pair = _by_kind(f="__builtin_complex({0}, {1})")
    yield _row("complex", 2, "f", evaluate.make_complex, pair, gives=_complex)


def _function_rows() -> Iterable[Operation]:
    yield _row("sqrt", 1, "fc", np.sqrt, _function("sqrt"), "moderate")
    for name in _ELEMENTARY:
        yield _math(name)
    yield _math("cbrt", "f")
    yield _math("atan2", "f", arity=2)
    yield _math("hypot", "f", arity=2)
    yield _row("erf", 1, "f", evaluate.erf, _function("erf"), "expensive", function="erf")
    yield _row("erfc", 1, "f", evaluate.erfc, _function("erfc"), "expensive", function="erfc")
    complex_forms = {
        "exp2": _function("exp2", c="weft_exp2_@({0})"),
        "expm1": _function("expm1", c="weft_expm1_@({0})"),
        "log1p": _function("log1p", c="weft_log1p_@({0})"),
        "log2": _scaled_log("log2", "1.44269504088896340735992468100189214"),
        "log10": _scaled_log("log10", "0.434294481903251827651128918916605082"),
    }
    for name, spelling in complex_forms.items():
        yield _row(name, 1, "fc", getattr(np, name), spelling, "expensive", function=name)
    sums = _by_kind(f="weft_logaddexp_@({0}, {1})")
    yield _row("logaddexp", 2, "f", np.logaddexp, sums, "expensive")


TABLE: dict[str, Operation] = {
    operation.name: operation
    for operation in (*_arithmetic_rows(), *_logical_rows(), *_part_rows(), *_function_rows())
}
