"""Wrong programs: each is refused with its place, its source line, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import DTypeError, WeftError


def with_statement(a: Any) -> None:
    with open("x"):
        a[0] = 1


def dictionary(a: Any) -> None:
    a[0] = {int(a[0]): 2}[1]


def try_statement(a: Any) -> None:
    try:
        a[0] = 1
    finally:
        a[1] = 2


def printed(a: Any) -> None:
    print(a[0])


def changing_kind(a: Any) -> None:
    x: Any = 1
    for _ in range(len(a)):
        x = (1, 2)
    a[0] = x[0]


def to_a_global(a: Any) -> None:
    global CONSTANT
    CONSTANT = a


def counts(a: Any) -> None:
    for i in range(len(a)):
        a[i] = len(np.bincount(a.astype(np.int64)))


def unknown_attribute(a: Any) -> Any:
    return a.colour


def no_step(a: Any) -> None:
    for i in range(0, 3, 0):
        a[i] = 1


def unlike(a: Any) -> Any:
    return a + a[1:]


def unknown_name(a: Any) -> None:
    a[0] = missing  # type: ignore[name-defined]  # noqa: F821


def changing_type(a: Any) -> float:
    x = a[0]
    for i in range(int(a[1])):
        x = x * np.float32(0.5) + np.float64(i)
    return x


def two_types(a: Any) -> Any:
    x = np.float32(a[0])
    if a[0] > 1:
        x = np.float64(a[1])
    return x


def shapes(a: Any) -> None:
    a[1:3] = a[:5]


def too_many_indices(a: Any) -> None:
    a[0, 0] = 1


def out_of_bounds(a: Any) -> None:
    a[99] = 1


def appended(a: Any) -> Any:
    found: list[Any] = []
    for i in range(a.shape[0]):
        found.append(a[i:])
    return len(found)


def past_the_end(a: Any) -> None:
    for i in range(a.shape[0]):
        a[i + 1] = 0.0


def return_in_prange(a: Any) -> Any:
    for i in wf.prange(3):
        if a[i] > 0:
            return a[i]
    return a[0]


def truth_of_selected(a: Any) -> None:
    if a[a > 0.5]:
        a[0] = 1.0


def selected_written(a: Any) -> None:
    a[a > 0.5][1:] = 0.0


def held_range(a: Any) -> None:
    numbers = range(int(a[0]))
    for i in numbers:
        a[i] = 0.0


def break_in_prange(a: Any) -> None:
    for i in wf.prange(a.shape[0]):
        if a[i] > 0:
            break


def float_bound(a: Any) -> None:
    for i in range(a.shape[0] / 2):  # type: ignore[call-overload]
        a[i] = 1


def truth_of_array(a: Any) -> None:
    if a > 0:
        a[0] = 1


def no_function_of_weft(a: Any) -> None:
    a[...] = np.random.permutation(a)


def perhaps_unbound(a: Any) -> Any:
    if a[0] > 0:
        x = [a[1:], 1.0]
    return x


def in_place_of_another_dtype(a: Any) -> None:
    b = np.zeros(5, np.int32)
    b += a
    a[0] = b[0]


def closure_written(a: Any) -> None:
    CONSTANT[0] = a[0]


def over_a_text(a: Any) -> None:
    for letter in "abc":
        a[0] += ord(letter)


def over_a_number(a: Any) -> None:
    for x in a[0]:
        a[1] += x


def number_written(a: Any) -> None:
    b: Any = 3
    b[0] = a[0]


def number_unpacked(a: Any) -> Any:
    x, y = a[0]
    return x + y


def list_by_condition(a: Any) -> Any:
    return tuple(i for i in range(5) if a[i] > 2)


CONSTANT = np.zeros(3)

# function, what of its source is at the column, parts of the message
WRONG: list[tuple[Callable[..., Any], str, str]] = [
    (with_statement, "with", "with in a kernel"),
    (dictionary, "int(a[0])", "a key of a dictionary"),
    (try_statement, "try", "try in a kernel"),
    (printed, "print", "(?s)print.*try: return what is to be printed"),
    (over_a_text, '"abc"', "(?s)a loop over a str.*try: np.frombuffer"),
    (over_a_number, "a[0]", "a loop over a number"),
    (number_written, "b[0]", "a write to a number"),
    (number_unpacked, "x, y", "a number for several values"),
    (list_by_condition, "a[i] > 2", "a list of as many as a condition keeps"),
    (unknown_name, "missing", "name missing is not defined.*(.|\n)*try: assign missing before"),
    (changing_kind, "x = (1, 2)", r"what it is in a loop: a number at .*:39:5, a tuple of 2 at .*"),
    (to_a_global, "global CONSTANT", "(?s)global in a kernel.*try: return the new value"),
    (counts, "np.bincount", r"(?s)without minlength=.*try: np.bincount\(x, minlength=n\)"),
    (unknown_attribute, "a.colour", "(?s)the attribute colour.*try: compute colour outside"),
    (no_step, "for", "(?s)a range of step 0.*try: a step of 1"),
    (unlike, "a + a[1:]", r"(?s)shapes \(5,\) and \(4,\).*try: slices of one shape"),
    (changing_type, "x = x", "x changes its type in a loop: float32 at .*, float64 at"),
    (two_types, "if", "x has two types after this branch: float64 at .* and float32 at"),
    (shapes, "a[1:3]", "shape"),
    (too_many_indices, "a[0, 0]", "(?s)2 indices into an array of 1 dimensions.*try: as many"),
    (out_of_bounds, "a[99]", "index 99 is out of bounds"),
    (past_the_end, "a[i + 1]", "indices from 1 to 5 leave axis 0"),
    (return_in_prange, "for", "break in a prange"),
    (truth_of_selected, "a[a > 0.5]", "the truth of elements that a mask selects"),
    (selected_written, "a[a > 0.5][1:]", "a write to elements .* which no variable holds"),
    (held_range, "range(int(a[0]))", "(?s)no loop goes over at once.*try: np.arange"),
    (break_in_prange, "for", "break in a prange"),
    (float_bound, "range", "bound is no integer"),
    (truth_of_array, "a > 0", "the truth of an array"),
    (no_function_of_weft, "np.random", "permutation.*cannot be compiled"),
    (perhaps_unbound, "x", "x may have no value here"),
    (in_place_of_another_dtype, "b += a", "operation in place that gives float"),
    (appended, "found.append", r"whose shape is not known(.|\n)*try: an array"),
    (closure_written, "CONSTANT[0]", "cannot be written: it is an array from outside"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "source", "message"), WRONG, ids=lambda x: getattr(x, "__name__", "")
)
def test_message(function: Callable[..., Any], source: str, message: str) -> None:
    with pytest.raises(WeftError) as caught:
        wf.kernel(function)(np.ones(5, np.float32))
    text = str(caught.value)
    assert re.search(message, text)
    place = caught.value.place
    assert place is not None
    assert place.file == __file__
    line = Path(__file__).read_text().splitlines()[place.line - 1]
    assert place.column == 0 or line[place.column - 1 :].startswith(source)
    assert source in line
    assert f"{place}: {line.strip()}" in text
    assert "expected: " in text or "try: " in text


def annotated(a: wf.f64[:, :], n: wf.i64) -> None:  # type: ignore[valid-type]
    a[0, 0] = n


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones(3), 1), r"argument a is f64\[:\].*\n.*expected: f64\[:, :\]"),
        ((np.ones((3, 3), np.float32), 1), r"argument a is f32\[:, :\]"),
        ((np.ones((3, 3)), np.ones(2)), r"argument n is f64\[:\]"),
        ((np.ones((3, 3)), 1.5), r"argument n is 1.5"),
        ((np.ones((3, 3)), 2**63), r"argument n is 9223372036854775808"),
        ((np.ones((3, 3)), 2**40000), "argument n is an integer of 40001 bits"),
        ((np.ones((3, 3)), None), "argument n is None"),
        ((np.ones((3, 3)), float("nan")), "argument n is nan"),
        ((np.ones((3, 3)), float("inf")), "argument n is inf"),
        ((np.ones((3, 3)), [1]), "argument n is a list"),
        ((1, 1), "argument a is a int"),
        ((np.ones((3, 3)),), "missing a required argument: 'n'"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("error")
def test_arguments(arguments: Any, message: str) -> None:
    with pytest.raises(WeftError, match=message):
        wf.kernel(annotated)(*arguments)


def squared(v: wf.f64) -> Any:  # type: ignore[valid-type]
    return v * v + 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "value",
    [
        None, "3", "a", b"2", 3j, np.complex128(2),
        pytest.param(2**2000, id="large"), np.datetime64("2020"), {},
    ],
)
def test_what_is_no_real_number(value: Any) -> None:
    with pytest.raises(DTypeError, match=r"argument v is .*\n.*expected: f64\n.*def squared"):
        wf.kernel(squared)(value)


@pytest.mark.parametrize(
    "value", [2, True, 2.5, 2**70, np.float32(2), np.array(2), np.longdouble(2), Fraction(1, 2)]
)
def test_real_numbers(value: Any) -> None:
    assert wf.kernel(squared)(value) == float(value) ** 2 + 1


def test_signatures() -> None:
    def scaled(a: Any, by: Any) -> None:
        a *= by

    kernel = wf.kernel("f32[:], f32 -> None")(scaled)
    a = np.ones(3, np.float32)
    kernel(a, 2.0)
    assert a.tolist() == [2, 2, 2]
    with pytest.raises(WeftError, match="a signature of 1 types for 2 parameters"):
        wf.kernel("f32[:]")(scaled)(a, 2.0)
    with pytest.raises(WeftError, match="the signature"):
        wf.kernel("f32[:], float9 -> None")(scaled)(a, 2.0)


def test_read_only_arguments() -> None:
    def one(a: Any) -> None:
        a[0] = 1

    a = np.zeros(3)
    a.flags.writeable = False
    with pytest.raises(WeftError, match="read-only"):
        wf.kernel(one)(a)


def through_places(values: Any, places: Any) -> float:
    total = 0.0
    for i in range(places.shape[0]):
        total += values[places[i]]
    return total


def behind_the_last(values: Any, count: int) -> float:
    total = 0.0
    for i in range(count):
        total += values[i]
    return total


@pytest.mark.parametrize("interpret_below", [0, 1 << 20])
def test_arrays_are_called_as_the_user_calls_them(interpret_below: int) -> None:
    values = np.ones(3)
    with wf.config(interpret_below=interpret_below):
        for function, other in ((through_places, np.array([0, 7])), (behind_the_last, 5)):
            for call in (
                lambda f, x: wf.kernel(f)(values, x),
                lambda f, x: wf.kernel(f)(values, **{f.__code__.co_varnames[1]: x}),
            ):
                with pytest.raises(wf.errors.OutOfBoundsError, match=r"axis 0 of values\b"):
                    call(function, other)
