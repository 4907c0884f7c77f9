"""Control flow of kernels: returns, loop variables, names without a value, arrays chosen."""

# ruff: noqa: B007 - what becomes of loop variables is the subject

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loops.agree import agrees

import weft as wf
from weft.errors import WeftError
from weft.fun.show import show

NUMBERS = np.array([3.0, -1.0, 4.0])


# ---------------------------------------------------------------- returns


def first_above(a: Any, limit: Any = None) -> int:
    for i in range(len(a)):
        if limit is not None and a[i] > limit:
            return i
        a[i] += 1
    return -1


def first_pair_above(a: Any, limit: Any = None) -> tuple[int, int]:
    for i in range(len(a)):
        for j in range(len(a)):
            if limit is not None and a[i] > limit:
                return i, j
            if limit is not None and a[j] > limit + 1:
                break
            a[i] += a[j]
    return -1, -1


def first_above_of_while(a: Any, limit: Any = None) -> int:
    k = 0
    while k < len(a):
        if limit is not None and a[k] > limit:
            return k
        a[k] += 1
        k += 1
    return -1


@pytest.mark.parametrize("function", [first_above, first_pair_above, first_above_of_while])
@pytest.mark.parametrize("limit", [(), (None,), (3.5,)])
def test_return_under_a_condition_that_is_known(
    function: Callable[..., Any], limit: tuple[Any, ...]
) -> None:
    agrees(function, NUMBERS, *limit)


def test_loop_that_nothing_leaves_is_parallel() -> None:
    program = show(agrees(first_above, NUMBERS).trace(NUMBERS))
    assert "while" not in program


def value_under_known(a: Any, n: int) -> float:
    if n > 2:  # noqa: SIM102 - the one is known, the other is not
        if a[0] > 0:
            return 1.0
    return 2.0


def writes_under_known(a: Any, n: int) -> None:
    if n > 2:
        if a[0] < 0:
            a[1] = 5
            return
        a[2] = 7
    a[0] = 100


def for_under_known(a: Any, n: int) -> int:
    if n > 2:
        for i in range(len(a)):
            if a[i] < 0:
                return i
        a[2] = 7
    a[0] = 100
    return 17


def while_under_known(a: Any, n: int) -> int:
    if n > 2:
        i = 0
        while i < len(a):
            if a[i] < 0:
                return i
            i += 1
        a[2] = 7
    a[0] = 100
    return 17


@pytest.mark.parametrize(
    "function", [value_under_known, writes_under_known, for_under_known, while_under_known]
)
@pytest.mark.parametrize("a", [NUMBERS, -NUMBERS, np.abs(NUMBERS)])
@pytest.mark.parametrize("n", [1, 3])
def test_return_within_a_branch_that_is_known(
    function: Callable[..., Any], a: np.ndarray, n: int
) -> None:
    agrees(function, a, n)


def pair_or_none(a: Any) -> Any:
    for i in range(len(a)):
        for j in range(len(a)):
            if a[i] + a[j] < 0:
                return i, j
    return None


def pair_or_number(a: Any) -> Any:
    for i in range(len(a)):
        if a[i] > 100:
            return i, i
        if a[i] < 0:
            return i
    return 4


def test_a_pair_or_none_is_given() -> None:
    assert wf.kernel(pair_or_none)(NUMBERS) == pair_or_none(NUMBERS)
    assert wf.kernel(pair_or_none)(np.abs(NUMBERS)) is None


@pytest.mark.parametrize(
    ("function", "argument", "found"),
    [
        (pair_or_number, NUMBERS, "what a return in this loop gives is not one number"),
    ],
)
def test_results_of_two_kinds_are_refused(
    function: Callable[..., Any], argument: Any, found: str
) -> None:
    with pytest.raises(WeftError, match=found) as caught:
        wf.kernel(function)(argument)
    assert f"{__file__}:" in str(caught.value)


def kinds_by_what_is_known(a: Any, n: int) -> Any:
    for i in range(len(a)):
        if n > 5:
            return i, i
        if a[i] < 0:
            return i
    return 4


def test_results_of_two_kinds_by_what_is_known() -> None:
    agrees(kinds_by_what_is_known, NUMBERS, 3)


# ---------------------------------------------------------------- else of loops


def primes(n: int) -> Any:
    found = np.zeros(n, np.int64)
    count = 0
    for k in range(2, 50):
        for d in range(2, k):
            if k % d == 0:
                break
        else:
            found[count] = k
            count += 1
            if count == n:
                break
    else:
        found[0] = -1
    return found


