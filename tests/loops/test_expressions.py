"""Expressions and calls in kernels mean what they mean in Python and NumPy, or are refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loops.agree import agrees
from slow import every_second

import weft as wf
from weft.errors import ArgumentError, UnsupportedError, WeftError
from weft.fun.show import show

Function = Callable[..., Any]
MATRIX = np.arange(6.0).reshape(2, 3)


# ---------------------------------------------------------------- views

VIEWS = [
    "np.asarray(a)", "np.asanyarray(a)", "np.ascontiguousarray(a)", "np.array(a, copy=None)",
    "a.astype(a.dtype, copy=False)", "np.asarray(a, dtype=np.float64)", "np.ravel(a)",
    "np.reshape(a, (3, 2))", "np.reshape(a, -1, 'F')", "a.reshape((3, 2), order='F')",
    "np.reshape(a, shape=(3, 2))", "np.transpose(a)", "np.transpose(a, (1, 0))",
    "a.transpose(-1, 0)", "np.swapaxes(a, 0, 1)", "a.swapaxes(0, -1)", "np.moveaxis(a, 0, 1)",
    "a.reshape(1, 2, 1, 3).squeeze()", "np.squeeze(a[:1])", "np.flip(a)", "np.fliplr(a)",
    "np.flip(a, 1)", "np.rot90(a)", "np.expand_dims(a, 1)", "np.atleast_3d(a)", "a.real",
    "np.real(a)",
]  # fmt: skip
COPIES = [
    "np.array(a)", "np.copy(a, 'C')", "np.ascontiguousarray(a.T)", "a.T.ravel()",
    "a.T.reshape(-1)", "a.ravel('F')", "a.flatten('F')", "a[:, :2].reshape(-1)",
    "a[:, ::2].ravel()", "np.asarray(a, np.float32)",
]  # fmt: skip
BY_STRIDES = [
    "a[::-1, ::-1].reshape(-1)", "a.T.reshape(3, 1, 2)", "a[1].ravel()", "a[:, :3].reshape(-1)",
    "a[:, :2].reshape(2, 1, 2)", "a[1:].ravel()",
]  # fmt: skip


def written_in(folder: Path, parameters: str, *lines: str) -> Function:
    """A function of a module of its own."""
    path = folder / "written.py"
    body = "\n    ".join(lines)
    path.write_text(f"import math\nimport numpy as np\ndef function({parameters}):\n    {body}\n")
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    found: Function = names["function"]
    return found


@pytest.mark.parametrize("made", VIEWS)
def test_what_is_written_to_a_view_is_written_to_the_array(made: str, tmp_path: Path) -> None:
    agrees(written_in(tmp_path, "a", f"b = {made}", "b[0] = 7", "return b * 2"), MATRIX)


def test_what_numpy_copies_is_a_copy(tmp_path: Path) -> None:
    for number, made in enumerate(COPIES + BY_STRIDES):
        folder = tmp_path / str(number)
        folder.mkdir()
        agrees(written_in(folder, "a", f"b = {made}", "b[0] = 7", "return b * 2"), MATRIX)


def in_layouts() -> list[np.ndarray]:
    """Arrays of their own memory, in order, and in others."""
    box = np.arange(192.0).reshape(4, 6, 8)
    views = [
        box, np.asfortranarray(box), box[::-1], box[::-1, ::-1, ::-1], box[::2], box[:, :3],
        box[:, :, ::2], box.transpose(1, 0, 2), box.T, box[:1], box[1:3, 2:3, 1:7],
    ]  # fmt: skip
    return [
        np.ndarray(v.shape, v.dtype, np.arange(192.0), v.ctypes.data - box.ctypes.data, v.strides)
        if np.shares_memory(v, box) else v for v in views
    ]  # fmt: skip


@pytest.mark.parametrize(
    "made",
    [
        "a.ravel()", "a.reshape(-1)", "a.reshape(a.shape[0], -1)", "a.reshape(-1, a.shape[2])",
        "a.T.ravel()", "a[0].reshape(-1)", "a[:, 0].ravel()", "np.ascontiguousarray(a)",
        "a[::2].ravel()", "a[..., :2].reshape(-1)", "a.reshape(-1, order='F')",
    ],
)  # fmt: skip
def test_what_numpy_copies_of_arguments_in_other_layouts(made: str, tmp_path: Path) -> None:
    function = written_in(tmp_path, "a", f"b = {made}", "b[0] = -7", "return b")
    kernel = wf.kernel(function)
    for ours, plain in zip(in_layouts(), in_layouts(), strict=True):
        np.testing.assert_array_equal(kernel(ours), function(plain))
        np.testing.assert_array_equal(ours, plain)


def test_steps_in_rows_of_a_larger_array_are_not_known_to_be_a_copy() -> None:
    def every_second(a: Any) -> None:
        b = a[:, ::2].reshape(-1)
        b[0] = 7

    wf.kernel(every_second)(np.asfortranarray(MATRIX))
    with pytest.raises(UnsupportedError, match="lengths or strides that are not known"):
        wf.kernel(every_second)(np.zeros((4, 10))[:, :9])


def test_a_part_of_one_row_lies_in_order_and_more_do_not() -> None:
    def every_second(a: Any) -> None:
        b = a[::2].ravel()
        b[0] = 7

    kernel = wf.kernel(every_second)
    for rows in (2, 4):
        ours, plain = np.ones((rows, 3)), np.ones((rows, 3))
        kernel(ours)
        every_second(plain)
        np.testing.assert_array_equal(ours, plain)


def test_arrays_without_dimensions_are_written() -> None:
    def grow(a: Any, x: Any) -> Any:
        for i in range(len(x)):
            a += x[i]
        x[0] = a
        b = a
        if b > 10:
            b[...] = b * 2
        a[()] = -b
        return a

    kernel = wf.kernel(grow)
    for dtype in (np.float64, np.int64, ">f4"):
        ours, plain = (np.array(3, dtype) for _ in range(2))
        assert kernel(ours, np.arange(5).astype(ours.dtype)) is ours
        grow(plain, np.arange(5).astype(plain.dtype))
        assert ours.dtype == plain.dtype
        assert ours == plain == -26


def test_views_are_seen_to_change() -> None:
    def parts(a: Any) -> Any:
        real, imaginary, spread = a.real, np.imag(a), np.broadcast_to(a, (2, 2, 3))
        a[0] = 7 + 3j
        return real * 1, imaginary * 1, spread * 1

    agrees(parts, MATRIX + 1j)


def test_views_in_loops() -> None:
    def rows(a: Any) -> None:
        for i in range(a.shape[0]):
            row = np.flip(a[i])
            row[0] = i + 1
            column = np.reshape(a[i], (3, 1))
            column[1] = i * i

    agrees(rows, MATRIX)


def test_whether_a_shape_is_a_view_depends_on_lengths() -> None:
    def first_columns(a: Any, n: int) -> None:
        b = a[:, :n].reshape(-1)
        b[0] = 7

    for n in (2, 3):
        agrees(first_columns, MATRIX, n)


@pytest.mark.parametrize("made", ["a.imag", "np.diagonal(a)"])
def test_what_is_computed_of_an_array_is_read_alone(made: str, tmp_path: Path) -> None:
    kernel = wf.kernel(written_in(tmp_path, "a", f"b = {made}", "b[0] = 7"))
    with pytest.raises(UnsupportedError, match=r"writing through it(.|\n)*written.py:5"):
        kernel(MATRIX)


# ---------------------------------------------------------------- and, or

OPERANDS = [
    "a.sum() or 1.0", "a[0] and a[1]", "a[0] and a[1] and 2.0", "a[0] or a[1] or a[2]",
    "(a[0] or 2.0) + 1", "a[0] or (a[1] and a[2])", "(a[0] and a[1]) == a[1]",
    "abs(a[0]) or a[1] / 2",
]  # fmt: skip


@pytest.mark.parametrize("expression", OPERANDS)
def test_and_and_or_give_an_operand(expression: str, tmp_path: Path) -> None:
    function = written_in(tmp_path, "a", f"return {expression}")
    for values in ([3.0, -1.0, 4.0], [0.0, 0.0, 0.0], [0.0, 2.0, 0.0], [2.0, 0.0, 0.0]):
        agrees(function, np.array(values))


CONTAINED = [
    "a[0] in (1, 3, 5)", "a[1] not in [n, 2.0]", "n in a", "n not in a[1:]", "a[2] in a[:2]",
    "a[0] in range(1, 9, 2)", "a[0] in range(9, 0, -2)", "a[0] in range(0)", "a[0] in ()",
    "(n, a[1]) in ((3, 0), (3, 2))", "2 < a[2] not in (4, 7)", "a[0] in (None, 'x', 3)",
    "n in (1, 2)", "n in range(3, 5)",
]  # fmt: skip


@pytest.mark.parametrize("expression", CONTAINED)
def test_membership(expression: str, tmp_path: Path) -> None:
    function = written_in(tmp_path, "a, n", f"return 1 if {expression} else 2")
    for values in ([3, 0, 4], [4, 2, 0], [9, 3, 3]):
        agrees(function, np.array(values), 3)


def test_membership_of_each_round() -> None:
    def counted(a: Any) -> int:
        found = 0
        for i in range(len(a)):
            found += (a[i] in a[:i]) + 10 * (i not in (0, 2)) + 100 * (a[i] in range(2, 4))
        return found

    agrees(counted, np.array([1, 2, 1, 3, 3]))


@pytest.mark.parametrize("expression", ["a[0] in (a, 1)", "a in (1, 2)", "a[0] in 'text'"])
def test_membership_that_is_no_truth_is_refused(expression: str, tmp_path: Path) -> None:
    kernel = wf.kernel(written_in(tmp_path, "a", f"return {expression}"))
    with pytest.raises(UnsupportedError, match=r"`in` of a(.|\n)*written.py:4"):
        kernel(MATRIX[0])


def test_an_operand_of_each_round() -> None:
    def counted(a: Any, n: int) -> None:
        for i in range(n):
            a[i] = (i or 7) + (a[i] or 5)

    agrees(counted, np.array([0, 1, 0, 2]), 4)


def test_operands_of_two_types_are_refused() -> None:
    @wf.kernel
    def mixed(a: Any) -> Any:
        return a[0] > 0 or 3

    with pytest.raises(UnsupportedError, match=r"two types(.|\n)*try: x != 0 or y > 0"):
        mixed(MATRIX[0])

    def tested(a: Any) -> float:
        if a[0] > 0 or a[1]:
            return 1.0
        return 2.0

    agrees(tested, MATRIX[0])


# ---------------------------------------------------------------- what a mask selects

SELECTED = [
    "return a[a > 0].strides", "return a[a > 0] if a[0] > 0 else a[a < 0]",
    "return 1.0 if a[a > 0] else 2.0",
]  # fmt: skip


@pytest.mark.parametrize("statement", SELECTED)
def test_elements_that_a_mask_selects_are_no_value(statement: str, tmp_path: Path) -> None:
    kernel = wf.kernel(written_in(tmp_path, "a", statement))
    with pytest.raises(UnsupportedError, match=r"expected(.|\n)*written.py:4"):
        kernel(MATRIX[0])


def test_functions_of_elements_that_a_mask_selects() -> None:
    def positive(a: Any) -> Any:
        return a[a > 0]

    def totals(a: Any) -> Any:
        b = a[a > 0]
        a[a > 0] = abs(b) * 2
        return sum(b), np.sum(abs(a[a < 0])), positive(a).sum()

    agrees(totals, np.array([3.0, -1.0, 4.0]))


# ---------------------------------------------------------------- arguments of functions

WITH_ARGUMENTS = [
    "a.sort(0)", "a.sort(axis=0, kind='stable')", "return a.argsort(kind='stable')",
    "return np.array(a, ndmin=3)", "return np.array(a[0], ndmin=2)", "np.fill_diagonal(a, val=5)",
    "np.copyto(a, 1.0, 'same_kind', a > 1)", "np.copyto(dst=a, src=2.0, where=a > 1)",
    "return a.sum(0, np.float32)", "return np.sum(a, 0, np.float32)",
    "return a.var(0, None, None, 1)",
    "return np.std(a, 0, None, None, 1)", "return np.max(a, 0, None, True)",
    "return np.round(a * 1.23, decimals=1), np.around(a * 1.256, 2)",
    "return np.arange(start=1, stop=5), np.arange(5, step=2)", "return np.sort(a, 0, 'stable')",
    "b = np.zeros(3); a.sum(axis=0, out=b); return b", "b = a * 0; np.add(a, 1, b); return b",
    "b = np.zeros(3); np.sum(a, axis=0, out=b); return b", "return a.argmax(0, None)",
    "return math.pow(len(a), 2), math.pow(a[0, 1], 2)",
    "return a.sum(where=a > 1), a.max(initial=9)", "np.put(a, [1, -1], 5.0); np.put(a, 0, v=7)",
    "a.T.put([1, 2], a[0, :2])", "np.putmask(a, a > 1, 0.0); np.putmask(a, a < 1, values=a + 2)",
    "return a.item(-1), a.item(1, 2)", "return np.extract(a > 1, a), np.extract(a, a)",
    "a[np.ix_([1, 0], [0, 2])] *= 2; return a[np.ix_(a[1].argsort()[:1], [1])], a.nonzero()",
]  # fmt: skip
NOT_TAKEN = [
    "np.fill_diagonal(a, 5, wrap=True)", "np.fill_diagonal(a, 5, True)", "a.sort(order='x')",
    "np.zeros_like(a, None, 'K', True, (2,))", "np.zeros_like(a, shape=(2,))", "a.ravel('A')",
    "np.take(a, [0, 5], mode='wrap')", "max(a[0, 0], a[0, 1], key=abs)", "a.fill(value=3)",
    "round(len(a), -1)", "np.asarray(a, order='F')", "np.put(a, 9, 1.0, mode='clip')",
    "np.putmask(a, a > 1, a[0])", "np.ix_([True, False])",
]  # fmt: skip


@pytest.mark.parametrize("statements", WITH_ARGUMENTS)
def test_arguments_of_functions_count(statements: str, tmp_path: Path) -> None:
    agrees(written_in(tmp_path, "a", *statements.split("; ")), np.array([[3.0, 1, 2], [0, 5, 4]]))


@pytest.mark.parametrize("call", NOT_TAKEN)
def test_arguments_that_are_not_taken_are_refused(call: str, tmp_path: Path) -> None:
    kernel = wf.kernel(written_in(tmp_path, "a", f"b = {call}", "return 0"))
    with pytest.raises(WeftError, match=r"expected(.|\n)*written.py:4"):
        kernel(MATRIX.copy())


def test_wrong_arguments_of_a_kernel_within_a_kernel() -> None:
    @wf.kernel
    def inner(a: Any, b: Any) -> Any:
        return a + b

    @wf.kernel
    def outer(a: Any) -> Any:
        return inner(a)

    with pytest.raises(ArgumentError, match=r"missing a required(.|\n)*return inner\(a\)"):
        outer(MATRIX)


def test_integers_are_rounded_already() -> None:
    def rounded(a: Any, n: int) -> Any:
        return round(n) + a[0], round(n, 2) + a[0]  # noqa: RUF057

    agrees(rounded, np.array([1, 2]), 5)


def test_remainders_are_exact() -> None:
    def remainders(a: Any) -> Any:
        return (
            math.fmod(a[0], a[1]), math.fmod(7.0, a[1]), math.fmod(a[2], 3.0),
            math.fmod(a[3], a[1]), math.fmod(a[3], a[4]), math.fmod(a[4], 4),
        )  # fmt: skip

    kernel = agrees(remainders, np.array([7.0, 0.1, 1e20, -7.0, -2.5]))
    assert math.copysign(1, kernel(np.array([7.0, 1.0, 1e20, -7.0, -2.5]))[3]) == -1


# ---------------------------------------------------------------- Python's ints

COMPARED = ["a < n", "np.less(a, n)", "a[1:] >= n", "(a < n) & (a == n)"]
COMBINED = ["a + n", "n * a", "a[0] - n", "a // n", "a & n", "np.minimum(a, n)", "np.uint8(n) + a"]
BYTES = np.array([1, 250], np.uint8)


@pytest.mark.parametrize("expression", every_second(COMPARED))
@pytest.mark.parametrize("array", [BYTES, np.array([-5, 100], np.int8)])
def test_ints_are_compared_as_they_are(expression: str, array: Any, tmp_path: Path) -> None:
    function = written_in(tmp_path, "a, n", f"return {expression}")
    for n in (300, 5, -3, 2**40):
        agrees(function, array, n)


@pytest.mark.parametrize("expression", [*COMBINED, "a.fill(n)"])
def test_ints_that_a_dtype_does_not_hold_are_refused(expression: str, tmp_path: Path) -> None:
    kernel = wf.kernel(written_in(tmp_path, "a, n", f"b = {expression}", "return b"))
    kernel(BYTES.copy(), 200)
    for n in (300, -3, 2**40):
        with pytest.raises(OverflowError, match=r"out of bounds for uint8(.|\n)*written.py:4"):
            kernel(BYTES.copy(), n)


def test_an_element_that_does_not_hold_an_int() -> None:
    @wf.kernel
    def put(a: Any, n: int) -> None:
        a[0] = n

    array = BYTES.copy()
    put(array, 7)
    with pytest.raises(OverflowError, match="300 out of bounds for uint8"):
        put(array, 300)
    assert array[0] == 7


POWERS = ["2**-n", "n**-1", "n**m", "pow(n, -2)", "10**-n * 0.5", "(n + 1) ** (-n)"]


@pytest.mark.parametrize("expression", POWERS)
def test_negative_powers_of_ints_are_floats(expression: str, tmp_path: Path) -> None:
    agrees(written_in(tmp_path, "a, n, m", f"return {expression}"), MATRIX, 4, -2)


def test_negative_powers_of_counters() -> None:
    def halves(a: Any) -> None:
        for i in range(a.shape[0]):
            a[i] = 2**-i + 2**i + (-1) ** (i - 3) + (i + 1) ** -2

    agrees(halves, np.zeros(9))


@pytest.mark.parametrize(
    "statements",
    [
        "b = i**-1", "b = i ** (n - 3)", "b = np.power(i, -1)",
        "b = 0.0;for k in range(n, n + len(i)):;    b += 2 ** (k - 3)",
    ],
)  # fmt: skip
def test_powers_that_may_be_negative_are_refused(statements: str, tmp_path: Path) -> None:
    kernel = wf.kernel(written_in(tmp_path, "i, n", *statements.split(";"), "return b"))
    with pytest.raises(UnsupportedError, match=r"expected(.|\n)*written.py"):
        kernel(np.arange(1, 9), 2)


BITS = [
    "n & 3", "n | 8", "n ^ m", "n << 2", "n >> 1", "~n", "n & m", "n << m", "n >> m", "~n & 7",
    "3 & n", "n & (m - 1)",
]  # fmt: skip


@pytest.mark.parametrize("expression", BITS)
def test_bits_of_ints(expression: str, tmp_path: Path) -> None:
    function = written_in(tmp_path, "a, n, m", f"k = {expression}", "return k, a[k % 3] + k")
    for n in (5, -7, 1):
        agrees(function, MATRIX[1], n, 3)


def test_lengths_that_are_shifted() -> None:
    def lengths(a: Any, n: int) -> Any:
        for i in range(n | 1):
            a[i] = i >> 1
        return np.zeros(n >> 1) + a[0], np.zeros(n << 1), np.zeros(n & 3)

    agrees(lengths, np.ones(9), 6)


def test_lengths_that_data_decide_within_bounds() -> None:
    def counted(a: Any, n: Any) -> Any:
        found = np.zeros(min(max(n, 0), 100), np.int64)
        for x in a:
            found[x] += 1
        for i in range(len(a)):
            row = np.zeros(max(min(a[i], len(a)), 0))
            for j in range(len(row)):
                row[j] = j
            a[i] += int(row.sum())
        return found.sum() + found[3]

    agrees(counted, np.array([3, 1, 3, 0]), np.int64(5))


def test_functions_of_whole_numbers() -> None:
    def found(a: Any, b: Any, n: int) -> Any:
        for i in range(len(a)):
            b[i] = math.gcd(a[i], b[i]) + 1000 * math.lcm(a[i], b[i]) + math.factorial(i)
            a[i] = math.isqrt(abs(a[i]))
        return math.gcd(n, 18), math.lcm(n, 4), math.factorial(n), math.isqrt(n)

    agrees(
        found, np.array([12, 18, 0, -7, 99, 100, 2**62, 94906267**2 - 1, 3037000499**2]),
        np.array([8, 27, 4, 14, 0, -10, 0, 0, 0]), 14,
    )  # fmt: skip


@pytest.mark.parametrize("call", ["math.isqrt(a[0])", "math.factorial(a[0])", "math.isqrt(n)"])
def test_functions_of_no_negative_number(call: str, tmp_path: Path) -> None:
    function = written_in(tmp_path, "a, n", f"return {call}")
    agrees(function, np.array([10]), 10)
    with pytest.raises(ValueError, match="negative") as caught:
        wf.kernel(function)(np.array([-4]), -4)
    assert f"return {call}" in caught.value.__notes__[0]
    with pytest.raises(UnsupportedError, match="no whole numbers"):
        wf.kernel(function)(np.array([1.0]), 4.0)


def test_starred_targets() -> None:
    def unpacked(a: Any) -> Any:
        first, *rest = a.shape
        *_, last = a[0], a[1], a[2]
        return first + len(rest) + last

    agrees(unpacked, np.ones(9))


def test_counters_are_compared_as_they_are() -> None:
    def counted(a: Any, b: Any, n: int) -> Any:
        below = 0
        for i in range(n):
            if a[0] < i:
                below += 1
        return below, a < int(b[0]), max(a[0], n) + 0 * b[0]

    agrees(counted, BYTES, np.array([300]), 400)


@pytest.mark.parametrize("made", ["np.full(3, n, np.uint8)", "np.array([n, 1], np.uint8)"])
def test_arrays_that_do_not_hold_an_int_are_refused(made: str, tmp_path: Path) -> None:
    kernel = wf.kernel(written_in(tmp_path, "a, n", f"return {made}"))
    with pytest.raises(OverflowError, match="300 out of bounds for uint8"):
        kernel(BYTES, 300)


def test_numbers_made_numpys() -> None:
    """Arguments, counters and numbers that loops carry, as NumPy's scalars and arrays."""

    def made(x: Any, factor: float, n: int) -> Any:
        rows, carried = np.zeros((n, 3)), factor
        for i in range(n):
            rows[np.int64(i)] = x * np.float64(carried) + x * np.int64(i) - x * np.array(carried)
            carried *= 1.5
        return x * np.float64(factor), x * np.array(factor), x * np.asarray(n), rows

    agrees(made, np.full(3, 1 / 3, np.float32), 0.7, 4, rtol=1e-15)


