"""Every `prange` is free of races, or runs in order with a warning, or is refused."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import RaceError, RaceWarning


def shifted(a: Any) -> None:
    for i in wf.prange(1, a.shape[0]):
        a[i] = a[i - 1] + 1


def by_index(a: Any, index: Any) -> None:
    for i in wf.prange(index.shape[0]):
        a[index[i]] = i


def one_element(a: Any) -> None:
    for i in wf.prange(a.shape[0]):
        a[0] = i


def one_element_sometimes(a: Any, c: Any) -> None:
    for i in wf.prange(c.shape[0]):
        if c[i] > 0:
            a[0] = c[i]


def rows(a: Any, width: int) -> None:
    for i in wf.prange(a.shape[0] // width):
        for j in wf.prange(width):
            a[i * width + j] = i - j


def overlapping_rows(a: Any, n: int, width: int, apart: int) -> None:
    for i in wf.prange(n):
        for j in range(width):
            a[i * apart + j] = i + j


def test_two_rounds_that_meet_are_named() -> None:
    with pytest.raises(RaceError) as caught:
        wf.kernel(shifted)(np.ones(5))
    message = str(caught.value)
    assert "rounds i = 1 and i = 2" in message
    assert "element, [1]" in message
    assert "test_races.py:18:9: a[i] = a[i - 1] + 1" in message
    assert caught.value.place is not None
    assert (caught.value.place.line, caught.value.place.column) == (17, 5)


def test_one_element_that_all_rounds_write() -> None:
    with pytest.raises(RaceError, match="rounds i = 0 and i = 1"):
        wf.kernel(one_element)(np.ones(5))


def test_what_data_decide_runs_in_order_with_one_warning() -> None:
    kernel = wf.kernel(by_index)
    a = np.zeros(4)
    with pytest.warns(RaceWarning, match=r"a\[index\[i\]\] = i") as caught:
        kernel(a, np.array([3, 1, 3, 0]))
    assert len(caught) == 1
    assert a.tolist() == [3, 1, 0, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel(a, np.array([2, 2, 2, 2]))
    assert a.tolist() == [3, 1, 3, 2]


def test_what_a_condition_decides_runs_in_order() -> None:
    a = np.zeros(1)
    with pytest.warns(RaceWarning, match=r"a\[0\] = c\[i\]"):
        wf.kernel(one_element_sometimes)(a, np.array([2.0, 5.0, -1.0]))
    assert a[0] == 5


def test_independent_rounds_give_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        a = np.zeros(12)
        wf.kernel(rows)(a, 3)
    assert a.tolist() == [i - j for i in range(4) for j in range(3)]


def in_pieces(y: Any, x: Any) -> None:
    for i in wf.prange(1, len(x)):
        for j in range(i):
            y[i, j] = x[j, i]
        y[i, i] = -1
        for j in range(i + 1, len(x)):
            y[i, j] += x[i, j]


def of_lengths(y: Any, x: Any, lengths: Any) -> None:
    for i in wf.prange(len(x)):
        for j in range(lengths[i]):
            y[0, i, j] = x[i, j] * 2
        y[1, i] = 5


def in_columns(y: Any, x: Any) -> None:
    for i in wf.prange(len(x)):
        y[:i, i] = x[i, :i]
        y[i:, i] = 0


LENGTHS = np.array([3, 0, 6, 1, 2, 5])


@pytest.mark.parametrize(
    ("function", "shape", "more"),
    [
        (in_pieces, (6, 6), ()), (in_pieces, (8, 9), ()), (of_lengths, (2, 6, 7), (LENGTHS,)),
        (in_columns, (6, 9), ()),
    ],
)  # fmt: skip
def test_rounds_that_keep_to_a_row_of_their_own(
    function: Any, shape: tuple[int, ...], more: tuple[Any, ...]
) -> None:
    random = np.random.default_rng(4)
    ours, x = random.random(shape), random.random((6, 6))
    plain = ours.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wf.kernel(function)(ours, x, *more)
    function(plain, x, *more)
    np.testing.assert_array_equal(ours, plain)


def one_row_of_lengths(y: Any, x: Any, lengths: Any) -> None:
    for i in wf.prange(2):
        for j in range(lengths[i]):
            y[0, j] = x[i, j]


def test_rounds_that_share_a_row_run_in_order() -> None:
    ours, plain, x = np.zeros((2, 6)), np.zeros((2, 6)), np.arange(36.0).reshape(6, 6)
    with pytest.warns(RaceWarning):
        wf.kernel(one_row_of_lengths)(ours, x, LENGTHS)
    one_row_of_lengths(plain, x, LENGTHS)
    np.testing.assert_array_equal(ours, plain)


def test_sizes_of_the_call_decide() -> None:
    kernel = wf.kernel(overlapping_rows)
    for n, width, apart in ((4, 3, 3), (4, 2, 5), (1, 9, 1)):
        a, expected = np.zeros(20), np.zeros(20)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            kernel(a, n, width, apart)
        overlapping_rows(expected, n, width, apart)
        np.testing.assert_array_equal(a, expected)
    with pytest.raises(RaceError):
        kernel(np.zeros(20), 4, 3, 2)


def all_but_one(a: Any, n: int) -> None:
    for i in wf.prange(n):
        a[1:] = i


def test_many_elements_that_all_rounds_write() -> None:
    with pytest.raises(RaceError, match=r"element, \[1\]"):
        wf.kernel(all_but_one)(np.ones(500_000), 2)


def the_whole(a: Any, x: Any) -> None:
    for i in wf.prange(x.shape[0]):
        a[:] = x[i]


def test_an_array_that_all_rounds_write() -> None:
    with pytest.raises(RaceError, match=r"rounds i = 0 and i = 1 .* element, \[0\].*a\[:\] = x"):
        wf.kernel(the_whole)(np.ones(3), np.ones(2))
    a = np.ones(3)
    wf.kernel(the_whole)(a, np.full(1, 5.0))
    assert a.tolist() == [5, 5, 5]


def one_after_another(o: Any, n: int) -> None:
    for i in wf.prange(n):
        for j in wf.prange(n):
            o[i * n + j - (i + j)] = j


def apart_but_for_one(o: Any, n: int, part: int) -> None:
    for i in range(n):
        for j in wf.prange(n):
            o[(i + part - 2) * j + i * n * n] = j


def apart_but_for_one_left_out(o: Any, x: Any, n: int) -> None:
    for i in range(n):
        if x[i] > 0:
            for j in wf.prange(n):
                o[i * j + i * n] = j


def test_the_rounds_around_decide_with_the_sizes_of_the_call() -> None:
    with pytest.raises(RaceError, match=r"rounds j = 0 and j = 1 .* element, \[0\]"):
        wf.kernel(one_after_another)(np.zeros(40), 6)
    with pytest.raises(RaceError, match=r"rounds j = 0 and j = 1 .* element, \[0\]"):
        wf.kernel(apart_but_for_one)(np.zeros(220), 6, 2)
    ours, plain = np.zeros(220), np.zeros(220)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wf.kernel(apart_but_for_one)(ours, 6, 3)
    apart_but_for_one(plain, 6, 3)
    assert ours.tolist() == plain.tolist()


def test_a_race_in_a_branch_is_not_certain() -> None:
    ours, plain, x = np.zeros(60), np.zeros(60), np.arange(6.0)
    with pytest.warns(RaceWarning, match=r"o\[i \* j \+ i \* n\] = j"):
        wf.kernel(apart_but_for_one_left_out)(ours, x, 6)
    apart_but_for_one_left_out(plain, x, 6)
    assert ours.tolist() == plain.tolist()


def computed_sometimes(o: Any, x: Any) -> None:
    for i in wf.prange(x.shape[0]):
        if x[i] > 1:
            o[i % 5] = x[i]


def faded(o: Any, x: Any) -> None:
    s = 1.0
    for i in wf.prange(x.shape[0]):
        t = s * 0.5
        s = t + x[i]
    o[0] = s


def noticed(o: Any, x: Any) -> None:
    found = False
    for i in wf.prange(x.shape[0]):
        if x[i] > 2:
            found = True
    o[0] = found


def last_in_a_loop(o: Any, x: Any) -> None:
    for i in wf.prange(x.shape[0]):
        for j in range(3):
            if x[i] > j:
                o[j] = o[i % 2] + 1


@pytest.mark.parametrize(
    ("function", "accesses"),
    [
        (computed_sometimes, ("written .* o[i % 5] = x[i]", "written .* o[i % 5] = x[i]")),
        (faded, ("written .* s = t + x[i]", "read .* t = s * 0.5")),
        (noticed, ("written .* if x[i] > 2:", "written .* if x[i] > 2:")),
        (last_in_a_loop, ("written .* o[j] = o[i % 2] + 1", "written .* o[j] = o[i % 2] + 1")),
    ],
)
def test_the_two_accesses_are_named(function: Any, accesses: tuple[str, str]) -> None:
    ours, plain, x = np.zeros(5), np.zeros(5), np.arange(7.0)
    with pytest.warns(RaceWarning) as caught:
        wf.kernel(function)(ours, x)
    function(plain, x)
    np.testing.assert_array_equal(ours, plain)
    _, *lines, _ = str(caught[0].message).splitlines()
    for line, access in zip(lines, accesses, strict=True):
        verb, source = access.split(" .* ")
        assert line.strip().startswith(f"{verb} at "), line
        assert line.endswith(source), line


@pytest.mark.parametrize("before", [True, False])
def test_a_sum_that_rounds_give_by_another_name_has_an_order(before: bool) -> None:
    def sums(x: Any, y: Any, before: bool) -> Any:
        total = 1.0
        for i in wf.prange(x.shape[0]):
            last = 0.0
            for j in range(x.shape[1]):
                if before:
                    last = total
                total += x[i, j]
                if not before:
                    last = total
            y[i] = last
        return total

    x, found, wanted = np.arange(12.0).reshape(3, 4), np.zeros(3), np.zeros(3)
    with pytest.warns(RaceWarning, match="total is needed by the next round"):
        total = wf.kernel(sums)(x, found, before)
    assert total == sums(x, wanted, before)
    assert found.tolist() == wanted.tolist()


def recurrence(x: Any, out: Any) -> None:
    for c in wf.prange(x.shape[1]):
        out[0, c] = x[0, c]
        for t in range(1, x.shape[0]):
            out[t, c] = 0.9 * out[t - 1, c] + 0.1 * x[t, c]


def thomas(a: Any, b: Any, c: Any, d: Any, x: Any) -> None:
    """Of systems side by side, each in a row: forward, and back from the last."""
    n = d.shape[1]
    for i in wf.prange(d.shape[0]):
        for k in range(1, n):
            d[i, k] -= a[k] / b[k - 1] * d[i, k - 1]
        x[i, n - 1] = d[i, n - 1] / b[n - 1]
        for k in range(n - 2, -1, -1):
            x[i, k] = (d[i, k] - c[k] * x[i, k + 1]) / b[k]


@pytest.mark.parametrize("name", ["recurrence", "thomas"])
def test_rounds_that_go_on_from_what_they_have_written(name: str) -> None:
    """In a column or row of their own, whose first or last element they set before."""
    rng = np.random.default_rng(9)
    a = rng.random(8) + 1
    d = rng.random((5, 8))
    given = (a, a + 2, a, d, np.zeros((5, 8))) if name == "thomas" else (d, np.zeros((5, 8)))
    function = {"recurrence": recurrence, "thomas": thomas}[name]
    expected, found = ([np.array(value) for value in given] for _ in range(2))
    function(*expected)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RaceWarning)
        wf.kernel(function)(*found)
    for left, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-12)


@wf.kernel
def eliminate(a: Any) -> None:
    for k in range(a.shape[0]):
        a[k] = a[k] / a[k, k]
        for i in wf.prange(a.shape[0]):
            if i != k:
                a[i] = a[i] - a[i, k] * a[k]


@wf.kernel
def subtract_row(a: Any, k: int) -> None:
    for i in wf.prange(a.shape[0]):
        if i != k:
            a[i] = a[i] - a[k]


@wf.kernel
def subtract_row_in_most(a: Any, k: int) -> None:
    for i in wf.prange(a.shape[0]):
        if i != k + 1:
            a[i] = a[i] - a[k]


def test_the_round_that_a_condition_leaves_out_does_not_meet_others() -> None:
    """Gauss-Jordan: all rows but the pivots' are written, which all read."""
    a = np.random.default_rng(0).random((9, 11)) + 9 * np.eye(9, 11)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, expected = a.copy(), a.copy()
        eliminate(found)
        eliminate.function(expected)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        for k in (0, 4, 8):
            found = a.copy()
            subtract_row(found, k)
            np.testing.assert_array_equal(found, np.where(np.arange(9)[:, None] == k, a, a - a[k]))
        assert "map over (n0, n1)" in str(wf.explain(eliminate, a.copy()))
    with pytest.warns(RaceWarning):
        subtract_row_in_most(a.copy(), 3)


