"""Wrong programs: each is refused with its place, its source line, and what to write instead."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from loops.programs import wrong

import weft as wf
from weft import errors

FLOATS, INTEGERS = np.arange(6) / 2 - 1, np.arange(6)


@dataclass(frozen=True)
class Wrong:
    """A program, its error's class, what the error says was found, and what it advises."""

    function: Callable[..., Any]
    error: type[errors.WeftError]
    found: str
    advice: str
    arguments: tuple[Any, ...] = (FLOATS,)


PROGRAMS = [
    Wrong(wrong.dictionary, errors.UnsupportedError, "a write to a dict", "a variable of its own"),
    Wrong(wrong.empty_set, errors.UnsupportedError, "a call of 'add'", "compute it outside"),
    Wrong(wrong.exception, errors.UnsupportedError, "try in a kernel", "outside of the kernel"),
    Wrong(wrong.context, errors.UnsupportedError, "with in a kernel", "outside of the kernel"),
    Wrong(wrong.inner_class, errors.UnsupportedError, "class in a kernel", "outside"),
    Wrong(wrong.formatted, errors.UnsupportedError, "a formatted string", "outside"),
    Wrong(wrong.unknown_function, errors.UnsupportedError, "numpy.trim_zeros", "dir(weft)"),
    Wrong(wrong.unknown_method, errors.UnsupportedError, "tobytes", "weft.Array has"),
    Wrong(wrong.attribute_read, errors.UnsupportedError, "the attribute strides", "shape, dtype"),
    Wrong(wrong.strides, errors.UnsupportedError, "the attribute strides of an", "or a method"),
    Wrong(wrong.computed_step, errors.UnsupportedError, "step is computed", "a loop: for k in"),
    Wrong(wrong.attribute, errors.UnsupportedError, "an attribute", "elements of an array"),
    Wrong(wrong.undefined, errors.TracingError, "factor is not defined", "name of the module"),
    Wrong(wrong.unassigned, errors.TracingError, "sign may have no value", "before the branch"),
    Wrong(wrong.recursive, errors.UnsupportedError, "calls itself", "a loop"),
    Wrong(
        wrong.type_in_loop, errors.DTypeError, "int64 at {file}:{line-2}:5, float64 at {place}",
        "np.float64", (INTEGERS,),
    ),
    Wrong(
        wrong.type_in_branch, errors.DTypeError,
        "int32 at {file}:{line+1}:9 and float64 at {file}:{line+3}:9", "convert one",
    ),
    Wrong(
        wrong.kind_in_loop, errors.DTypeError,
        "a number at {file}:{line-2}:5, an array at {place}", "another variable",
    ),
    Wrong(wrong.shape_in_loop, errors.ShapeError, "(6,) before", "one shape"),
    Wrong(
        wrong.shape_of_assignment, errors.ShapeError, "shape (4,) where (5,)", "broadcasts to",
        (FLOATS, np.ones(4)),
    ),
    Wrong(
        wrong.shape_of_operands, errors.ShapeError, "shapes (6,) and (4,)", "broadcast",
        (FLOATS, np.ones(4)),
    ),
    Wrong(
        wrong.integers_in_place, errors.DTypeError, "gives float64 on an array of int64",
        "x = x + y", (INTEGERS,),
    ),
    Wrong(wrong.too_many_indices, errors.OutOfBoundsError, "2 indices", "1 or fewer"),
    Wrong(wrong.past_the_end, errors.OutOfBoundsError, "indices from 1 to 6", "guard the access"),
    Wrong(wrong.written_past_the_end, errors.OutOfBoundsError, "from 1 to 6", "guard the access"),
    Wrong(
        wrong.beyond_data, errors.OutOfBoundsError, "index 6 is outside axis 0",
        "-6 <= index < 6", (FLOATS, np.array([1, 6])),
    ),
    Wrong(
        wrong.every_round_writes, errors.RaceError,
        "rounds i = 0 and i = 1 of a prange access one element, [0]: written at "
        "{file}:{line+1}:9", "range instead of prange",
    ),
    Wrong(
        wrong.neighbours, errors.RaceError,
        "element, [1]: written at {file}:{line+1}:9: a[i] = a[i - 1] + 1, read at "
        "{file}:{line+1}:16", "x += ...",
    ),
    Wrong(wrong.broken_off, errors.UnsupportedError, "break in a prange", "range"),
    Wrong(wrong.fractional_range, errors.ArgumentTypeError, "no integer", "x // y"),
    Wrong(wrong.array_as_int, errors.UnsupportedError, "one number is asked for", "arguments"),
    Wrong(wrong.array_as_condition, errors.UnsupportedError, "truth of an array", "np.any(x)"),
    Wrong(wrong.wrong_count, errors.UnsupportedError, "1 values for 3 names", "as many"),
    Wrong(wrong.constant_written, errors.UnsupportedError, "a constant", "an argument"),
    Wrong(wrong.index_of_number, errors.UnsupportedError, "an index into a number", "an array"),
    Wrong(wrong.length_of_number, errors.UnsupportedError, "which has no length", "arguments"),
    Wrong(wrong.factored_in_loop, errors.UnsupportedError, "inside a loop", "before or"),
    Wrong(wrong.unbounded_length, errors.ShapeError, "only the run knows", "wf.minimum(length"),
    Wrong(wrong.negative_length, errors.ArgumentError, "less than 0 in some round", "n: wf.i64"),
    Wrong(wrong.greatest_of_arrays, errors.UnsupportedError, "less or greater", "arguments"),
    Wrong(wrong.typed, errors.ShapeError, "a is f64[:]", "f64[:, :]"),
    Wrong(wrong.single, errors.DTypeError, "a is f64[:]", "a.astype('float32')"),
    Wrong(wrong.counted, errors.DTypeError, "n is 2.5", "i64", (FLOATS, 2.5)),
    Wrong(
        wrong.of_objects, errors.DTypeError, "a is an array of dtype object",
        "a.astype('float64')", (np.array([1, None], object),),
    ),
    Wrong(
        wrong.of_texts, errors.DTypeError, "b is an array of dtype <U1", "b.astype('float64')",
        (FLOATS, np.array(["1", "2"])),
    ),
    Wrong(
        wrong.of_dates, errors.DTypeError, "b is an array of dtype datetime64[D]",
        "b.astype('int64')", (FLOATS, np.array(["2020-01-01"], "M8[D]")),
    ),
    Wrong(
        wrong.of_records, errors.DTypeError, "b is an array of dtype [('x', '<f8')]",
        "one of its fields: b['x']", (FLOATS, np.zeros(3, [("x", float)])),
    ),
    Wrong(
        wrong.typed_objects, errors.DTypeError, "a is an array of dtype object",
        "a.astype('float64')", (np.array([1, None], object),),
    ),
    Wrong(wrong.of_a_set, errors.ArgumentTypeError, "b is {1}, a set", "an array", (FLOATS, {1})),
    Wrong(wrong.number_for_array, errors.DTypeError, "returns f64", "-> f64 in the"),
    Wrong(wrong.array_for_number, errors.DTypeError, "returns f64[:]", "-> f64[:] in the"),
    Wrong(
        wrong.single_result, errors.DTypeError, "returns f64[:]\n  expected: f32[:], by",
        "(2 * a).astype('float32'), or -> f64[:]",
    ),
    Wrong(
        wrong.whole_result, errors.DTypeError, "returns i64\n  expected: f64, by",
        "float(i), or -> i64",
    ),
    Wrong(
        wrong.unexpected_result, errors.DTypeError, "returns f64[:]\n  expected: None",
        "return, without a value, or -> f64[:]",
    ),
    Wrong(
        wrong.missing_result, errors.DTypeError, "returns None", "return what is f64, or -> None",
    ),
    Wrong(
        wrong.part_of_result, errors.DTypeError, "returns i64 at [1]\n  expected: f64, by",
        "float(a.shape[0]), or -> (f64[:], i64)",
    ),
    Wrong(
        wrong.short_result, errors.DTypeError, "returns (f64,)\n  expected: (f64, f64)",
        "-> (f64,)",
    ),
    Wrong(wrong.perhaps_no_result, errors.DTypeError, "returns f64 or None", "no -> at all"),
]  # fmt: skip