def test_functions_of_pythons_numbers_give_numpys() -> None:
    """Their dtype is their own: an array of narrower floats beside them becomes a wider one."""

    def functions(x: Any, factor: float, n: int) -> Any:
        rows = np.zeros((n, 3))
        for i in range(n):
            rows[i] = x * np.sqrt(i) + x * np.minimum(i + 1, n - 1) + x * abs(factor)
        chosen = np.where(factor > 0, factor, 0.0)
        return x * np.sqrt(factor), x * chosen, x * np.round(factor, 1), x * math.sqrt(n), rows

    agrees(functions, np.full(3, 1 / 3, np.float32), 0.7, 4, rtol=1e-15)


def test_comprehensions_over_tuples_of_what_is_computed() -> None:
    def comprehended(x: Any, factor: float) -> Any:
        sums = [row.sum() * factor for row in (x[0], x[-1])]
        return max([abs(value) for value in (x[0, 0], factor, sums[1])]), sum(sums)

    agrees(comprehended, MATRIX, 0.5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
def test_dtypes_are_compared_with_numpys_types(dtype: Any) -> None:
    def scaled(a: Any) -> Any:
        if a.dtype == np.float64 or np.float32 == a.dtype:
            return a * 2
        return a.dtype != np.uint8, a + 1

    agrees(scaled, MATRIX.astype(dtype))


# ---------------------------------------------------------------- what goes over arrays


TEN = np.random.default_rng(3).random(10) * 9
KINDS = [TEN, TEN.astype(np.int8), TEN.astype(np.uint64), TEN > 4, np.array([np.nan, 1, 2]),
         np.array([1, np.nan, 0.5])]  # fmt: skip


@pytest.mark.parametrize("x", KINDS)
def test_builtins_of_arrays(x: Any) -> None:
    """`sum` adds small integers in their own width, and `max` keeps a NaN that comes first."""

    def whole(x: Any, more: Any) -> Any:
        return sum(x), sum(x, 3), max(x), min(x), any(x), all(x), any([x[0] > 2, more])

    agrees(whole, x, 0)
    agrees(whole, x, True)


def test_builtins_of_long_arrays_compile_no_element_by_itself() -> None:
    def whole(x: Any) -> Any:
        squares = np.array([x[i] ** 2 for i in range(x.shape[0])])
        return max(x), sum(y for y in x), squares

    x = np.arange(3000.0)
    assert len(show(agrees(whole, x).trace(x)).splitlines()) < 60


@pytest.mark.parametrize("x", KINDS[:3])
def test_comprehensions_over_what_only_the_run_knows(x: Any) -> None:
    def over(x: Any, places: Any, n: int) -> Any:
        count = sum(1 for y in x if y > 4)
        inside = sum(x[k] for k in places if 0 <= k < x.shape[0])
        rising = all(x[i] < x[i + 1] for i in range(x.shape[0] - 1))
        divisors = sum(d for d in range(1, n) if n % d == 0)
        weighted = sum(i * a - b for i, (a, b) in enumerate(zip(x, x[::-1])))  # noqa: B905
        for i in range(n):
            count += 1 if i > 1 and not any(i % d == 0 for d in range(2, i)) else 0
        pairs = np.array([row.sum() for row in x.reshape(-1, 2)])
        most = max(abs(y - x[0]) for y in x), min(y for y in x if y > 2)
        known = sum(i * j for i in (1, 2) for j in (3, 4) if i < j)
        return count, inside, rising, divisors, weighted, pairs, most[0], most[1], known, x * count

    for n in (1, 28):
        agrees(over, x, np.array([3, -1, 99, 3]), n)


@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")  # NumPy's, of no elements
@pytest.mark.parametrize("x", [*KINDS[:4], TEN.reshape(2, 5), TEN / 9 + 1j * TEN])
def test_reductions_of_what_a_mask_selects(x: Any) -> None:
    def reduced(x: Any, mask: Any) -> Any:
        part = x[mask]
        sums = part.sum(), part.mean(), part.std(), np.var(x[mask]), np.mean(part * 2), part.prod()
        return *sums, len(part), part.size, part.shape[0], part.any(), np.all(part)

    for limit in (4, 99):  # 99: of nothing
        agrees(reduced, x, abs(x) > limit if x.dtype != bool else np.full(10, limit < 9))


@pytest.mark.parametrize("x", KINDS[:4])
def test_extremes_of_what_a_mask_selects(x: Any) -> None:
    def extremes(x: Any, mask: Any) -> Any:
        return x[mask].max(), np.min(x[mask])

    kernel = agrees(extremes, x, np.arange(10) % 3 > 0)
    with pytest.raises(ValueError, match=r"zero-size .* maximum") as caught:
        kernel(x, np.zeros(10, bool))
    assert "return x[mask].max()" in caught.value.__notes__[0]


@pytest.mark.parametrize("dtype", [np.int8, np.float32])
def test_one_of_two_python_numbers_is_one(dtype: Any) -> None:
    """It takes the dtype of what it is combined with, as either does."""

    def chosen(x: Any, n: int) -> Any:
        count = 0
        for i in range(n):
            count += 1 if x[i] > 1 else 0
        sign, factor = (1 if x[0] > 0 else -1), int(x[1]) or 7
        return x * count, x * sign, x * factor, np.where(x[0] > 0, 1, 0)

    for x in (np.arange(4), np.zeros(4)):
        agrees(chosen, x.astype(dtype), 3)


# ---------------------------------------------------------------- lists


def test_lists_are_written_where_they_are_made() -> None:
    def placed(held: list[Any], value: Any) -> Any:
        held[0] = value
        return held[0]

    def rows(a: Any) -> Any:
        out, first = np.zeros(a.shape[0]), [1.0, 2.0]
        first[1] = placed(first, a[0, 0])
        for i in range(a.shape[0]):
            row, nested = [0.0] * 3, [[1.0, 2.0], 3]
            for k in range(3):
                row[k] = a[i, k] * 2
            if a[i, 0] > 1:
                nested = [[placed([0.0], a[i, 1]), 2.0], 4]
                nested[0][1] = row[0]
            out[i] = sum(row) + nested[0][1]
        return out, first

    agrees(rows, MATRIX)


OUTSIDE = [1.0, 2.0]


def test_lists_of_numbers_are_written_in_loops_and_branches_around_which_they_were_made() -> None:
    def in_branch(a: Any) -> Any:
        held = [1.0, 2.0]
        if a[0, 0] > 9:
            held[0] = 5.0
        return held[0]

    def in_loop(a: Any) -> Any:
        held = [0.0]
        for i in range(a.shape[0]):
            held[0] += a[i, 0]
        return held[0]

    for function in in_branch, in_loop:
        agrees(function, MATRIX)
        agrees(function, MATRIX + 10)


def test_lists_are_written_nowhere_else() -> None:
    """What holds in one branch alone, or after so many rounds, is in no list of Python's."""

    def of_words(a: Any, given: Any) -> Any:
        held = ["a", "b"]
        if a[0, 0] > 9:
            held[0] = "c"
        return a[0, len(held[0])]

    def argument(a: Any, given: Any) -> None:
        given[0] = 5.0

    def from_module(a: Any, given: Any) -> None:
        OUTSIDE[0] = 5.0

    for function, what in (
        (of_words, "what is no number or array, in a list that a loop or branch changes"),
        (argument, "a write to a list .*outside the function"),
        (from_module, "a write to a list .*outside the function"),
    ):
        with pytest.raises(UnsupportedError, match=what):
            wf.kernel(function)(MATRIX, [1.0, 2.0])
    assert OUTSIDE == [1.0, 2.0]


def test_tuples_are_compared_by_the_first_parts_that_differ() -> None:
    def compared(a: Any, n: int) -> Any:
        pair, k = (n, a[0, 1]), a[1]
        same = pair == (3, 1.0), pair != (3, 1.0), [n] == [3], (n, 1) == [n, 1], (n, 2) == (n, 2, 3)
        less = pair < (3, 2), pair <= (3, 1), pair < (3, 1), (n, 2) < (n, 2, 3), (n, 2, 3) <= (n, 2)
        more = pair > (2, 9), pair >= (3, 1.0), (k[0], (n, k[1])) > (3.0, (3, 3.5)), [n, 1] > [n]
        return *same, *less, *more, (a[0, 0] / 0.5, np.nan) < (0.0, 1.0), (n, "b") >= (3, "a")

    def nearest(a: Any) -> Any:
        best, count = (np.inf, -1), 0
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                best = min(best, ((a[i, j] * 7.0) % 5.0, j))
                if (i, j) != (1, 1) and (a[i, j], i) > (1.0, 0):
                    count += 1
        return best[0], best[1], count, max((a[0, 1], 1), (a[0, 0], 2))[1]

    agrees(compared, MATRIX, 3)
    agrees(nearest, MATRIX)
    for wrong, match in (
        (lambda a: (a[0, 0], 1) < [1.0, 2], "'<' not supported"),
        (lambda a: (a[0], 1) == (a[1], 1), "arrays within a tuple"),
        (lambda a: min((a[0, 0], 1), (1.0, 2, 3)), "several kinds or lengths"),
        (lambda a: min((a[0, 0], 1), 3), "'<' not supported|several kinds"),
    ):
        with pytest.raises(UnsupportedError, match=match):
            wf.kernel(wrong)(MATRIX)


def test_sorted() -> None:
    def ordered(a: Any, n: int) -> Any:
        total = 0.0
        for i in range(a.shape[0]):
            low, middle, high = sorted(a[i] * 7.0 % 5.0)
            total += low + 10.0 * middle + 100.0 * high + sorted(a[i], reverse=True)[0]
            total += sorted((a[i, 1], n, 2.5))[1]
        pairs = sorted(((a[1, 2 - k] % 2.0, -k) for k in range(3)), reverse=True)
        return total, pairs[0][1], pairs[2][0], sorted([3, 1, 2])[0]

    def by_key(a: Any) -> Any:
        return sorted(a[0], key=abs)[0]

    def of_rows(a: Any) -> Any:
        return sorted(a)[0]

    agrees(ordered, MATRIX, 3)
    agrees(by_key, MATRIX)
    with pytest.raises(UnsupportedError, match="a call of sorted"):
        wf.kernel(of_rows)(MATRIX)


def test_lists_that_grow_do_so_for_all_that_hold_them() -> None:
    def more(held: Any, a: Any) -> None:
        held += (a[1, 1], 7.0)

    def grown(a: Any) -> Any:
        held = [a[0, 0]]
        other = held
        held += [a[1, 2]]
        apart = held
        apart = [*apart, 1.0]
        more(held, a)
        other *= 2
        return other[1], len(held), held[-2], len(apart)

    def array(a: Any) -> Any:
        held = [1.0, 2.0, 3.0]
        other = held
        held += a[1]
        return held, other[1]

    def in_branch(a: Any) -> Any:
        held = [1.0]
        other = held
        if a[0, 0] > 9:
            held += [5.0]
        return len(other)

    def number(a: Any) -> Any:
        held = [1.0]
        held += 5.0
        return held[0]

    agrees(grown, MATRIX)
    agrees(array, MATRIX)
    with pytest.raises(UnsupportedError, match="a write to a list in a loop or branch"):
        wf.kernel(in_branch)(MATRIX)
    with pytest.raises(UnsupportedError, match="a number for several values"):
        wf.kernel(number)(MATRIX)


def test_dtypes_and_functions_as_arguments() -> None:
    def applied(a: Any, function: Any = np.sin, dtype: Any = np.float32) -> Any:
        return function(a.astype(dtype)).sum()

    kernel = agrees(applied, MATRIX)
    for function, dtype in ((np.cos, np.float64), (np.abs, np.int32), (np.cos, float)):
        result = kernel(MATRIX, function, dtype)
        np.testing.assert_allclose(result, applied(MATRIX, function, dtype))
        assert result.dtype == applied(MATRIX, function, dtype).dtype


def test_numpys_functions_of_pythons_numbers() -> None:
    def functions(n: Any, x: Any) -> Any:
        rounded = np.round(n), np.around(n, 1), np.round(x.shape[0])
        sums = np.sum(n), np.cumsum(n), np.ravel(n), np.transpose(n)
        return *rounded, *sums, np.size(n), np.clip(n, 0, 3)

    for n in (6, 2.5, np.int32(6)):
        agrees(functions, n, MATRIX)
