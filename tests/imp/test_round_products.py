"""round_products: what it marks and what it leaves, and what compilers make of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.imp import nodes as imp
from weft.imp.check import check
from weft.imp.interpret import interpret
from weft.imp.round_products import round_products
from weft.imp.show import show
from weft.ops.dtypes import DType

P = imp.Pointer("p", DType.F64)
X, Y, Z, T, U = (imp.Var(name, DType.F64) for name in "xyztu")


def apply(operation: str, *arguments: imp.Expr) -> imp.Expr:
    return imp.Apply(operation, arguments, arguments[0].dtype)


def program(first: imp.Expr, second: imp.Expr, of: tuple[imp.Expr, imp.Expr]) -> imp.Program:
    """What stores two values that are made of two declared ones."""
    loads = (imp.Declare(v, imp.Load(P, imp.integer(k))) for k, v in enumerate((X, Y, Z)))
    body = (
        imp.View(P, 0, imp.ZERO), *loads, imp.Declare(T, of[0]), imp.Declare(U, of[1]),
        imp.Store(P, imp.integer(3), first), imp.Store(P, imp.integer(4), second),
    )  # fmt: skip
    return imp.Program("entry", 1, (), body)


PRODUCTS = apply("multiply", X, Y), apply("multiply", Y, Z)
ACCEPTED = {
    "one subtracted and one added": program(
        apply("subtract", T, Z), apply("add", U, X), PRODUCTS
    ),
    "from something": program(apply("subtract", Z, T), apply("add", X, U), PRODUCTS),
    "a square": program(
        apply("subtract", T, Z), apply("add", U, X), (apply("square", X), PRODUCTS[1])
    ),
    "in place": program(
        apply("subtract", PRODUCTS[0], Z), apply("add", PRODUCTS[1], X), (X, Y)
    ),
    "one that is negated": program(
        apply("add", T, Z), apply("add", U, X), (apply("negative", PRODUCTS[0]), PRODUCTS[1])
    ),
    "beside something that is negated": program(
        apply("add", PRODUCTS[0], T), apply("add", U, X), (apply("negative", X), PRODUCTS[1])
    ),
}  # fmt: skip
LEFT = {
    "both are added": program(apply("add", T, Z), apply("add", U, X), PRODUCTS),
    "both are subtracted": program(apply("subtract", T, Z), apply("subtract", U, X), PRODUCTS),
    "one is no product": program(
        apply("subtract", T, Z), apply("add", U, X), (apply("divide", X, Y), PRODUCTS[1])
    ),
    "one is not used": program(apply("subtract", X, Z), apply("add", U, X), PRODUCTS),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_products_are_rounded(name: str) -> None:
    before = ACCEPTED[name]
    after = round_products(before)
    check(after)
    assert show(after).count("rounded(") == 2
    results = []
    for made in (before, after):
        memory = np.array([3.0, 5.0, 7.0, 0.0, 0.0])
        interpret(made, [memory.view(np.uint8)], [])
        results.append(memory.tolist())
    assert results[0] == results[1]


@pytest.mark.parametrize("name", LEFT)
def test_other_programs_are_left(name: str) -> None:
    assert round_products(LEFT[name]) is LEFT[name]


def test_integers_are_left() -> None:
    p = imp.Pointer("p", DType.I64)
    x = imp.Load(p, imp.ZERO)
    product = apply("multiply", x, x)
    body = (
        imp.View(p, 0, imp.ZERO),
        imp.Store(p, imp.ONE, apply("subtract", product, x)),
        imp.Store(p, imp.integer(2), apply("add", product, x)),
    )
    before = imp.Program("entry", 1, (), body)
    assert round_products(before) is before


def rotate(x: Any, y: Any, c: Any, s: Any) -> None:
    for i in range(x.shape[0]):
        y[i, 0] = x[i, 0] * c - x[i, 1] * s
        y[i, 1] = x[i, 0] * s + x[i, 1] * c


def alternate(a: Any, b: Any, out: Any) -> None:
    for i in range(a.shape[0] // 2):
        out[2 * i] = a[2 * i] * b[2 * i] - a[2 * i + 1]
        out[2 * i + 1] = a[2 * i + 1] * b[2 * i + 1] + a[2 * i]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 7, 1001])
def test_compiled_pairs_have_plain_pythons_bits(count: int, dtype: Any) -> None:
    random = np.random.default_rng(count)
    x, y = random.standard_normal((2, count, 2)).astype(dtype)
    for function, arguments in (
        (rotate, (x, np.zeros_like(y), dtype(0.3), dtype(0.7))),
        (alternate, (x.reshape(-1), y.reshape(-1), np.zeros(2 * count, dtype))),
    ):
        copies = [np.copy(argument) for argument in arguments]
        function(*copies)
        wf.kernel(function)(*arguments)
        for found, expected in zip(arguments, copies, strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_products_are_those_of_their_parts(dtype: Any) -> None:
    parts = np.random.default_rng(3).standard_normal((4, 1001)).astype(dtype(0).real.dtype)
    a, b, c, d = parts
    with wf.config(interpret_below=0):  # NumPy contracts, where the processor can
        found = wf.compute(wf.asarray(a + 1j * b) * wf.asarray(c + 1j * d))
    np.testing.assert_array_equal(found, (a * c - b * d) + 1j * (a * d + b * c))


def test_text(golden: Callable[[str], None]) -> None:
    before = ACCEPTED["one that is negated"]
    golden("\n".join(map(show, (before, round_products(before)))))