def pairs_until(a: Any, v: Any) -> Any:
    for i in range(3):
        for j in (0, 1, 2):
            if a[i + j] == v:
                break
            a[i] += 1
        else:
            continue
        break
    while a[0] < 9:
        a[0] += 2
        if a[0] == v:
            break
    else:
        a[-1] = -9


def place_of(a: Any, v: Any) -> int:
    for i in range(a.shape[0]):
        if a[i] == v:
            return i
        if a[i] > 7:
            break
    else:
        a[0] = 3
        return -1
    return -2


def row_with(a: Any, v: Any) -> int:
    for i in range(0, a.shape[0], 3):
        for j in range(3):
            if a[(i + j) % a.shape[0]] == v:
                return i
        else:
            a[i] = -5
    return -1


@pytest.mark.parametrize("v", [0, 1, 2, 4, 11, 40])
def test_the_else_of_a_loop_is_done_unless_it_was_left(v: int) -> None:
    for function in (pairs_until, place_of, row_with):
        agrees(function, np.arange(9), v)
        agrees(function, np.arange(7.0), v)
    agrees(place_of, np.zeros(1), v)
    agrees(primes, v + 1)


# ---------------------------------------------------------------- loop variables


def element_assigned(a: Any) -> Any:
    total, x = 0.0, 10.0
    for x in a:
        x = x * 2
        total += x
    return total, x


def element_after(a: Any) -> float:
    total = 0.0
    for x in a:
        total += x
        a[-1] = 100
    return x


def row_after(a: Any) -> float:
    for row in a:
        row[0] += 1
    return row.sum()


def parts_after(a: Any) -> Any:
    total = 0.0
    for x, y in a:
        total += x * y
    return x, y, total


def row_assigned(a: Any) -> None:
    row = a[0]
    for row in a:
        row += 1
        row = row * 2


def reused(a: Any) -> float:
    total = 0.0
    for i in range(len(a)):
        total += a[i]
    for i in range(len(a)):
        i += 1
        total += i * 10
    return total


def set_by_body(a: Any) -> None:
    i = 7
    for i in range(len(a)):
        a[i] = i
        i = 0


def types_reused(a: Any) -> None:
    x = np.float32(3)
    a[0] = x
    for x in a:
        a[1] += x
    for x in range(len(a)):
        a[2] += x


def empty_body(a: Any) -> int:
    for i in range(len(a)):
        pass
    return i


def numbered_rows(a: Any) -> Any:
    for i, row in enumerate(a, 1):
        row[0] += i
    for i, row in reversed(((0, a[1]), (2, a[0]))):
        row *= i
    return i, row


def side_by_side(a: Any) -> Any:
    total = 0.0
    for i, (x, y) in enumerate(zip(a[1:], a, strict=False), start=2):
        a[i - 2] = x + 1
        total += i * x * y
    for x, k in zip(reversed(a), range(9, 0, -2), strict=False):
        if k < x:
            break
        total = total / 2 + k * x
    for x, weight in zip(a, (1, 2), strict=False):
        a[1] += weight * x
    for i in reversed(range(len(a))):
        total = total / 2 + a[i]
    return total, i


def pairs_of_elements(a: Any) -> None:
    for (x, y), row in zip(a[::-1], a, strict=True):
        row[1] += x * y


VECTOR, MATRIX = np.arange(5.0), np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(
    ("function", "argument"),
    [
        (element_assigned, VECTOR), (element_after, VECTOR), (row_after, MATRIX),
        (parts_after, MATRIX), (row_assigned, MATRIX), (reused, VECTOR), (set_by_body, VECTOR),
        (types_reused, VECTOR), (empty_body, VECTOR), (numbered_rows, MATRIX),
        (side_by_side, VECTOR), (pairs_of_elements, MATRIX),
    ],
)  # fmt: skip
def test_loop_variables(function: Callable[..., Any], argument: np.ndarray) -> None:
    agrees(function, argument)


def test_loops_over_several_arrays_are_loops_of_the_program() -> None:
    def dot(a: Any, b: Any) -> float:
        total = 0.0
        for i, (x, y) in enumerate(zip(a, b, strict=False)):
            total += i * x * y
        return total

    kernel = agrees(dot, np.arange(40.0), np.arange(30.0))
    assert len(show(kernel.trace(np.arange(40.0), np.arange(30.0))).splitlines()) < 20


def left_by_inner_loop(a: Any, n: int) -> None:
    j = 0
    for k in range(n):
        a[k] = j
        for j in range(k):
            a[0] += 1


def left_by_inner_loop_down(a: Any, n: int) -> int:
    j = 3
    for k in range(n):
        a[k] = j
        for j in range(n - 3, k, -2):
            a[0] += 1
    return j


