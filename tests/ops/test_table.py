"""Every operation, cast and dtype: the compiled C spelling agrees with NumPy's meaning."""

from __future__ import annotations

import ctypes
import math
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import DTypeError, InternalError, UnsupportedError
from weft.ops.dtypes import DType
from weft.ops.table import (
    TABLE,
    TYPEDEFS,
    Operation,
    cast_numpy,
    cast_spell,
    libm_functions,
    libm_prototype,
    libmvec_since,
    lookup,
    needed_helpers,
    type_name,
)

FLAGS = ["-O2", "-march=native", "-fwrapv", "-fno-math-errno", "-fno-trapping-math"]
FLAGS += ["-ffp-contract=off", "-w"]
CASES = [(name, dtype) for name, op in TABLE.items() for dtype in sorted(op.accepts, key=str)]
CASTS = [(source, target) for source in DType for target in DType]

WITH_CONSTANT = [
    (name, dtype, constant)
    for name in ("maximum", "minimum")
    for dtype in (DType.F32, DType.F64)
    for constant in ("0.0", "-0.0", "1.0", "__builtin_inf()", '__builtin_nan("")')
]


def with_constant(name: str, dtype: DType, constant: str) -> str:
    """The name of the loop over an operation whose second operand is a constant."""
    return f"{name}_{dtype}_{WITH_CONSTANT.index((name, dtype, constant))}"


def operands_of(operation: Operation, dtype: DType) -> tuple[DType, ...]:
    if operation.name == "where":
        return (DType.BOOL, dtype, dtype)
    return (dtype,) * operation.arity


def loop(name: str, template: str, dtypes: tuple[DType, ...], result: DType) -> str:
    """A C function that applies an operation to arrays, as generated code would."""
    names = [type_name("c", d) for d in dtypes]
    params = [f"const {type_} *a{k}" for k, type_ in enumerate(names)]
    loads = " ".join(f"const {type_} x{k} = a{k}[i];" for k, type_ in enumerate(names))
    call = template.format(*(f"x{k}" for k in range(len(dtypes))))
    return (
        f"void {name}({', '.join(params)}, {type_name('c', result)} *out, int64_t n) {{\n"
        f"    for (int64_t i = 0; i < n; i++) {{ {loads} out[i] = {call}; }}\n}}\n"
    )


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder: Path = tmp_path_factory.mktemp("ops")
    loops = []
    for name, dtype in CASES:
        dtypes = operands_of(TABLE[name], dtype)
        template = TABLE[name].spell("c", dtypes)
        loops.append(loop(f"{name}_{dtype}", template, dtypes, TABLE[name].result(dtypes)))
    for name, dtype, constant in WITH_CONSTANT:
        literal = f"({type_name('c', dtype)}){constant}"
        template = TABLE[name].spell("c", (dtype, dtype)).format("{0}", literal)
        loops.append(loop(with_constant(name, dtype, constant), template, (dtype,), dtype))
    for source, target in CASTS:
        template = cast_spell("c", source, target)
        loops.append(loop(f"cast_{source}_{target}", template, (source,), target))
    body = "\n".join(loops)
    helpers = "\n".join(needed_helpers("c", body))
    prototypes = "\n".join(libm_prototype(name) for name in libm_functions(helpers + body))
    text = "\n".join((TYPEDEFS, prototypes, helpers, body))
    (folder / "ops.c").write_text(text)
    command = ["gcc", *FLAGS, "-shared", "-fPIC", "ops.c", "-o", "ops.so", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "ops.so"))


def call(library: ctypes.CDLL, name: str, result: DType, arguments: list[Any]) -> Any:
    arguments = [np.ascontiguousarray(a) for a in arguments]
    out = np.empty(arguments[0].shape, result.numpy)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*arguments, out)]
    getattr(library, name)(*pointers, ctypes.c_int64(out.size))
    return out


