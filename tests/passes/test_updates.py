"""Matrices to which products are added become calls of the library; what only looks so does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from passes.programs import agree, before_after

import weft as wf
from weft.errors import RaceError
from weft.fun import nodes as fun
from weft.fun.check import check
from weft.fun.parse import parse
from weft.passes.updates import updates

RANDOM = np.random.default_rng(6)
HEAD = """program test(x: f64[n, n], a: f64[n, m], b: f64[m, n], alpha: f64, beta: f64)
  sizes n, m
{
"""
TURNED = "  let t: f64[m, n] = permute a (1, 0)\n  let s: f64[n, n] = call matmul(a, t)\n"
PRODUCT = "  let s: f64[n, n] = call matmul(a, b)\n"
SUM = """let p: f64 = s[i, j]
  let q: f64 = multiply(alpha, p)
  let o: f64 = x[i, j]
  let r: f64 = multiply(o, beta)
  let v: f64 = add(q, r)
  in v"""
MIRRORED = """let p: f64 = s[i, j]
  let p2: f64 = s[j, i]
  let d: f64 = add(p, p2)
  let q: f64 = multiply(d, alpha)
  let o: f64 = x[i, j]
  let v: f64 = subtract(o, q)
  in v"""
TWICE = "let o2: f64 = x[i, j]\n let z: f64 = multiply(o2, 2.0)\n in z"
OLD = "let o2: f64 = x[i, j]\n in o2"
WHOLE = f"  let y: f64[n, n] = kernel (i < n, j < n) {{ {SUM} }}\n  in y\n}}\n"


def triangle(condition: str, then: str, otherwise: str, result: str = "y") -> str:
    return (
        f"  let y: f64[n, n] = kernel (i < n, j < n) {{\n  let c: bool = {condition}\n"
        f"  let w: f64 = if c {{ {then} }} else {{ {otherwise} }}\n  in w }}\n  in {result}\n}}\n"
    )


LOWER = triangle("less_equal(j, i)", SUM, OLD)
PLAIN = SUM.replace("let r: f64 = multiply(o, beta)", "").replace("add(q, r)", "add(0.0, q)")
FOUND = {
    "whole": PRODUCT + WHOLE,
    "lower": TURNED + LOWER,
    "upper, in the other branch": TURNED + triangle("less(j, i)", OLD, SUM),
    "overwritten": TURNED + triangle("less_equal(i, j)", PLAIN, OLD),
    "of two products": (PRODUCT + triangle("less_equal(i, j)", MIRRORED, OLD)).replace(
        "multiply(d, alpha)", "multiply(d, 2.0)"
    ),
}
KEPT = {
    "a triangle of any product": PRODUCT + LOWER,
    "a triangle without its diagonal": TURNED + triangle("less(j, i)", SUM, OLD),
    "something else beside the triangle": TURNED + triangle("less_equal(j, i)", SUM, TWICE),
    "a product that is wanted": TURNED + triangle("less_equal(j, i)", SUM, OLD, "y, s"),
    "a matrix that is wanted": TURNED + triangle("less_equal(j, i)", SUM, OLD, "y, x"),
    "two factors": PRODUCT + WHOLE.replace("x[i, j]", "x[i, j]\nlet o3: f64 = multiply(q, beta)")
    .replace("add(q, r)", "add(o3, r)"),
    "a negative factor": PRODUCT + WHOLE.replace("add(q, r)", "subtract(r, q)"),
    "the matrix's transpose": PRODUCT + WHOLE.replace("x[i, j]", "x[j, i]"),
    "twice the matrix": PRODUCT + WHOLE.replace("s[i, j]", "x[i, j]"),
    "a factor of each element": PRODUCT + WHOLE.replace("multiply(o, beta)", "multiply(o, o)"),
    "another matrix": PRODUCT + WHOLE.replace(
        "add(q, r)", "add(q, r0)").replace("let v", "let z: f64 = t[i, j]\n let r0: f64 = add(r, z)"
        "\n let v").replace("  let y", "  let t: f64[n, n] = call matmul(a, b)\n  let y", 1),
    "a factor that is updated": PRODUCT.replace("matmul(a, b)", "matmul(x, x)") + WHOLE,
}  # fmt: skip


def arguments(n: int = 6, m: int = 4) -> tuple[Any, ...]:
    matrices = [RANDOM.random(shape) for shape in ((n, n), (n, m), (m, n))]
    return (*matrices, 1.5, -0.5)


def test_golden(golden: Callable[[str], None]) -> None:
    texts = [f"{name}\n\n{before_after(HEAD + body, donating)}" for name, body in FOUND.items()]
    golden("\n".join(texts))


def donating(program: fun.Program) -> fun.Program:
    return updates(program, {"x"})


@pytest.mark.parametrize("name", FOUND)
def test_updates_agree(name: str) -> None:
    before = parse(HEAD + FOUND[name])
    after = donating(before)
    check(after)
    calls = [let.expr for let in after.body.statements if isinstance(let.expr, fun.Call)]
    assert [call.routine for call in calls] == ["update"]
    agree(before, after, arguments(), n=6, m=4)


@pytest.mark.parametrize("name", KEPT)
def test_what_is_kept(name: str) -> None:
    program = parse(HEAD + KEPT[name])
    check(program)
    assert donating(program) == program


def test_what_may_not_be_overwritten() -> None:
    program = parse(HEAD + FOUND["lower"])
    assert updates(program) == program
    own = FOUND["whole"].replace("x[", "z[")
    program = parse(HEAD + "  let z: f64[n, n] = kernel (k < n, l < n) { in 1.0 }\n" + own)
    assert updates(program) != program


def test_a_triangle_of_what_is_no_square() -> None:
    head = HEAD.replace("x: f64[n, n]", "x: f64[n, k]").replace("b: f64[m, n]", "b: f64[k, m]")
    head = head.replace("sizes n, m", "sizes n, m, k")
    body = FOUND["lower"].replace("j < n", "j < k").replace("[n, n]", "[n, k]")
    body = body.replace("t: f64[m, n] = permute a (1, 0)", "t: f64[m, k] = permute b (1, 0)")
    program = parse(head + body)
    check(program)
    assert donating(program) == program


# ---------------------------------------------------------------- in loop nests


def rank_k(a: Any, c: Any, alpha: Any, beta: Any) -> None:
    for i in wf.prange(c.shape[0]):
        for j in wf.prange(i + 1):
            total = 0.0
            for k in range(a.shape[1]):
                total += a[i, k] * a[j, k]
            c[i, j] = alpha * total + beta * c[i, j]


def add_product(a: Any, b: Any, c: Any) -> None:
    for i in wf.prange(c.shape[0]):
        for j in wf.prange(c.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] -= a[i, k] * b[k, j]


def add_product_in_order(a: Any, b: Any, c: Any) -> None:
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] -= a[i, k] * b[k, j]


def close(function: Any, *given: Any) -> None:
    expected = [np.copy(x) for x in given]
    with np.errstate(all="ignore"):
        function(*expected)
    kernel = wf.kernel(function)
    for _ in range(3):  # the second call goes a short way
        found = [x.copy() if isinstance(x, np.ndarray) else x for x in given]
        kernel(*found)
        for one, other in zip(found, expected, strict=True):
            single = getattr(one, "dtype", None) == np.float32
            np.testing.assert_allclose(one, other, rtol=1e-5 if single else 1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nests(dtype: Any) -> None:
    random = np.random.default_rng(1)  # whose sums are not nearly 0, whichever tests ran before
    a, b, c = (random.random(shape).astype(dtype) for shape in ((9, 5), (5, 9), (9, 9)))
    close(rank_k, a, c, dtype(1.5), dtype(0.5))
    close(add_product, a, b, c)
    close(add_product, a.T.copy().T, b, c)
    close(add_product, np.ascontiguousarray(b.T)[::2], b, c[:5])
    with wf.config(memory_limit="64 MiB"):
        close(add_product, a, b, c)


@pytest.mark.parametrize(("alpha", "beta"), [(1.5, 0.0), (0.0, 0.5), (np.inf, 1.0), (1.0, np.nan)])
def test_factors_that_the_library_takes_otherwise(alpha: float, beta: float) -> None:
    """Zero times NaN is NaN."""
    a, c = RANDOM.random((9, 5)), RANDOM.random((9, 9))
    a[2, 3], c[5, 1], c[7, 8] = np.nan, np.nan, np.inf
    close(rank_k, a, c, alpha, beta)


def test_the_matrix_is_a_window() -> None:
    a, b, whole = RANDOM.random((6, 5)), RANDOM.random((5, 7)), RANDOM.random((9, 12))
    expected = whole.copy()
    expected[2:8, 3:10] -= a @ b
    kernel = wf.kernel(add_product)
    kernel(a, b, whole[2:8, 3:10])
    np.testing.assert_allclose(whole, expected)
    turned = np.asfortranarray(whole)
    expected[:6, :7] -= a @ b
    kernel(a, b, turned[:6, :7])
    np.testing.assert_allclose(turned, expected)


def test_a_factor_is_the_matrix() -> None:
    """Plain Python's later elements would see the earlier ones: the nest is no product."""
    c = RANDOM.random((6, 6))
    expected = c.copy()
    with pytest.raises(RaceError):
        wf.kernel(add_product)(c, c, c)
    add_product_in_order(expected, expected, expected)
    wf.kernel(add_product_in_order)(c, c, c)
    np.testing.assert_allclose(c, expected)


def test_short_calls_see_what_changes() -> None:
    """Other arrays, other sizes, arrays that overlap, other settings, read-only ones."""
    kernel = wf.kernel(add_product)
    for n in (6, 6, 8, 6):
        a, b, c = (RANDOM.random((n, n)) for _ in range(3))
        expected = c - a @ b
        kernel(a, b, c)
        np.testing.assert_allclose(c, expected)
    with wf.config(optimise="no-blas"):
        expected = c - a @ b
        kernel(a, b, c)
        np.testing.assert_allclose(c, expected)
    with pytest.raises(RaceError):
        kernel(c, b, c)
    kernel = wf.kernel(add_product_in_order)
    expected = c.copy()
    add_product_in_order(expected, b, expected)
    kernel(c, b, c)
    np.testing.assert_allclose(c, expected)
    whole = RANDOM.random((7, 6))
    expected = whole.copy()
    add_product_in_order(expected[:6], b, expected[1:])
    with pytest.warns(match="overlap in part"):
        kernel(whole[:6], b, whole[1:])
    np.testing.assert_allclose(whole, expected)
    c.flags.writeable = False
    with pytest.raises(wf.WeftError, match="read-only"):
        kernel(a, b, c)