def marked(function: Callable[..., Any]) -> tuple[str, int, int, str]:
    """File, line, column and text of what `# here:` marks; of the `def`, if nothing is."""
    lines, first = inspect.getsourcelines(function)
    for number, line in enumerate(lines):
        code, mark, what = line.rstrip("\n").partition("  # here: ")
        if mark:
            return inspect.getfile(function), first + number, code.index(what) + 1, line.strip()
    return inspect.getfile(function), first, 1, lines[0].strip()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.function.__name__)
def test_wrong_program(program: Wrong) -> None:
    file, line, column, text = marked(program.function)
    with pytest.raises(program.error) as caught:
        wf.kernel(program.function)(
            *(np.copy(a) if isinstance(a, np.ndarray) else a for a in program.arguments)
        )
    message = str(caught.value)
    place = f"{file}:{line}:{column}"
    assert f"at {place}: {text}" in message
    found = program.found.replace("{place}", place).replace("{file}", file)
    for away in (-2, 1, 3):
        found = found.replace(f"{{line{away:+}}}", str(line + away))
    assert found in message
    assert program.advice in message


def test_calls_that_are_wrong() -> None:
    @wf.kernel
    def shifted(a: Any, b: Any) -> None:
        a[1:] = b[:-1]

    a = np.zeros(5)
    with pytest.raises(errors.ArgumentError, match="missing a required argument: 'b'"):
        shifted(a)
    with pytest.raises(errors.ArgumentError, match=r"x\.numpy\(\)"):
        shifted(a, wf.asarray(a))
    a.flags.writeable = False
    with pytest.raises(errors.ArgumentError, match=r"np\.array\(x\)"):
        shifted(a, np.ones(5))