def kept_over_empty_range(a: Any, n: int) -> int:
    i = 9
    for i in range(len(a) - n):
        a[i] += 1
    return i


@pytest.mark.parametrize(
    "function", [left_by_inner_loop, left_by_inner_loop_down, kept_over_empty_range]
)
def test_loop_variable_keeps_its_value(function: Callable[..., Any]) -> None:
    agrees(function, np.zeros(6), 6)


# ---------------------------------------------------------------- arrays of branches and loops


def chosen_by_expression(x: Any, y: Any, c: float) -> None:
    chosen = x if c > 0 else y
    chosen[0] = 7


def chosen_by_statement(x: Any, y: Any, c: float) -> None:
    if c > 0:  # noqa: SIM108 - the statement is the subject
        chosen = x
    else:
        chosen = y
    chosen += 1


def second_name_in_branch(x: Any, y: Any, c: float) -> Any:
    if c > 0:
        other = x * 2
        chosen = other
    else:
        other = y * 2
        chosen = other
    chosen[0] = 5
    return other


def _itself_or_new(x: Any, c: float) -> Any:
    if c > 0:
        return x
    return x * 2


def chosen_by_call(x: Any, y: Any, c: float) -> Any:
    chosen = _itself_or_new(x, c)
    chosen[0] = 7
    return chosen


def argument_bound_anew(x: Any, y: Any, c: float) -> None:
    b = x
    for i in range(len(y)):
        b[0] = i
        b = b * 0.5


def part_in_next_round(x: Any, y: Any, c: float) -> None:
    b = np.zeros(1)
    for i in range(len(y)):
        b[0] += 1
        b = x[i : i + 1]


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (chosen_by_expression, "it is one of several arrays, by the branch at"),
        (chosen_by_statement, "it is one of several arrays, by the branch at"),
        (second_name_in_branch, "it is one of several arrays, by the branch at"),
        (chosen_by_call, "it is one of several arrays, by the branch at"),
        (argument_bound_anew, "b is written, and is another array in each round"),
        (part_in_next_round, "b is written, and is another array in each round"),
    ],
)
def test_writes_to_arrays_that_are_copies_are_refused(
    function: Callable[..., Any], found: str
) -> None:
    with pytest.raises(WeftError, match=found) as caught:
        wf.kernel(function)(np.zeros(5), np.ones(5), 1.0)
    assert f"{__file__}:" in str(caught.value)


def row_left(a: Any) -> None:
    for i in range(len(a)):
        row = a[i]
    row[0] = 99


def test_write_to_a_row_that_a_loop_left_is_refused() -> None:
    with pytest.raises(WeftError, match="it is one of several arrays, by the loop at"):
        wf.kernel(row_left)(np.ones((5, 2)))


def read_chosen(x: Any, y: Any, c: float) -> Any:
    chosen = x if c > 0 else y
    return chosen.sum() + (y if c > 0 else x)[0]


def new_in_both(x: Any, y: Any, c: float) -> Any:
    if c > 0:
        b = np.zeros(3)
        b[1] = c
    else:
        b = y.copy()
    b[0] = 7
    return b


def new_in_one(x: Any, y: Any, c: float) -> Any:
    b = x.copy()
    if c > 0:
        b = b * 2
    b[0] = 7
    return b


def same_in_both(x: Any, y: Any, c: float) -> Any:
    k = 2.0
    if c > 0:
        b = x[1:]
        k = 3.0
    else:
        b = x[1:]
    b[0] = k
    return y.sum()


def new_in_each_round(x: Any, y: Any, c: float) -> Any:
    b = x.copy()
    while c < 5:
        b[1] = c
        b = b * 0.5
        c += 1
    b[0] = 7
    return b


@pytest.mark.parametrize(
    "function", [read_chosen, new_in_both, new_in_one, same_in_both, new_in_each_round]
)
@pytest.mark.parametrize("c", [-1.0, 1.0])
def test_arrays_of_branches_and_loops(function: Callable[..., Any], c: float) -> None:
    agrees(function, np.zeros(3), np.ones(3), c)


def original_written(x: Any, y: Any, c: float) -> float:
    chosen = x if c > 0 else y
    x[0] = 5
    return chosen[0]


def original_written_in_branch(x: Any, y: Any, c: float) -> float:
    chosen = x if c > 0 else y
    if c > -1:
        x[0] = 5
    return chosen[1:].sum()


def original_written_in_loop(x: Any, y: Any, c: float) -> Any:
    b = x
    for i in range(len(y)):
        x[0] = i
        b = b * 0.5
    return b


