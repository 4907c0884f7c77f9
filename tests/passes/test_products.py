"""Naive products of matrices become the library's; what only looks like one does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.fun import nodes as fun
from weft.fun.check import check
from weft.fun.contractions import contraction, is_tiled
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.fun.show import show
from weft.passes.flatten import joined
from weft.passes.products import products

RANDOM = np.random.default_rng(4)


def plain(a: Any, b: Any, c: Any) -> None:
    for i in wf.prange(c.shape[0]):
        for j in wf.prange(c.shape[1]):
            total = 0.0
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            c[i, j] = total


def transposed(a: Any, b: Any, c: Any) -> None:
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            total = 0.0
            for k in range(a.shape[0]):
                total += b[j, k] * a[k, i]
            c[i, j] = total


def diagonal(a: Any, b: Any, c: Any) -> None:
    for i in wf.prange(c.shape[0]):
        for j in wf.prange(c.shape[1]):
            total = 0.0
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, i]
            c[i, j] = total


def run(function: Any, a: Any, b: Any, optimise: str = "") -> tuple[Any, list[Any]]:
    c = np.full((6, 5), 9.0)
    with wf.config(optimise=optimise):
        kernel = wf.kernel(function)
        kernel(a, b, c)
        program = kernel.trace(a, b, c)
    return c, [let.expr for let in program.body.statements if isinstance(let.expr, fun.Call)]


@pytest.mark.parametrize("optimise", ["", "no-blas"])
def test_products(optimise: str) -> None:
    a, b = RANDOM.random((6, 7)), RANDOM.random((7, 5))
    for function, left, right in ((plain, a, b), (transposed, a.T.copy(), b.T.copy())):
        c, calls = run(function, left, right, optimise)
        np.testing.assert_allclose(c, a @ b)
        assert len(calls) == (not optimise)


def test_part_of_a_matrix() -> None:
    a, b = RANDOM.random((9, 7)), RANDOM.random((8, 6))
    c, calls = run(plain, a, b)
    np.testing.assert_allclose(c, a[:6] @ b[:7, :5])
    assert calls


def test_what_is_no_product() -> None:
    a, b = RANDOM.random((6, 7)), RANDOM.random((7, 6))
    c, calls = run(diagonal, a, b)
    np.testing.assert_allclose(c, np.repeat(np.diag(a @ b)[:, None], 5, axis=1))
    assert not calls


# ---------------------------------------------------------------- loops in any order


def added(a: Any, b: Any, c: Any) -> None:
    for i in wf.prange(c.shape[0]):
        for j in range(c.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


def by_rows(a: Any, b: Any, c: Any) -> None:
    for i in wf.prange(c.shape[0]):
        for k in range(a.shape[1]):
            for j in range(c.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


def by_rows_in_order(a: Any, b: Any, c: Any) -> None:
    for i in range(c.shape[0]):
        for k in range(a.shape[1]):
            factor = a[i, k]
            for j in range(c.shape[1]):
                c[i, j] = c[i, j] + factor * b[k, j]


def by_columns(a: Any, b: Any, c: Any) -> None:
    for j in wf.prange(c.shape[1]):
        for k in range(a.shape[1]):
            for i in range(c.shape[0]):
                c[i, j] += a[i, k] * b[k, j]


def by_columns_in_order(a: Any, b: Any, c: Any) -> None:
    for j in range(c.shape[1]):
        for k in range(a.shape[1]):
            for i in range(c.shape[0]):
                c[i, j] += a[i, k] * b[k, j]


def by_terms(a: Any, b: Any, c: Any) -> None:
    for k in range(a.shape[1]):
        for i in range(c.shape[0]):
            for j in range(c.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


def by_terms_and_columns(a: Any, b: Any, c: Any) -> None:
    for k in range(a.shape[1]):
        for j in wf.prange(c.shape[1]):
            for i in range(c.shape[0]):
                c[i, j] += a[i, k] * b[k, j]


def zeros(c: Any) -> None:
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            c[i, j] = 0.0


def nothing(c: Any) -> None:
    pass


def array_of_zeros(c: Any) -> None:
    c[:] = 0.0


@pytest.mark.parametrize("before", [nothing, zeros, array_of_zeros])
@pytest.mark.parametrize("optimise", ["", "no-blas"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "function",
    [by_rows, by_rows_in_order, by_columns, by_columns_in_order, by_terms, by_terms_and_columns],
)
def test_orders_of_loops(function: Any, dtype: Any, optimise: str, before: Any) -> None:
    """All give the bits that the sum's loop innermost gives, by the library or in tiles."""

    def begun(body: Any) -> Any:
        def whole(a: Any, b: Any, c: Any) -> None:
            before(c)
            body(a, b, c)

        return whole

    a, b, c = (RANDOM.random(s).astype(dtype) for s in ((6, 70), (70, 5), (6, 5)))
    found, expected = c.copy(), c.copy()
    with wf.config(optimise=optimise):
        kernel = wf.kernel(begun(function))
        kernel(a, b, found)
        wf.kernel(begun(added))(a, b, expected)
        statements = kernel.trace(a, b, c).body.statements
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(found, a @ b + (before is nothing) * c, rtol=1e-5)
    assert calls(list(statements)) == (not optimise)
    if optimise:
        kernels = [let.expr for let in statements if isinstance(let.expr, fun.Kernel)]
        tiled = [contraction(joined(kernel)) for kernel in kernels]
        assert [found is not None and is_tiled(found) for found in tiled] == [True]


