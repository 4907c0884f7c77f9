"""Loop nests: for, while, break and continue, branches, scalars and their types."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from loops.agree import agrees

import weft as wf
from weft.errors import OutOfBoundsError

RANDOM = np.random.default_rng(5)


def matrix_product(a: Any, b: Any, c: Any) -> None:
    for i in wf.prange(c.shape[0]):
        for j in wf.prange(c.shape[1]):
            acc = 0.0
            for k in range(a.shape[1]):
                acc += a[i, k] * b[k, j]
            c[i, j] = acc


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.complex64])
def test_matrix_product(dtype: Any) -> None:
    a, b = (RANDOM.integers(-9, 9, shape).astype(dtype) for shape in ((7, 5), (5, 11)))
    agrees(matrix_product, a, b, np.zeros((7, 11), dtype))


@pytest.mark.parametrize("sizes", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 1)])
def test_matrix_product_of_nothing(sizes: tuple[int, int, int]) -> None:
    n, k, m = sizes
    for optimise in ("", "no-blas"):
        a, b, c = np.ones((n, k)), np.ones((k, m)), np.full((n, m), 7.0)
        with wf.config(optimise=optimise, interpret_below=0):
            wf.kernel(matrix_product)(a, b, c)
        np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("shapes", [((4, 5), (4, 6)), ((3, 5), (5, 6)), ((4, 5), (5, 3))])
@pytest.mark.parametrize("limit", [None, "25 MiB"])
def test_products_of_the_library_read_inside_of_their_operands(
    shapes: tuple[tuple[int, int], tuple[int, int]], limit: str | None
) -> None:
    def added(a: Any, b: Any, c: Any) -> None:
        for i in range(c.shape[0]):
            for j in range(c.shape[1]):
                for k in range(a.shape[1]):
                    c[i, j] += a[i, k] * b[k, j]

    a, b = map(RANDOM.random, shapes)
    for function in (matrix_product, added):
        c = np.full((4, 6), 7.0)
        with (
            pytest.raises(OutOfBoundsError, match="leave axis"),
            wf.config(interpret_below=0, memory_limit=limit),
        ):
            wf.kernel(function)(a, b, c)
        assert (c == 7).all()
    agrees(added, RANDOM.random((7, 5)), RANDOM.random((8, 9)), np.ones((4, 6)))


def test_strided_arguments_are_written_in_place() -> None:
    a, b = RANDOM.random((6, 10))[:, ::2], RANDOM.random((11, 5)).T
    whole = np.full((8, 22), 7.0)
    wf.kernel(matrix_product)(a, b, whole[1:7, ::2])
    np.testing.assert_allclose(whole[1:7, ::2], a @ b)
    assert (whole[:, 1::2] == 7).all()
    assert (whole[[0, 7]] == 7).all()


def test_arguments_of_another_byte_order_are_written_in_place() -> None:
    a, b = RANDOM.random((3, 4)).astype(">f8"), RANDOM.random((4, 2)).astype(">f8")
    c = np.zeros((3, 2), ">f8")
    wf.kernel(matrix_product)(a, b, c)
    np.testing.assert_allclose(c, a @ b)


def test_loops_that_depend_on_earlier_rounds() -> None:
    def smooth(a: Any) -> None:
        for i in range(1, a.shape[0] - 1):
            a[i] = 0.5 * (a[i - 1] + a[i + 1])

    def cholesky(a: Any) -> None:
        n = a.shape[0]
        for i in range(n):
            for j in range(i):
                for k in range(j):
                    a[i, j] -= a[i, k] * a[j, k]
                a[i, j] /= a[j, j]
            for k in range(i):
                a[i, i] -= a[i, k] * a[i, k]
            a[i, i] = math.sqrt(a[i, i])

    agrees(smooth, RANDOM.random(13))
    x = RANDOM.random((7, 7))
    agrees(cholesky, x @ x.T + 7 * np.eye(7))


def test_indices_count_from_the_end_as_in_numpy() -> None:
    def around(a: Any, b: Any) -> None:
        for i in range(a.shape[0]):
            b[i] = a[i - 1] + a[-1] + a[-i]

    agrees(around, RANDOM.random(9), np.zeros(9))


def test_ranges() -> None:
    def steps(a: Any, start: int, stop: int) -> None:
        for i in range(start, stop, 3):
            a[i] += 1.0
        for i in range(stop - 1, start, -2):
            a[i] *= 2.0

    for start, stop in ((0, 17), (2, 16), (5, 6), (9, 3)):
        agrees(steps, RANDOM.random(17), start, stop)


@pytest.mark.parametrize("step", [1, 2, 7, 30, -1, -3, -30])
def test_ranges_of_computed_steps(step: int) -> None:
    """Their sign is data too."""

    def ranges(x: Any, steps: Any, n: int) -> tuple[int, int, int]:
        step, i, found = steps[0], -5, 0
        for i in range(2, n, step):
            x[i] += i
        for j in range(n, -1, step):
            if j == 3:
                break
            found = 2 * found + j
        for k, j in enumerate(range(n, 2, step)):
            x[k] += j
        for j in reversed(range(2, n, step)):
            found = 3 * found + j
        for a in range(1, n):
            for j in range(a * a, x.shape[0], a):
                x[j] -= 1
            for j in range(n, 0, -a):
                found += a * j
        return i, found, step

    for n in (0, 1, 7, 20):
        agrees(ranges, np.arange(20.0), np.array([step]), n)


def test_sieve() -> None:
    def primes(limit: int) -> Any:
        prime = np.ones(limit + 1, np.bool_)
        prime[:2] = False
        for i in range(2, int(limit**0.5) + 1):
            if prime[i]:
                for multiple in range(i * i, limit + 1, i):
                    prime[multiple] = False
        return prime

    for limit in (1, 2, 3, 100):
        agrees(primes, limit)


def test_while_with_scalars() -> None:
    def collatz(n: int) -> int:
        count = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            count += 1
        return count

    for n in (1, 2, 27):
        agrees(collatz, n)


def test_break_and_continue() -> None:
    def escape(out: Any, most: int) -> None:
        h, w = out.shape
        for i in wf.prange(h):
            for j in wf.prange(w):
                cx, cy = 3 * j / w - 2, 2 * i / h - 1
                x = y = 0.0
                k = 0
                for k in range(most):  # noqa: B007 - read after the loop
                    if x * x + y * y > 4:
                        break
                    x, y = x * x - y * y + cx, 2 * x * y + cy
                out[i, j] = k

    def odd_ones(a: Any) -> float:
        total = 0.0
        for i in range(a.shape[0]):
            if i % 2 == 0:
                continue
            total += a[i]
        return total

    agrees(escape, np.zeros((6, 7), np.int32), 20)
    agrees(odd_ones, RANDOM.random(9))


def test_branches() -> None:
    def clamp(a: Any, b: Any) -> None:
        for i in wf.prange(a.shape[0]):
            if a[i] > 0.7:
                b[i] = a[i]
            elif a[i] > 0.3:
                b[i] = 7
            if 0.1 < a[i] < 0.9 and b[i] != 7:
                b[i] += 1 if a[i] > 0.5 else 2

    def first_above(a: Any, limit: float) -> Any:
        if a[0] > limit:
            return a[0]
        b = a[1] * 2
        return b

    agrees(clamp, RANDOM.random(31), np.zeros(31))
    agrees(first_above, np.array([0.5, 1.5]), 0.2)
    agrees(first_above, np.array([0.5, 1.5]), 0.8)


def test_conditions_that_guard_reads() -> None:
    def differences(a: Any, b: Any) -> None:
        for i in range(a.shape[0]):
            if i > 0 and a[i - 1] < a[i]:
                b[i] = a[i] - a[i - 1]

    agrees(differences, RANDOM.random(12), np.zeros(12))


def test_literals_take_the_dtype_of_what_is_added() -> None:
    def total(a: Any) -> Any:
        acc = 0.0
        for i in range(a.shape[0]):
            acc += a[i]
        return acc

    def scaled(a: Any) -> Any:
        x = 2
        for i in range(a.shape[0]):
            x = a[i] * i
        return x

    for dtype in (np.float32, np.float64):
        agrees(total, RANDOM.random(9).astype(dtype))
        agrees(scaled, RANDOM.random(9).astype(dtype))


def test_integers_wrap() -> None:
    def powers(a: Any) -> Any:
        with_overflow = a[0]
        for _ in range(10):
            with_overflow = with_overflow * a[0]
        return with_overflow

    with np.errstate(over="ignore"):
        agrees(powers, np.array([7], np.int8))
        agrees(powers, np.array([7], np.uint16))


def test_data_dependent_bounds_and_indices() -> None:
    def sparse_product(start: Any, column: Any, value: Any, x: Any, y: Any) -> None:
        for i in wf.prange(y.shape[0]):
            total = 0.0
            for k in range(start[i], start[i + 1]):
                total += value[k] * x[column[k]]
            y[i] = total

    def histogram(x: Any, counts: Any) -> None:
        for i in range(x.shape[0]):
            counts[x[i]] += 1

    start, column = np.array([0, 2, 2, 5]), np.array([1, 3, 0, 1, 2])
    agrees(sparse_product, start, column, RANDOM.random(5), RANDOM.random(4), np.zeros(3))
    agrees(histogram, RANDOM.integers(0, 5, 40), np.zeros(5, int))


def test_branches_that_bound_indices_by_each_other() -> None:
    """On a diagonal each index is as large as the other: neither bound may rest on the other's."""

    def diagonal(x: Any, y: Any) -> None:
        for i in wf.prange(y.shape[0]):
            for j in range(y.shape[1]):
                if j == i:
                    y[i, j] = x[j, i]

    def of_both(x: Any, y: Any) -> None:
        for i in wf.prange(y.shape[0]):
            for j in range(y.shape[1]):
                if j == i:
                    if j + i > 3:
                        y[i, j] = x[max(j - 1, 0), i]
                    else:
                        y[i, j] = 1.0

    def never(x: Any, y: Any) -> None:
        for i in wf.prange(y.shape[0]):
            for j in range(y.shape[1]):
                if j > i:
                    y[i, j] = x[j, i] if j <= i else x[j, i] + 1.0

    for function in (diagonal, of_both, never):
        for n, m in ((1, 1), (5, 7), (40, 33)):
            agrees(function, RANDOM.random((m, n)), np.zeros((n, m)))