def of_three(a: Any, n: int, m: int, width: int, apart: int) -> None:
    for i in wf.prange(n):
        for j in wf.prange(m):
            for k in wf.prange(width):
                a[(i * m + j) * apart + k] = i - j + 2 * k


def blocks(a: Any, count: int, n: int, end: int, more: int) -> None:
    for b in wf.prange(count):
        for i in range(b * n, min((b + 1) * n + more, end)):
            for j in range(a.shape[1]):
                a[i, j] = b + i * j


def full_blocks(a: Any, count: int, n: int) -> None:
    for b in wf.prange(1, count):
        for i in range(b * n - 1, (b + 1) * n - 1):
            a[i] += b


def mirrored(c: Any, x: Any, n: int, more: int) -> None:
    for i in wf.prange(n):
        for j in range(i + more):
            v = x[i] * x[j]
            c[i, j] = v
            c[j, i] = v


def below_the_diagonal(c: Any, x: Any) -> None:
    for i in wf.prange(c.shape[0]):
        for j in wf.prange(i):
            total = 0.0
            for k in range(x.shape[0]):
                total += x[k] * (i - j)
            c[i, j] += total
            c[j, i] -= total
        c[i, i] = 1


def above_the_diagonal(c: Any, x: Any) -> None:
    for i in wf.prange(c.shape[0]):
        for j in range(i + 1, c.shape[0]):
            c[i, j] = x[j]
            c[j, i] = x[i]