def zeros_for_each_row(a: Any, b: Any, c: Any) -> None:
    for i in wf.prange(c.shape[0]):
        for j in range(c.shape[1]):
            c[i, j] = 0.0
        for k in range(a.shape[1]):
            for j in range(c.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


def test_rows_that_begin_as_zeros() -> None:
    a, b, c = RANDOM.random((6, 7)), RANDOM.random((7, 5)), RANDOM.random((6, 5))
    assert calls(compare(zeros_for_each_row, (a, b, c))) == 1


def of_itself_by_rows(a: Any, b: Any, c: Any) -> None:
    for i in range(c.shape[0]):
        for k in range(c.shape[1]):
            for j in range(c.shape[1]):
                c[i, j] += c[i, k] * b[k, j]


def no_zeros_by_rows(a: Any, b: Any, c: Any) -> None:
    for i in wf.prange(c.shape[0]):
        for k in range(a.shape[1]):
            if a[i, k] > 0.5:
                for j in range(c.shape[1]):
                    c[i, j] += a[i, k] * b[k, j]


def fewer_terms_by_rows(a: Any, b: Any, c: Any) -> None:
    for i in wf.prange(c.shape[0]):
        for k in range(i + 1):
            for j in range(c.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


@pytest.mark.parametrize("function", [of_itself_by_rows, no_zeros_by_rows, fewer_terms_by_rows])
def test_what_is_no_product_by_rows(function: Any) -> None:
    a, b, c = RANDOM.random((6, 7)), RANDOM.random((7, 5)), RANDOM.random((6, 5))
    assert calls(compare(function, (a, b, c))) == 0


def test_terms_that_are_said_to_be_parallel_are_a_reduction() -> None:
    def function(a: Any, b: Any, c: Any) -> None:
        for k in wf.prange(a.shape[1]):
            for i in range(c.shape[0]):
                for j in range(c.shape[1]):
                    c[i, j] += a[i, k] * b[k, j]

    a, b, c = RANDOM.random((6, 7)), RANDOM.random((7, 5)), RANDOM.random((6, 5))
    assert calls(compare(function, (a, b, c))) == 1


# ---------------------------------------------------------------- updates of triangles


def lower_triangle(a: Any, c: Any) -> None:
    for i in wf.prange(c.shape[0]):
        for j in wf.prange(i + 1):
            total = 0.0
            for k in range(a.shape[1]):
                total += a[i, k] * a[j, k]
            c[i, j] = 1.5 * total - c[i, j]


def strict_triangle(a: Any, c: Any) -> None:
    for i in wf.prange(c.shape[0]):
        for j in wf.prange(i):
            total = 0.0
            for k in range(a.shape[1]):
                total += a[i, k] * a[j, k]
            c[i, j] = total


def upper_rank_2k(a: Any, b: Any, c: Any, alpha: float) -> None:
    for i in wf.prange(c.shape[0]):
        for j in wf.prange(i, c.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] += alpha * (a[i, k] * b[j, k] - b[i, k] * a[j, k])


def compare(function: Any, arguments: tuple[Any, ...]) -> list[fun.Let]:
    """The kernel gives what plain Python gives; the statements of its program."""
    expected = [np.copy(x) for x in arguments]
    found = [np.copy(x) for x in arguments]
    function(*expected)
    kernel = wf.kernel(function)
    kernel(*found)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    return list(kernel.trace(*arguments).body.statements)


def calls(statements: list[fun.Let]) -> int:
    return sum(isinstance(let.expr, fun.Call) for let in statements)


def lower_in_order(a: Any, c: Any) -> None:
    for i in range(c.shape[0]):
        for j in range(i + 1):
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * a[j, k]


def lower_by_rows(a: Any, c: Any) -> None:
    for i in range(c.shape[0]):
        for k in range(a.shape[1]):
            for j in range(i + 1):
                c[i, j] += a[i, k] * a[j, k]


def upper_by_terms(a: Any, c: Any) -> None:
    for k in range(a.shape[1]):
        for i in range(c.shape[0]):
            for j in range(i, c.shape[1]):
                c[i, j] -= 2.0 * a[i, k] * a[j, k]


def lower_by_columns(a: Any, c: Any) -> None:
    for j in range(c.shape[1]):
        for k in range(a.shape[1]):
            for i in range(j, c.shape[0]):
                c[i, j] += a[i, k] * a[j, k]


def scaled_by_rows(a: Any, c: Any) -> None:
    for i in range(c.shape[0]):
        for j in range(i + 1):
            c[i, j] *= 0.5
        for k in range(a.shape[1]):
            for j in range(i + 1):
                c[i, j] += 1.5 * a[i, k] * a[j, k]


@pytest.mark.parametrize("optimise", ["", "no-blas"])
@pytest.mark.parametrize(
    "function",
    [lower_in_order, lower_by_rows, upper_by_terms, lower_by_columns, scaled_by_rows],
)
def test_triangles_in_any_order(function: Any, optimise: str) -> None:
    a, c = RANDOM.random((9, 20)), RANDOM.random((9, 9))
    with wf.config(optimise=optimise):
        statements = compare(function, (a, c))
    assert calls(statements) == (not optimise)
    if optimise:
        found = [contraction(joined(let.expr)) for let in statements
                 if isinstance(let.expr, fun.Kernel)]  # fmt: skip
        assert [one is not None and is_tiled(one) and one.fact is not None for one in found] == [
            True
        ]


@pytest.mark.parametrize("n", [2, 7, 30])
def test_triangles_are_products(n: int) -> None:
    a, b, c = RANDOM.random((n, 5)), RANDOM.random((n, 5)), RANDOM.random((n, n))
    assert calls(compare(lower_triangle, (a, c))) == 1
    # B A^T is the transpose of A B^T, which is there.
    assert calls(compare(upper_rank_2k, (a, b, c, 0.5))) == 1


def test_triangles_without_the_library() -> None:
    a, b, c = RANDOM.random((9, 5)), RANDOM.random((9, 5)), RANDOM.random((9, 9))
    with wf.config(optimise="no-blas"):
        assert calls(compare(lower_triangle, (a, c))) == 0
        assert calls(compare(upper_rank_2k, (a, b, c, 0.5))) == 0


def test_a_triangle_without_its_diagonal_is_no_product() -> None:
    """The first row, or the last column, is read by nothing: it may not be there."""
    a, c = RANDOM.random((6, 5)), RANDOM.random((6, 6))
    assert calls(compare(strict_triangle, (a, c))) == 0


def test_a_triangle_of_an_oblong_is_no_product() -> None:
    """Rows below the columns' number are read by nothing."""
    a, b, c = RANDOM.random((4, 5)), RANDOM.random((4, 5)), RANDOM.random((6, 4))
    assert calls(compare(upper_rank_2k, (a, b, c, 0.5))) == 0


def test_what_was_assumed_of_one_call_is_not_of_another() -> None:
    kernel = wf.kernel(upper_rank_2k)
    for shape in ((5, 5), (7, 5)):
        a, b, c = RANDOM.random((5, 3)), RANDOM.random((5, 3)), RANDOM.random(shape)
        expected = c.copy()
        upper_rank_2k(a, b, expected, 0.5)
        kernel(a, b, c, 0.5)
        np.testing.assert_allclose(c, expected, rtol=1e-12)


def test_factors_that_are_no_matrices() -> None:
    """Three factors are no product of matrices; scalars are factors of its elements."""

    def weighted(a: Any, b: Any, w: Any, c: Any) -> None:
        for i in wf.prange(c.shape[0]):
            for j in wf.prange(c.shape[1]):
                for k in range(a.shape[1]):
                    c[i, j] += a[i, k] * w[k] * b[k, j]

    def scaled(a: Any, b: Any, w: Any, c: Any) -> None:
        for i in wf.prange(c.shape[0]):
            for j in wf.prange(c.shape[1]):
                for k in range(a.shape[1]):
                    c[i, j] -= 2.0 * a[i, k] * b[k, j] * w[0]

    a, b, w, c = (RANDOM.random(s) for s in ((6, 7), (7, 5), 7, (6, 5)))
    assert calls(compare(weighted, (a, b, w, c))) == 0
    compare(scaled, (a, b, w, c))


# ---------------------------------------------------------------- the pass alone

TRIANGLE = """program triangle(a: f64[o, l], b: f64[o, l], c: f64[n, n], w: f64) sizes n, o, l {
  let y: f64[n, n] = kernel (i < n, j < n) {
    let h: i64 = size i + 1
    let g: bool = less(j, h)
    let e: f64 = if g {
      let s: f64 = reduce (; k < l) from -0.0 {
        let p: f64 = a[i, k]
        let q: f64 = b[j, k]
        let r: f64 = b[i, k]
        let t: f64 = a[j, k]
        let m: f64 = multiply(p, q)
        let v: f64 = multiply(r, t)
        let x: f64 = add(m, v)
        let z: f64 = multiply(w, x)
        in z
      } with (u: f64, d: f64) { let f: f64 = add(u, d) in f }
      in s
    } else {
      let old: f64 = c[i, j]
      in old
    }
    in e
  }
  in y
}"""


def test_triangle(golden: Any) -> None:
    program = parse(TRIANGLE)
    made, assumed = products(program)
    assert not assumed
    check(made)
    golden(show(made))
    arguments = [RANDOM.random((6, 4)), RANDOM.random((6, 4)), RANDOM.random((6, 6)), 1.5]
    (found,), (expected,) = interpret(made, arguments), interpret(program, arguments)
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("size i + 1", "size i"),  # no diagonal
        ("size i + 1", "size 2*i + 1"),
        ("less(j, h)", "equal(j, h)"),
        ("f: f64 = add", "f: f64 = maximum"),
        ("multiply(w, x)", "sqrt(x)"),
        ("f64", "i64"),
        ("c: f64[n, n]", "c: f64[n, o]"),
    ],
)
def test_kept(old: str, new: str) -> None:
    text = TRIANGLE.replace(old, new)
    if new == "i64":
        text = text.replace("-0.0", "0")
    if "o]" in new:
        text = text.replace("y: f64[n, n]", "y: f64[n, o]").replace("j < n", "j < o")
    program = parse(text)
    assert products(program)[0].body == program.body