def edges(dtype: DType) -> Any:
    """The values where operations differ: zeros, ends of the range, halves, NaN, infinities."""
    match dtype.kind:
        case "b":
            return np.array([False, True])
        case "i" | "u":
            info = np.iinfo(dtype.numpy)
            bits = 8 * dtype.itemsize
            small = [-65, -3, -2, -1, 0, 1, 2, 3, 5, 7, bits - 1, bits, bits + 1, 100]
            values = [*small, info.min, info.min + 1, info.max - 1, info.max]
            inside = sorted({v for v in values if info.min <= v <= info.max})
            return np.array(inside, dtype.numpy)
        case "f":
            info = np.finfo(dtype.numpy)
            positive = [
                0.0, info.smallest_subnormal, info.tiny, 0.1, 0.5, 0.7, 1.0, 1.5, 2.0, 2.5, 3.0,
                7.25, 100.5, 1e6, 2.0**31, 2.0**33, 2.0**63, 2.0**64, info.max, np.inf,
            ]  # fmt: skip
            values = [*positive, *(-v for v in positive), np.nan]
            return np.array(values, dtype.numpy)
        case _:
            parts = np.array([0.0, -0.5, 0.75, 1.0, 2.0, -3.0, 11.5], dtype.real.numpy)
            real, imaginary = np.meshgrid(parts, parts)
            return (real + imaginary * dtype.numpy.type(1j)).ravel().astype(dtype.numpy)


def arguments_of(operation: Operation, dtype: DType) -> list[Any]:
    values = edges(dtype)
    if operation.name == "where":
        columns = np.meshgrid(np.array([False, True]), values, values)
    elif operation.arity == 3:
        columns = np.meshgrid(values[::2], values[1::2], values[::3])
    else:
        columns = np.meshgrid(*[values] * operation.arity)
    return [np.ascontiguousarray(column.ravel()) for column in columns]


EXACT = frozenset(
    {
        "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "negative",
        "positive", "abs", "square", "reciprocal", "sign", "maximum", "minimum", "fmax", "fmin",
        "floor", "ceil", "trunc", "round", "copysign", "nextafter", "conj", "real", "imag",
        "sqrt", "where",
    }
)  # fmt: skip


def assert_close(name: str, dtype: DType, got: Any, wanted: Any, arguments: list[Any]) -> None:
    assert got.dtype == wanted.dtype
    if got.dtype.kind in "biu" or (dtype.is_float and name in EXACT):
        same = (got == wanted) | ((got != got) & (wanted != wanted))
        if got.dtype.kind == "f" and name not in ("maximum", "minimum", "fmax", "fmin"):
            same &= (np.signbit(got) == np.signbit(wanted)) | (got != got)
    elif got.dtype.kind == "f":
        same = (got == wanted) | ((got != got) & (wanted != wanted))
        with np.errstate(all="ignore"):
            units = np.abs(got - wanted) / np.spacing(np.abs(wanted))
        same |= units <= 4
    else:
        scale = 40 * np.finfo(got.dtype).eps
        with np.errstate(all="ignore"):
            same = np.abs(got - wanted) <= scale * np.maximum(np.abs(wanted), 1e-3)
        same |= ~np.isfinite(wanted) & ~np.isfinite(got)
        same |= got == wanted
    wrong = np.flatnonzero(~same)[:5]
    detail = [(*(a[k] for a in arguments), got[k], wanted[k]) for k in wrong]
    assert same.all(), f"{name} {dtype}: operands, C, NumPy: {detail}"


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_c_spelling_agrees_with_numpy(library: ctypes.CDLL, name: str, dtype: DType) -> None:
    operation = TABLE[name]
    arguments = arguments_of(operation, dtype)
    if dtype.is_complex and name in ("asin", "acos", "atan", "asinh", "acosh", "atanh", "log1p"):
        # On branch cuts the sign of zero decides, and libraries differ.
        keep = (arguments[0].imag != 0) & (arguments[0].real != 0)
        arguments = [a[keep] for a in arguments]
    result = operation.result(operands_of(operation, dtype))
    wanted = np.asarray(operation.numpy(*arguments))
    assert wanted.dtype == result.numpy
    got = call(library, f"{name}_{dtype}", result, arguments)
    assert_close(name, dtype, got, wanted, arguments)