def original_written_by_rounds(x: Any, y: Any, c: float) -> float:
    b = y
    total = 0.0
    while total < c + 8:
        if total > 3:
            b = x
        total += b[0] + 1
        y[0] += 1
    return total


@pytest.mark.parametrize(
    "function",
    [
        original_written, original_written_in_branch, original_written_in_loop,
        original_written_by_rounds,
    ],
)  # fmt: skip
def test_reads_of_copies_of_what_was_written_since_are_refused(
    function: Callable[..., Any],
) -> None:
    with pytest.raises(WeftError, match="is one of several arrays, by a branch or loop, and one"):
        wf.kernel(function)(np.zeros(5), np.ones(5), 1.0)


def greatest_row(m: Any, a: Any) -> Any:
    most, row = a[0], m[0]
    for i in range(1, len(a)):
        if a[i] > most:
            most = a[i]
            row = m[i]
    return most, row.sum()


def test_row_chosen_in_a_loop_is_read_afterwards() -> None:
    agrees(greatest_row, np.arange(12.0).reshape(4, 3), np.array([2.0, 5.0, 1.0, 7.0]))


def test_names_that_expressions_bind() -> None:
    """In the test of a while, and in what is evaluated only if needed."""

    def bound(x: Any) -> Any:
        i, seen, best, total = 0, 0, -9.0, 0.0
        while (n := 2 * i) < x.shape[0]:
            i += 1
            if x[n] > 7:
                break
            seen += n
        for k in range(x.shape[0]):
            if k % 2 == 0 and (best := best + k) > 3:
                total += 1
            if k % 3 == 0 or (best := best * 2) > 3:
                total += 10
            total += (best := best - 1) if k > 4 else best
        return i, n, seen, best, total

    for n in (0, 1, 7, 10):
        agrees(bound, np.arange(10.0)[:n])


def test_chained_comparisons_read_what_they_need() -> None:
    def chained(x: Any, n: int) -> Any:
        count = 0
        for i in range(n):
            if i < x.shape[0] < x[i] + n:
                count += 1
            if 0 < x[i % 3] <= x[(i + 1) % 3] < 9:
                count += 10
            if 0 < i < 3 != x[i - 1]:
                count += 100
        return count, 0 <= x[0] < x[1] < n, 3 < 2 < x[n]

    for n in (3, 4, 12):
        agrees(chained, np.arange(4.0), n)


# ---------------------------------------------------------------- assertions


def positive(x: Any) -> Any:
    assert x >= 0, "a negative number"
    return x


def roots(a: Any) -> Any:
    assert a.ndim == 1
    for i in wf.prange(a.shape[0]):
        a[i] = positive(a[i]) ** 0.5


def guarded_search(a: Any, most: int) -> int:
    assert most >= 0
    k = 0
    while True:
        assert k < most, f"none of {most}"
        if a[k % a.shape[0]] > 3:
            break
        k += 1
    return k


def only_in_a_branch(a: Any) -> Any:
    for i in range(a.shape[0]):
        if a[i] < 0:
            assert False, "unexpected"  # noqa: B011, PT015
    return a.sum()


def counted_down(n: Any) -> int:
    assert n >= 0, "no end"
    k = 0
    while n != 0:
        n -= 1
        k += 1
    return k


@pytest.mark.parametrize(
    ("function", "good", "bad", "message", "line"),
    [
        (roots, (abs(NUMBERS),), (NUMBERS,), "a negative number", "assert x >= 0"),
        (guarded_search, (NUMBERS, 3), (NUMBERS - 3, 9), "f'none of {most}'", "assert k < most"),
        (only_in_a_branch, (abs(NUMBERS),), (NUMBERS,), "unexpected", "assert False"),
        (counted_down, (np.int32(3),), (np.int32(-3),), "no end", "assert n >= 0"),
        (roots, (abs(NUMBERS),), (np.ones((2, 2)),), "", "assert a.ndim == 1"),
    ],
)
@pytest.mark.parametrize("interpret_below", [0, 1 << 20])
def test_assertions(
    function: Callable[..., Any], good: Any, bad: Any, message: str, line: str,
    interpret_below: int,
) -> None:  # fmt: skip
    """Those of the run raise as Python's do, in loops that are parallel, and in endless ones."""
    with wf.config(interpret_below=interpret_below):
        kernel = agrees(function, *good)
        with pytest.raises(AssertionError) as caught:
            kernel(*copy.deepcopy(bad))
    assert caught.value.args == ((message,) if message else ())
    (note,) = caught.value.__notes__
    assert line in note
    assert f"{__file__}:" in note