# ---------------------------------------------------------------- triangles, row by row


def mirrored(a: Any, b: Any, c: Any) -> None:
    for i in range(c.shape[0] - 1):
        c[i, i + 1 :] = c[i + 1 :, i] = a[:, i] @ a[:, i + 1 :]


def with_diagonal(a: Any, b: Any, c: Any) -> None:
    for i in range(c.shape[0]):
        c[i:, i] = c[i, i:] = a[:, i] @ b[:, i:] / 7.0


def lower(a: Any, b: Any, c: Any) -> None:
    for i in range(c.shape[0] - 2):
        c[i + 2 :, i] = b[:, i] @ a[:, i + 2 :] - 1.0


def too_few_rounds(a: Any, b: Any, c: Any) -> None:
    for i in range(c.shape[0] - 2):
        c[i, i + 1 :] = c[i + 1 :, i] = a[:, i] @ a[:, i + 1 :]


def two_values(a: Any, b: Any, c: Any) -> None:
    for i in range(c.shape[0] - 1):
        c[i, i + 1 :] = a[:, i] @ a[:, i + 1 :]
        c[i + 1 :, i] = b[:, i] @ b[:, i + 1 :]


def of_itself(a: Any, b: Any, c: Any) -> None:
    for i in range(c.shape[0] - 1):
        c[i, i + 1 :] = c[i + 1 :, i] = c[:, i] @ a[:6, i + 1 :]