def test_a_condition_that_bounds_an_index_by_what_is_computed_of_it() -> None:
    def downwards(x: Any, y: Any) -> None:
        n = x.shape[0]
        for i in range(n - 1, -1, -1):
            if max(y[i], i) == i:
                x[n - 1 - i] += y[i]
                if x[i] > 3:
                    x[i // 2] = 0

    for n in (1, 9, 3000):
        agrees(downwards, np.arange(n), np.arange(n)[::-1].copy())


def test_local_arrays_and_triangles() -> None:
    def powers(a: Any, out: Any) -> None:
        for i in wf.prange(a.shape[0]):
            t = np.zeros(5)
            t[0] = 1
            for k in range(1, 5):
                t[k] = t[k - 1] * a[i]
            out[i] = t.sum()

    def symmetric(a: Any, b: Any) -> None:
        for i in wf.prange(a.shape[0]):
            for j in range(i, a.shape[0]):
                b[i, j] = a[i, j] + a[j, i]

    agrees(powers, RANDOM.random(9), np.zeros(9))
    agrees(symmetric, RANDOM.random((6, 6)), np.zeros((6, 6)))


def test_the_plain_function_runs_where_weft_is_disabled(monkeypatch: Any) -> None:
    seen = []

    @wf.kernel
    def twice(a: Any) -> None:
        seen.append(type(a))
        a *= 2

    monkeypatch.setenv("WEFT_DISABLE", "1")
    a = np.ones(3)
    twice(a)
    assert seen == [np.ndarray]
    assert (a == 2).all()


def test_a_return_leaves_all_loops() -> None:
    def first(a: Any, x: float) -> int:
        for i in range(a.shape[0]):
            if a[i] > x:
                return i
        return -1

    def place(a: Any, x: float) -> Any:
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                if a[i, j] > x:
                    a[i, j] = 7
                    return i, j
            a[i, 0] = 3
        return -1, -1

    def while_true(a: Any) -> float:
        i = 0
        while True:
            if a[i] > 0.5:
                return a[i] * 2
            i += 1
            if i == a.shape[0]:
                return 0.0

    def nothing(a: Any, x: float) -> None:
        for i in range(a.shape[0]):
            if a[i] > x:
                return
            a[i] = 1
        a[0] = 9

    def row(a: Any, x: float) -> Any:
        for i in range(a.shape[0]):
            if a[i, 0] > x:
                return a[i] * 2
        return a[0]

    for x in (0.1, 0.5, 2.0):
        agrees(first, RANDOM.random(20), x)
        agrees(place, RANDOM.random((5, 6)), x)
        agrees(nothing, RANDOM.random(9), x)
        agrees(row, RANDOM.random((5, 6)), x)
    agrees(while_true, RANDOM.random(9))
    agrees(while_true, RANDOM.random(9) * 0.2)


def test_a_loop_in_a_branch_writes_what_is_read_after_it() -> None:
    def mark(start: Any, edges: Any, a: Any) -> bool:
        changed = False
        for i in range(a.shape[0]):
            if a[i] == 1:
                for k in range(start[i], start[i + 1]):
                    a[edges[k]] = 2
                    changed = True
        a[0] += 10
        return changed

    agrees(mark, np.array([0, 1, 2, 3]), np.array([1, 2, 0]), np.array([1, 0, 0]))
    agrees(mark, np.array([0, 1, 2, 3]), np.array([1, 2, 0]), np.array([0, 0, 0]))


def test_what_is_added_may_be_the_sum_itself() -> None:
    def doubled(x: Any, s: Any) -> Any:
        for _ in range(x.shape[0]):
            s += s
        for i in range(x.shape[0]):
            x[i] += x[i]
        return s

    agrees(doubled, RANDOM.random(5), 3)
    agrees(doubled, RANDOM.random(5), 0.25)


def test_what_is_added_may_be_what_the_round_writes() -> None:
    def both(x: Any, least: float) -> Any:
        total = 0.0
        for i in range(x.shape[0]):
            x[i] += 3.5
            total -= x[i]
            least = min(least, x[i])
        return total, least

    agrees(both, RANDOM.random(5), 1.0)


def test_indices_that_are_equal_bound_each_other() -> None:
    def diagonals(a: Any, b: Any) -> None:
        for i in range(a.shape[0]):
            for j in range(a.shape[0]):
                if i == j:
                    a[i, j] = b[i + j]
                if i + 1 == j:
                    a[i, j] = b[j]

    agrees(diagonals, RANDOM.random((5, 5)), RANDOM.random(9))
    with pytest.raises(OutOfBoundsError, match="from 0 to 8 leave axis 0"):
        wf.kernel(diagonals)(RANDOM.random((5, 5)), RANDOM.random(8))


def test_inner_indices_that_go_down_bound_parallel_outer_ones() -> None:
    def triangle(a: Any, b: Any, out: Any) -> None:
        for i in wf.prange(out.shape[0]):
            for j in range(i - 1, -1, -1):
                out[i, j] += a[i, i - j - 1] * b[i + j]

    agrees(triangle, RANDOM.random((5, 4)), RANDOM.random(8), np.zeros((5, 5)))
    with pytest.raises(OutOfBoundsError, match="to 7 leave axis 0 of b"):
        wf.kernel(triangle)(RANDOM.random((5, 4)), RANDOM.random(7), np.zeros((5, 5)))


def test_a_product_outside_of_its_operands_is_placed_at_the_read() -> None:
    def product(a: Any, b: Any, c: Any, n: int) -> None:
        for i in range(c.shape[0]):
            for j in range(c.shape[1]):
                for k in range(n):
                    c[i, j] += a[i, k] * b[k, j]

    with pytest.raises(OutOfBoundsError, match=r"axis 1 of a.*(.|\n)*c\[i, j\] \+= a") as caught:
        wf.kernel(product)(np.ones((5, 5)), np.ones((5, 5)), np.zeros((5, 5)), 7)
    assert caught.value.place is not None
    assert caught.value.place.column > 20


def test_constants_are_returned_beside_what_is_written() -> None:
    def constants(x: Any) -> Any:
        x[0] = 5
        return 0.0, x.shape[0], True, 3

    agrees(constants, np.arange(3))


def test_what_a_branch_adds_is_given_by_another_name_too() -> None:
    def totals(x: Any, y: Any) -> Any:
        total, last, seen = y[0], 0.0, 0.0
        for i in range(x.shape[0]):
            if x[i] > 0:
                total += x[i]
                last = total
            else:
                last = total * 2
            seen += last
        return total, last, seen

    for n in (1, 9):
        agrees(totals, np.arange(9.0)[:n] % 4 - 1, np.ones(1))
