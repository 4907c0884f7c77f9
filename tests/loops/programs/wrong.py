"""Programs that are wrong, each in its own way; `# here: x` marks where: at x, in that line."""

from __future__ import annotations

import numpy as np

import weft as wf
from weft import prange

TABLE = np.arange(3.0)


def empty_set(x):
    seen = set()
    seen.add(x[0])  # here: seen.add(x[0])
    return len(seen)


def dictionary(a):
    counts = {}
    for i in range(len(a)):
        counts["all"] = i  # here: counts["all"]


def exception(a):
    try:  # here: try
        a[0] = 1
    except IndexError:
        a[1] = 1


def context(a):
    with np.errstate(all="raise"):  # here: with
        a[0] = 1


def inner_class(a):
    class Square:  # here: class
        side = a[1]

    a[0] = Square.side


def formatted(a):
    print(f"{a[0]}")  # here: f"{


def unknown_function(a):
    return np.trim_zeros(a)  # here: np.trim_zeros


def unknown_method(a):
    return a.tobytes()  # here: a.tobytes


def attribute_read(a):
    return a.strides  # here: a.strides


def strides(a):
    for i in range(a.size):
        a[i] = 2 * a.strides[0]  # here: a.strides


def attribute(a):
    a.shape = (3, 2)  # here: a.shape


def undefined(a):
    for i in range(a.shape[0]):
        a[i] = factor * a[i]  # noqa: F821  # here: factor


def unassigned(a):
    if a[0] > 0:
        sign = [a * 2, 1.0]
    a[0] = sign[1]  # here: sign


def recursive(a):
    recursive(a)


def type_in_loop(a):
    x = a[0]
    for i in range(int(a[1])):
        x = x / (i + 1)  # here: x = x
    return x


def type_in_branch(a):
    if a[0] > 0:  # noqa: SIM108  # here: if
        x = np.int32(1)
    else:
        x = np.float64(2)
    return x


def kind_in_loop(a):
    x = 0.0
    for i in range(a.shape[0]):
        x = a[i:]  # here: x = a
    return x


def shape_in_loop(a):
    x = a
    while x[0] < 9:
        x = x[1:]  # here: x = x
    return x


def shape_of_assignment(a, b):
    a[1:] = b  # here: a[1:]


def shape_of_operands(a, b):
    return a + b  # here: a + b


def integers_in_place(a):
    a += 0.5  # here: a += 0.5


def too_many_indices(a):
    for i in range(a.shape[0]):
        a[i, 0] = 1  # here: a[i, 0]


def past_the_end(a):
    for i in range(a.shape[0]):
        a[i] = a[i + 1]  # here: a[i + 1]


def beyond_data(a, place):
    for i in range(place.shape[0]):
        a[place[i]] = 1  # here: a[place[i]]


def written_past_the_end(a):
    for i in range(a.shape[0]):
        a[i + 1] = 0  # here: a[i + 1]


def every_round_writes(a):
    for i in prange(a.shape[0]):  # here: for
        a[0] = i


def neighbours(a):
    for i in prange(1, a.shape[0]):  # here: for
        a[i] = a[i - 1] + 1


def broken_off(a):
    for i in prange(a.shape[0]):  # here: for
        if a[i] > 0:
            break
        a[i] = 1


def fractional_range(a):
    for i in range(a.shape[0] / 2):  # here: range(
        a[i] = 1


def computed_step(a):
    for i in range(-1, a.shape[0]):
        a[::i] = 0.0  # here: a[::i]


def array_as_int(a):
    return int(a)  # here: int(a)


def array_as_condition(a):
    if a > 0:  # here: a > 0
        a[0] = 1


def wrong_count(a):
    x, y, z = a.shape  # here: x, y, z
    return x + y + z


def constant_written(a):
    TABLE[0] = a[0]  # here: TABLE[0]


def index_of_number(a):
    x = a[0]
    return x[0]  # here: x[0]


def length_of_number(a):
    return len(a[0])  # here: len(


def factored_in_loop(a):
    for i in range(len(a)):
        a[i] = np.linalg.svd(a[i] * np.eye(2))[1][0]  # here: np.linalg.svd


def unbounded_length(a):
    while a[0] < 9:
        rows = np.zeros(max(int(a[0]), 0))
        for i in range(len(rows)):  # here: for
            rows[i] = i
        a[0] += rows.sum()


def negative_length(a):
    for i in range(len(a)):
        rows = np.zeros(int(a[i]))  # here: np.zeros
        a[i] = rows.sum()


def greatest_of_arrays(a):
    return max(a, 1)  # here: max(


def typed(
    a: wf.f64[:, :],  # here: a: wf
):
    a[0, 0] = 1


def single(
    a: wf.f32[:],  # here: a: wf
):
    a[0] = 1


def counted(
    a,
    n: wf.i64,  # here: n: wf
):
    a[0] = n


def of_objects(
    a,  # here: a,
):
    a[0] = 1


def of_texts(
    a,
    b=0,  # here: b=
):
    a[0] = b[0]


def of_dates(
    a,
    b=0,  # here: b=
):
    a[0] = b[0]


def of_records(
    a,
    b=0,  # here: b=
):
    a[0] = b[0]


def typed_objects(
    a: wf.f64[:],  # here: a: wf
):
    a[0] = 1


def of_a_set(
    a,
    b=0,  # here: b=
):
    a[0] = len(b)


def number_for_array(a) -> wf.f64[:]:
    return a.sum()  # here: a.sum


def array_for_number(a) -> wf.f64:
    return 2 * a  # here: 2 *


def single_result(a) -> wf.f32[:]:
    return 2 * a  # here: 2 *


def whole_result(a) -> wf.f64:
    count = 0
    for i in range(a.shape[0]):
        if a[i] > 1:
            return i  # here: i
        count += 1
    return count


def unexpected_result(a) -> None:
    a[0] = 1
    return a  # here: a


def missing_result(a) -> wf.f64:
    a[0] = 1  # here: a[0]


def part_of_result(a) -> tuple[wf.f64[:], wf.f64]:
    return a, a.shape[0]  # here: a.shape


def short_result(a) -> tuple[wf.f64, wf.f64]:
    return (a.sum(),)  # here: (a.sum


def perhaps_no_result(a) -> wf.f64:
    found = None
    for i in range(a.shape[0]):
        if a[i] > 0:
            found = a[i]
    return found  # here: found