@pytest.mark.parametrize("number", [5, 2.5, 1j])
def test_numbers_have_no_elements(number: complex) -> None:
    def first(a: Any) -> Any:
        return a[0]

    with pytest.raises(errors.UnsupportedError, match="an index into a number"):
        wf.kernel(first)(number)


def test_arguments_that_share_a_part_run_in_plain_python() -> None:
    def moved(a: Any, b: Any) -> None:
        a[1:] = b[:-1]
        a[0] = b[2]

    x, y = np.arange(6.0), np.arange(6.0)
    moved(y[1:], y[:-1])
    with pytest.warns(UserWarning, match=r"overlap in part.*\n?.*pass a copy of one"):
        wf.kernel(moved)(x[1:], x[:-1])
    assert x.tolist() == y.tolist()
    wf.kernel(moved)(x[::2], x[1::2])  # every other element: they share nothing
    moved(y[::2], y[1::2])
    assert x.tolist() == y.tolist()


def test_signatures_that_are_wrong() -> None:
    def one(a: Any) -> None:
        a[0] = 1

    with pytest.raises(errors.ArgumentError, match="types such as"):
        wf.kernel("f64[:, ::], i6 -> None")(one)(np.ones(3))
    with pytest.raises(errors.ArgumentError, match="-> float', at 'float'"):
        wf.kernel("f64[:] -> float")(one)(np.ones(3))
    with pytest.raises(errors.ArgumentError, match="at ''"):
        wf.kernel("f64[:] ->")(one)(np.ones(3))
    with pytest.raises(errors.DTypeError, match="returns None\n  expected: f64"):
        wf.kernel("f64[:] -> f64")(one)(np.ones(3))
    with pytest.raises(errors.ArgumentError, match="2 types for 1 parameters"):
        wf.kernel("f64[:], i64")(one)(np.ones(3))
    with pytest.raises(errors.UnsupportedError, match="no Python function"):
        wf.kernel(np.sin)
    with pytest.raises(errors.UnsupportedError, match="made by `def`"):
        wf.kernel(lambda a: a)