def test_assertions_leave_loops_parallel() -> None:
    program = show(wf.kernel(roots).trace(NUMBERS))
    assert "kernel" in program
    assert "loop" not in program


def test_the_first_assertion_in_the_source_is_told() -> None:
    def two(a: Any) -> None:
        for i in range(a.shape[0]):
            assert a[i] < 4, "large"
            assert a[i] > 0, "small"

    with pytest.raises(AssertionError, match="large"):
        wf.kernel(two)(NUMBERS)


# ---------------------------------------------------------------- raise


class OwnError(RuntimeError):
    """An error of the user's."""


def root(x: Any) -> Any:
    if x < 0:
        raise OwnError("no root")
    return x**0.5


def roots_or_error(a: Any) -> Any:
    for i in wf.prange(a.shape[0]):
        a[i] = root(a[i])


def gathered(a: Any, places: Any) -> Any:
    found = np.zeros(places.shape[0])
    for i in range(places.shape[0]):
        if not 0 <= places[i] < a.shape[0]:
            raise IndexError("no place")
        found[i] = a[places[i]]
    return found


def chosen_or_error(a: Any) -> Any:
    if a[0] > 3:
        x = a[1]
    elif a[0] > 1:
        x = a[2]
    else:
        raise KeyError("neither")
    for k in (0, 1):
        if a[k] > 90:
            raise ZeroDivisionError
        a[k] += 1
    return x * 2


def first_large(a: Any) -> Any:
    for x in a:
        if x > 3:
            return x
    raise ValueError("none")


def whole_or_error(a: Any) -> Any:
    if a[0] > 0:
        return a + 1, a.sum()
    raise ValueError(f"not {a[0]}")


@pytest.mark.parametrize(
    ("function", "good", "bad", "error"),
    [
        (roots_or_error, (abs(NUMBERS),), (NUMBERS,), OwnError("no root")),
        (gathered, (NUMBERS, np.arange(3)), (NUMBERS, np.array([1, 3])), IndexError("no place")),
        (chosen_or_error, (NUMBERS,), (NUMBERS - 9,), KeyError("neither")),
        (chosen_or_error, (NUMBERS + 2,), (NUMBERS + 99,), ZeroDivisionError()),
        (first_large, (NUMBERS,), (NUMBERS - 9,), ValueError("none")),
        (whole_or_error, (NUMBERS,), (-NUMBERS,), ValueError("f'not {a[0]}'")),
    ],
)
@pytest.mark.parametrize("interpret_below", [0, 1 << 20])
def test_errors_that_are_raised(
    function: Callable[..., Any], good: Any, bad: Any, error: Exception, interpret_below: int
) -> None:
    with wf.config(interpret_below=interpret_below):
        kernel = agrees(function, *good)
        with pytest.raises(type(error)) as caught:
            kernel(*copy.deepcopy(bad))
    assert caught.value.args == error.args
    assert "raise " in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("error", "where"),
    [
        (ZeroDivisionError, "1 // n"), (TypeError, "nothing[0]"), (KeyError, "table['b']"),
        (ValueError, "max([])"), (OwnError, "raise OwnError(n, a[0])"),
    ],
)  # fmt: skip
def test_errors_while_compiling_say_where(error: type[Exception], where: str) -> None:
    def wrong(a: Any, n: int, nothing: Any, table: Any) -> Any:
        if where == "1 // n":
            return 1 // n
        if where == "nothing[0]":
            return nothing[0]
        if where == "table['b']":
            return table['b']  # fmt: skip
        if where == "max([])":
            return max([])
        raise OwnError(n, a[0])

    with pytest.raises(error) as caught:
        wf.kernel(wrong)(NUMBERS, 0, None, {"a": 1})
    if error is OwnError:
        assert caught.value.args == (0, "a[0]")
    (note,) = caught.value.__notes__
    assert note.startswith(f"at {__file__}:")
    assert where in note


def test_what_is_known_while_compiling_is_in_messages() -> None:
    def checked(a: Any, kind: str) -> Any:
        if a.ndim != 2:
            raise ValueError(f"{a.ndim} dimensions of {a.shape} for {kind!r:>6}")
        assert kind == "sum", f"no {kind}"
        return a.sum()

    kernel = agrees(checked, np.ones((2, 3)), "sum")
    with pytest.raises(ValueError, match=r"(?m)^1 dimensions of \(3,\) for  'sum'$"):
        kernel(NUMBERS, "sum")
    with pytest.raises(AssertionError, match="no mean"):
        kernel(np.ones((2, 3)), "mean")