def covariances(c: Any, x: Any) -> None:
    for i in wf.prange(c.shape[0]):
        for j in range(i, c.shape[0]):
            total = 0.0
            for k in range(x.shape[0]):
                total += x[k, i] * x[k, j]
            c[i, j] = total
            c[j, i] = total


def free_of_races(function: Any, *given: Any) -> None:
    found, wanted = copy.deepcopy(given), copy.deepcopy(given)
    function(*wanted)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wf.kernel(function)(*found)
    for own, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-14)


def test_elements_of_three_indices() -> None:
    free_of_races(of_three, np.zeros(80), 3, 4, 5, 5)
    free_of_races(of_three, np.zeros(80), 3, 4, 2, 5)
    explained = str(wf.explain(wf.kernel(of_three), np.zeros(80), 3, 4, 5, 5))
    assert "map over (n0, n2, n3)" in explained
    with pytest.raises(RaceError, match="rounds j = 0 and j = 1"):
        wf.kernel(of_three)(np.zeros(80), 3, 4, 5, 4)


def test_blocks_of_rows() -> None:
    for count, n, end in ((4, 6, 20), (4, 5, 20), (3, 5, 20), (4, 1, 4), (9, 6, 20)):
        free_of_races(blocks, np.zeros((20, 3)), count, n, end, 0)
    free_of_races(full_blocks, np.zeros(20), 4, 5)
    explained = str(wf.explain(wf.kernel(blocks), np.zeros((20, 3)), 4, 6, 20, 0))
    assert "map over (n5, n2)" in explained
    ours, plain = np.zeros((20, 3)), np.zeros((20, 3))
    with pytest.warns(RaceWarning, match=r"a\[i, j\] = b \+ i \* j"):
        wf.kernel(blocks)(ours, 4, 5, 20, 1)
    blocks(plain, 4, 5, 20, 1)
    np.testing.assert_array_equal(ours, plain)