def narrower(a: Any, b: Any, c: Any) -> None:
    for i in range(c.shape[0] - 1):
        c[i, i + 1 :] = c[i + 1 :, i] = b[:, i] @ a[:, i + 1 :]


def before_the_diagonal(a: Any, b: Any, c: Any) -> None:
    for i in range(1, c.shape[0]):
        c[i, i - 1 :] = c[i - 1 :, i] = a[:, i] @ a[:, i - 1 :]


@pytest.mark.parametrize(
    ("function", "calls"),
    [(mirrored, 1), (with_diagonal, 1), (lower, 1), (too_few_rounds, 0), (two_values, 0),
     (of_itself, 0), (narrower, 0), (before_the_diagonal, 0)],
)  # fmt: skip
@pytest.mark.parametrize("optimise", ["", "no-blas"])
def test_triangles(function: Any, calls: int, optimise: str) -> None:
    """Loops that fill a triangle with a product's elements, and others, which stay."""
    a, b = RANDOM.random((7, 6)), RANDOM.random((7, 5 if function is narrower else 6))
    expected, found = np.full((6, 6), 9.0), np.full((6, 6), 9.0)
    function(a, b, expected)
    with wf.config(optimise=optimise):
        kernel = wf.kernel(function)
        kernel(a, b, found)
        program = kernel.trace(a, b, found)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    made = [let for let in program.body.statements if isinstance(let.expr, fun.Call)]
    assert len(made) == (calls if not optimise else 0)