@pytest.mark.parametrize(("source", "target"), CASTS)
def test_cast_agrees_with_numpy(library: ctypes.CDLL, source: DType, target: DType) -> None:
    values = edges(source)
    wanted = np.asarray(cast_numpy(target, values))
    got = call(library, f"cast_{source}_{target}", target, [values])
    np.testing.assert_array_equal(got, wanted)
    inside = values
    if source.is_float and target.is_integer:
        info = np.iinfo(target.numpy)
        inside = values[(values > float(info.min)) & (values < float(info.max))]
    if not (source.is_complex and target.kind in "iuf"):
        with np.errstate(all="ignore"):
            numpys = inside.astype(target.numpy)
        np.testing.assert_array_equal(np.asarray(cast_numpy(target, inside)), numpys)


@pytest.mark.parametrize("name", sorted(TABLE))
def test_numpy_side_takes_scalars_and_is_silent(name: str) -> None:
    operation = TABLE[name]
    for dtype in operation.accepts:
        dtypes = operands_of(operation, dtype)
        scalars = [d.numpy.type(0) for d in dtypes]
        with np.errstate(all="raise"):
            value = operation.numpy(*scalars)
        assert np.asarray(value).dtype == operation.result(dtypes).numpy
        assert np.ndim(value) == 0


@pytest.mark.parametrize("dialect", ["opencl", "cuda"])
def test_gpu_dialects_spell_all_but_complex(dialect: Any) -> None:
    for name, dtype in CASES:
        operation = TABLE[name]
        dtypes = operands_of(operation, dtype)
        if dtype.is_complex or name == "complex":
            with pytest.raises(UnsupportedError):
                operation.spell(dialect, dtypes)
        else:
            text = operation.spell(dialect, dtypes)
            assert "__builtin" not in text.join(needed_helpers(dialect, text))


def test_dtype_rules_refuse_what_an_operation_does_not_take() -> None:
    with pytest.raises(DTypeError, match="sin of int64"):
        lookup("sin").result((DType.I64,))
    with pytest.raises(DTypeError):
        lookup("add").result((DType.I64, DType.I32))
    with pytest.raises(DTypeError):
        lookup("where").result((DType.I8, DType.F32, DType.F32))
    with pytest.raises(DTypeError):
        lookup("add").result((DType.F32,))
    with pytest.raises(InternalError):
        lookup("no_such_operation")


def test_helpers_come_with_those_they_call() -> None:
    texts = needed_helpers("c", "weft_pow_c64(a, b)")
    names = [next(w for w in text.split() if w.startswith("weft_")) for text in texts]
    assert [n.split("(")[0] for n in names] == [
        "weft_rounded", "weft_multiply_c64", "weft_divide_c64", "weft_pow_c64",
    ]  # fmt: skip


def test_libm_is_listed_with_its_vector_forms() -> None:
    assert lookup("logaddexp").libm((DType.F32, DType.F32)) == ("expf", "log1pf")
    assert lookup("add").libm((DType.F64, DType.F64)) == ()
    assert lookup("exp").vector_math
    assert not lookup("nextafter").vector_math
    assert libmvec_since("sinf") == (2, 22)
    assert libmvec_since("erf") == libmvec_since("erff") == (2, 35)
    assert libmvec_since("fmod") is None
    assert libm_prototype("erff") == "float erff(float);"
    assert libm_prototype("erf") == "double erf(double);"
    assert libm_prototype("cpowf") == (
        "float _Complex cpowf(float _Complex, float _Complex);"
    )  # fmt: skip