def test_mirror_images() -> None:
    random = np.random.default_rng(3)
    for n in (1, 2, 7):
        for more in (0, 1):
            free_of_races(mirrored, random.random((n + 1, n + 2)), random.random(9), n, more)
        if n > 1:
            free_of_races(below_the_diagonal, random.random((n, n)), random.random(4))
        free_of_races(above_the_diagonal, random.random((n, n)), random.random(9))
    for function in (below_the_diagonal, above_the_diagonal):
        explained = str(wf.explain(wf.kernel(function), random.random((7, 7)), random.random(9)))
        assert "map over (n0)" in explained or "map over (n0, n0)" in explained
    x = random.random((9, 7))
    explained = str(wf.explain(wf.kernel(covariances), np.zeros((7, 7)), x))
    assert "call square" in explained  # of which a library computes one half
    found, wanted = np.zeros((7, 7)), np.zeros((7, 7))
    wf.kernel(covariances)(found, x)
    covariances(wanted, x)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    with pytest.raises(RaceError, match=r"c\[i, j\] = v.*c\[j, i\] = v"):
        wf.kernel(mirrored)(np.zeros((8, 8)), random.random(9), 6, 2)


def last_number(x: Any, out: Any) -> Any:
    t = -1.0
    for i in wf.prange(x.shape[0]):
        t = x[i, 0] * 2
        out[i] = x[i] + t
    return t


def last_in_each(x: Any, out: Any) -> Any:
    for k in range(3):
        for i in wf.prange(x.shape[0]):
            t = x[i, 0] * k
            for j in wf.prange(x.shape[1]):
                s = x[i, j] - t
                out[i, j] = s
            x[i, 0] = s
    return t, s