def test_what_is_outside_is_never_written() -> None:
    """Data-dependent places are checked before anything is written there."""

    def rows(a: Any, place: Any, x: Any) -> None:
        for i in range(place.shape[0]):
            a[place[i]] = 2 * x

    kernel = wf.kernel(rows)
    around = np.zeros((6, 4))
    inner = around[2:4]
    kernel(inner, np.array([0, -1]), np.ones(4))
    assert around.sum() == 16
    for outside in (2, -3, 10**9):
        with pytest.raises(errors.OutOfBoundsError, match=r"a\[place\[i\]\] = 2"):
            kernel(inner, np.array([0, outside]), np.ones(4))
    assert around.sum() == 16


def test_rows_that_are_read_are_inside() -> None:
    def totals(a: Any, place: Any, sums: Any) -> None:
        for i in range(place.shape[0]):
            sums[i] = a[place[i]].sum()

    with pytest.raises(errors.OutOfBoundsError, match=r"a\[place\[i\]\]"):
        wf.kernel(totals)(np.ones((3, 4)), np.array([1, 3]), np.zeros(2))


class Pair(NamedTuple):
    total: float
    count: int


def whole(a: Any) -> Any:
    return a


def total(a: Any) -> Any:
    return a.sum()


def length(a: Any) -> Any:
    return a.shape[0]


def some(a: Any) -> Any:
    return a[a > 0]


def both(a: Any) -> Any:
    return a.sum(), a > 0


def one_alone(a: Any) -> Any:
    return (a.shape[0],)


def named(a: Any) -> Any:
    return Pair(a.sum(), a.shape[0])


def nothing(a: Any) -> Any:
    a[0] = 1


def from_a_loop(a: Any) -> Any:
    for i in range(a.shape[0]):
        if a[i] > 0:
            return i
    return -1


def constant(a: Any) -> Any:
    return 1.0


@pytest.mark.parametrize(
    ("function", "signature"),
    [(whole, "f64[:]"), (total, "f64"), (total, "(f64)"), (length, "i64"), (some, "f64[:]"),
     (both, "f64, bool[:]"), (both, "(f64, bool[:])"), (one_alone, "(i64,)"),
     (named, "f64, i64"), (nothing, "None"), (from_a_loop, "i64"), (constant, "f64")],
)  # fmt: skip
def test_results_of_the_type_that_is_said(function: Callable[..., Any], signature: str) -> None:
    expected = function(FLOATS.copy())
    found = wf.kernel(f"f64[:] -> {signature}")(function)(FLOATS.copy())
    if not isinstance(expected, tuple):
        found, expected = (found,), (expected,)
    assert type(found) is type(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@wf.kernel
def halved(x: wf.f64) -> wf.f64:
    return x / 2


@wf.kernel
def doubled(x: wf.f64[:]) -> wf.f64:
    return 2 * x  # type: ignore[return-value]


def test_results_of_kernels_in_kernels() -> None:
    def each(a: Any) -> None:
        for i in range(a.shape[0]):
            a[i] = halved(a[i])

    a = FLOATS.copy()
    wf.kernel(each)(a)
    np.testing.assert_array_equal(a, FLOATS / 2)
    with pytest.raises(errors.DTypeError, match=r"doubled returns f64\[:\]\n.*\n.*return 2 \* x"):
        wf.kernel(whole_doubled)(a)


def whole_doubled(a: Any) -> Any:
    return doubled(a)


def test_results_of_other_annotations_are_not_compared() -> None:
    def total(a: Any) -> float:
        return a.shape[0]  # type: ignore[no-any-return]

    assert wf.kernel(total)(FLOATS) == 6
    assert wf.kernel("f64[:]")(total)(FLOATS) == 6