NEAR = st.builds(
    lambda digits, exponent: math.ldexp(digits, exponent),
    st.integers(-(2**53) + 1, 2**53 - 1), st.integers(-1130, 971),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(NEAR, NEAR, NEAR, st.sampled_from([np.float32, np.float64]), st.booleans())
def test_fused_multiply_add_rounds_once(
    x: float, y: float, z: float, dtype: Any, near: bool
) -> None:
    with np.errstate(all="ignore"):
        a, b, c = dtype(x), dtype(y), dtype(z)
        c = -(a * b) if near else c
        found = lookup("fma").numpy(a, b, c)
    assert found.dtype == dtype
    if not np.isfinite([a, b, c]).all():
        with np.errstate(all="ignore"):
            np.testing.assert_equal(found, c if np.isfinite([a, b]).all() else a * b + c)
        return
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if np.isfinite(found):
        below, above = (np.nextafter(found, dtype(end)) for end in (-np.inf, np.inf))
        off = abs(Fraction(float(found)) - exact)
        for other in (below, above):
            if np.isfinite(other):
                away = abs(Fraction(float(other)) - exact)
                even = int(found.view(f"u{found.itemsize}")) & 1 == 0
                assert off < away or (off == away and even)
    else:
        assert abs(exact) > np.finfo(dtype).max


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((1e308, 10.0, -np.inf), -np.inf), ((np.inf, 0.0, 1.0), np.nan), ((3.0, 2.0, -6.0), 0.0),
        ((-0.0, 1.0, -0.0), -0.0), ((-1e-200, 1e-200, 0.0), -0.0), ((1e300, 1e10, -1e308), np.inf),
        ((1e200, 1e150, -1e308), np.inf), ((2.0**1000, 2.0**24, -(2.0**1023)), 2.0**1023),
    ],
)  # fmt: skip
def test_fused_multiply_add_at_the_edges(arguments: tuple[float, ...], expected: float) -> None:
    found = lookup("fma").numpy(*map(np.float64, arguments))
    np.testing.assert_equal(found, expected)
    assert np.signbit(found) == np.signbit(expected) or np.isnan(expected)


def test_int_pow_of_negative_exponents_truncates() -> None:
    power = lookup("pow").numpy
    got = power(np.array([-2, -1, -1, 0, 1, 2]), np.array([-1, -3, -2, -1, -5, -1]))
    assert got.tolist() == [0, -1, 1, 0, 1, 0]


@pytest.mark.parametrize("dtype", [DType.C64, DType.C128])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_powers_of_infinite_complex_numbers(library: ctypes.CDLL, dtype: DType) -> None:
    """Small powers are products of the number alone: 1 * (inf - 2j) has no imaginary part."""
    parts = [-np.inf, -2.0, 0.0, 1.0, np.inf]
    base = np.array([complex(real, imaginary) for real in parts for imaginary in parts])
    for exponent in range(-1, 4):
        given = [base.astype(dtype.numpy), np.full(base.shape, exponent, dtype.numpy)]
        found = call(library, f"pow_{dtype}", dtype, given)
        np.testing.assert_array_equal(found, np.power(*given))


@pytest.mark.parametrize(("name", "dtype", "constant"), WITH_CONSTANT)
def test_constant_operand(library: ctypes.CDLL, name: str, dtype: DType, constant: str) -> None:
    """An extremum with a constant is spelled by a rule of its own: the same values."""
    x = edges(dtype)
    found = call(library, with_constant(name, dtype, constant), dtype, [x])
    value = {"__builtin_inf()": np.inf, '__builtin_nan("")': np.nan}.get(constant)
    other = np.full_like(x, float(constant) if value is None else value)
    expected = getattr(np, name)(x, other)
    np.testing.assert_array_equal(found, expected)
    there = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[there], np.signbit(expected)[there])