def last_row(x: Any, out: Any) -> Any:
    t = np.ones(x.shape[1])
    for i in wf.prange(x.shape[0]):
        t = x[i] * 2
        t[0] += 5.0
        out[i] = t + 1
    return t, out


def last_rows(x: Any, out: Any) -> Any:
    t = np.ones(x.shape[1])
    for i in wf.prange(x.shape[0]):
        for j in wf.prange(3):
            t = x[i] * j
            out[i, j] = t.sum()
    return t, out


def last_of_its_own(x: Any, out: Any) -> Any:
    t, s = np.ones(3), 0.0
    for i in wf.prange(x.shape[0]):
        u = np.empty(3)
        for j in range(3):
            u[j] = x[i, j] * j
        t = u
        s += u[1]
        out[i, :3] = t
    return t, s


def last_view(x: Any, out: Any) -> Any:
    t = out[0]
    for i in wf.prange(x.shape[0]):
        t = x[i]
        t[0] = i
    return t


def bound_after_it_was_written(x: Any, out: Any) -> Any:
    out[0] = 1
    for i in wf.prange(x.shape[0]):
        out = x * x[i, 0]
    out[0] += 3
    return out


@pytest.mark.parametrize(
    "function",
    [
        last_number, last_in_each, last_row, last_rows, last_of_its_own, last_view,
        bound_after_it_was_written,
    ],
)  # fmt: skip
def test_what_the_last_round_leaves(function: Any) -> None:
    for shape in ((5, 4), (1, 3), (0, 2)):
        if 0 in shape and function in (last_in_each, last_view, bound_after_it_was_written):
            continue
        x = np.random.default_rng(5).random(shape)
        out = np.zeros(shape)
        found, wanted = (x.copy(), out.copy()), (x.copy(), out.copy())
        expected = function(*wanted)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = wf.kernel(function)(*found)
        for own, other in zip((*found, result), (*wanted, expected), strict=True):
            for a, b in zip(*map(_parts, (own, other)), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-14)


def _parts(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def what_an_earlier_round_leaves(x: Any, out: Any) -> Any:
    t = -1.0
    for i in wf.prange(x.shape[0]):
        out[i] = 2 * x[i]
        if x[i] < 0.5:
            t = x[i]
    return t


def which_row_an_earlier_round_leaves(x: Any, out: Any) -> Any:
    t = np.ones(3)
    for i in wf.prange(x.shape[0]):
        out[i] = 2 * x[i]
        if x[i] < 0.5:
            t = np.full(3, x[i])
    return t


@pytest.mark.parametrize(
    "function", [what_an_earlier_round_leaves, which_row_an_earlier_round_leaves]
)
def test_what_some_round_leaves_has_an_order(function: Any) -> None:
    x = np.random.default_rng(6).random(9)
    with pytest.warns(RaceWarning, match="t is needed by the next round"):
        found = wf.kernel(function)(x, np.zeros(9))
    np.testing.assert_array_equal(found, function(x, np.zeros(9)))


def two_levels(a: Any, b: Any) -> None:
    for i in wf.prange(a.shape[0]):
        for j in wf.prange(a.shape[1]):
            a[i, j] = a[b[i], b[j]] + 1


def in_copies(a: Any, b: Any) -> None:
    for k in range(3):
        for i in wf.prange(a.shape[0]):
            a[b[i]] = k


def side_by_side(a: Any, b: Any) -> None:
    for i in wf.prange(a.shape[0]):
        a[b[i]] = i
    for i in wf.prange(a.shape[0]):
        a[b[i], 0] = i


@pytest.mark.parametrize(
    ("function", "accesses"),
    [
        (two_levels, ["a[i, j] = a[b[i], b[j]] + 1"] * 2), (in_copies, ["a[b[i]] = k"] * 2),
        (side_by_side, ["a[b[i]] = i"] * 2 + ["a[b[i], 0] = i"] * 2),
    ],
)  # fmt: skip
def test_one_warning_for_a_nest_that_names_two_accesses(
    function: Any, accesses: list[str]
) -> None:
    with pytest.warns(RaceWarning) as caught:
        wf.kernel(function)(np.zeros((4, 4)), np.array([0, 1, 1, 3]))
    lines = [line for one in caught for line in str(one.message).splitlines()]
    found = [line.split(": ")[-1] for line in lines if line.startswith(("  written", "  read"))]
    assert found == accesses
    assert len(caught) == len(accesses) // 2
