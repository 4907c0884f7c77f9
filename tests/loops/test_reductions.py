"""A `prange` whose rounds combine something with elements of an array is a reduction."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from devices.harness import device

import weft as wf
from weft.errors import RaceError, RaceWarning


def whole(h: Any, a: Any) -> None:
    for i in wf.prange(a.shape[0]):
        h += a[i]


def elements(h: Any, a: Any) -> None:
    for i in wf.prange(a.shape[0]):
        for j in range(a.shape[1]):
            h[j] += a[i, j]


def part_of_a_local(h: Any, a: Any) -> None:
    g = np.zeros(a.shape[1])
    for i in wf.prange(a.shape[0]):
        g[1:] -= a[i, 1:]
    h[:] = g


def largest(h: Any, a: Any) -> None:
    for i in wf.prange(a.shape[0]):
        for j in range(a.shape[1]):
            h[j] = max(h[j], a[i, j])


def histogram(h: Any, b: Any) -> None:
    for i in wf.prange(b.shape[0]):
        h[b[i]] += 1


def least_by_index(h: Any, a: Any, b: Any) -> None:
    for i in wf.prange(a.shape[0]):
        h[b[i]] = min(a[i, 2], h[b[i]])


def largest_by_numpy(h: Any, a: Any, b: Any) -> None:
    for i in wf.prange(1, a.shape[0]):
        h[b[i]] = np.maximum(h[b[i]], a[i, 1])


def products(h: Any, a: Any, b: Any) -> None:
    for i in wf.prange(a.shape[0]):
        for j in range(b[i] % 3):
            h[j] *= a[i, j]


def bits(h: Any, b: Any, c: Any) -> None:
    for i in wf.prange(b.shape[0]):
        h[b[i]] ^= c[i, 0]


def truths(h: Any, c: Any) -> None:
    for i in wf.prange(c.shape[0]):
        h |= c[i] > 2


def pairs(h: Any, a: Any) -> None:
    for i in wf.prange(a.shape[0]):
        h[i // 2] += a[i, 0]


def rows(h: Any, a: Any, b: Any) -> None:
    for i in wf.prange(a.shape[0]):
        h[b[i]] += a[i]


def from_the_end(h: Any, a: Any) -> None:
    for i in wf.prange(a.shape[0]):
        h[2] += a[i, 0]
        h[-1] += a[i, 1]


def twice(h: Any, a: Any, b: Any) -> None:
    for i in wf.prange(a.shape[0]):
        h[b[i]] += a[i, 0]
        h[b[i]] -= a[i, 1]


def on_a_condition(h: Any, a: Any, b: Any) -> None:
    for i in wf.prange(2, a.shape[0], 3):
        if b[i] > 3:
            h += a[i]
        elif a[i, 0] > 1:
            h[b[i]] += 2 * a[i, 0]


def nested(h: Any, a: Any, c: Any) -> None:
    for i in wf.prange(a.shape[0]):
        for j in wf.prange(a.shape[1]):
            h[c[i, j]] += a[i, j]


def in_rows(g: Any, a: Any, c: Any) -> None:
    for i in wf.prange(g.shape[0]):
        for j in wf.prange(a.shape[1]):
            g[i, c[i, j]] += a[i, j]


def columns(g: Any, a: Any) -> None:
    for i in wf.prange(a.shape[0]):
        for j in wf.prange(g.shape[1]):
            g[1:, j] += a[i, j]


def of_parts(h: Any, a: Any, c: Any) -> None:
    part = h[1:]
    for i in wf.prange(a.shape[0]):
        part += a[i, 1:]
        h[::2] += a[i, ::2]
        h[c[i, 0] % 4 : c[i, 0] % 4 + 2] += 1


def outer_products(g: Any, a: Any) -> None:
    for k in wf.prange(a.shape[0]):
        for i in wf.prange(g.shape[0]):
            for j in range(g.shape[1]):
                g[i, j] += a[k, i] * a[k, j]


def diagonals(h: Any, a: Any) -> None:
    for i in wf.prange(a.shape[1] // 2):
        for j in wf.prange(a.shape[1] // 2):
            h[i + j] += a[0, i] * a[1, j]


def triangle(h: Any, a: Any) -> None:
    for i in wf.prange(a.shape[1]):
        for j in range(i):
            h[j] += a[i, j]


def of_sums(h: Any, a: Any, b: Any) -> None:
    for i in wf.prange(a.shape[0]):
        total = 0.0
        for j in range(a.shape[1]):
            total += a[i, j]
        for j in range(a.shape[1]):
            h[b[j]] += total * a[i, j]


def while_loops(h: Any, a: Any, b: Any) -> None:
    for i in wf.prange(a.shape[0]):
        k = 0
        while k < b[i]:
            h[k] += a[i, k]
            k += 1


def several(h: Any, g: Any, out: Any, a: Any, b: Any) -> Any:
    total = 0.0
    for i in wf.prange(a.shape[0]):
        out[i] = a[i, 0] * 2
        h += a[i]
        g[b[i]] += out[i]
        total += a[i, 1]
    return total


def forces(h: Any, a: Any, b: Any) -> None:
    for i in wf.prange(a.shape[0]):
        for j in range(a.shape[1]):
            force = a[i, j] * 2
            h[b[i]] += force
            h[j] -= force


def added_at(h: Any, a: Any, b: Any) -> None:
    for i in wf.prange(5):
        np.add.at(h, b, a[:, i])


M = 7
FUNCTIONS = [
    whole, elements, part_of_a_local, largest, histogram, least_by_index, largest_by_numpy,
    products, bits, truths, pairs, rows, from_the_end, twice, on_a_condition, nested, in_rows,
    columns, of_parts, outer_products, diagonals, triangle, of_sums, while_loops, several, forces,
    added_at,
]  # fmt: skip


def arguments(function: Callable[..., Any], n: int) -> list[Any]:
    """Arguments by their names; floats are small multiples of 1/2, whose sums are exact."""
    random = np.random.default_rng(n)
    given = {
        "a": random.integers(-6, 7, (n, M)) / 2, "b": random.integers(0, M, n),
        "c": random.integers(-M, M, (n, M)), "h": random.integers(0, 2, M) / 2,
        "g": np.zeros((M, M)), "out": np.zeros(n),
    }  # fmt: skip
    match function.__name__:
        case "bits":
            given["h"] = np.arange(M)
        case "truths":
            given["h"] = np.zeros(M, bool)
        case "pairs":
            given["h"] = np.ones(n)
        case "rows":
            given["h"] = np.ones((M, M))
        case "several":
            given["g"] = np.ones(M)
        case "products":
            given["a"] = random.choice([1.0, 2.0, -1.0, 0.5], (n, M))
        case "on_a_condition":
            given["b"] -= M  # counted from the end
    return [given[name] for name in function.__annotations__ if name != "return"]


def check(function: Callable[..., Any], given: list[Any]) -> None:
    """As plain Python, bit for bit, and free of races."""
    found, wanted = copy.deepcopy(given), copy.deepcopy(given)
    expected = function(*wanted)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = wf.kernel(function)(*found)
    for own, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(own, other)
    assert result == expected


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_what_rounds_combine(function: Callable[..., Any]) -> None:
    for n in (M, 40):
        check(function, arguments(function, n))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_interpreted(function: Callable[..., Any]) -> None:
    with wf.config(interpret_below=1 << 60):
        check(function, arguments(function, 12))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_on_a_device(function: Callable[..., Any]) -> None:
    with wf.config(devices=device().name):
        check(function, arguments(function, 40))


@pytest.mark.parametrize("function", [whole, histogram, nested, of_sums])
def test_in_boxes(function: Callable[..., Any]) -> None:
    given = arguments(function, 50_000)
    with wf.config(memory_limit="1 MiB"):
        check(function, given)


def test_many_rounds_by_parts_have_the_interpreters_bits() -> None:
    given = arguments(while_loops, 5000)
    given[1] = np.random.default_rng(1).random((5000, M))
    found, meant = copy.deepcopy(given), copy.deepcopy(given)
    wf.kernel(while_loops)(*found)
    with wf.config(interpret_below=1 << 60):
        wf.kernel(while_loops)(*meant)
    while_loops(*given)
    assert found[0].tobytes() == meant[0].tobytes()
    np.testing.assert_allclose(found[0], given[0], rtol=1e-12)
    assert "map over (16)" in str(wf.explain(wf.kernel(while_loops), *given))


@pytest.mark.parametrize(
    ("function", "step"),
    [(whole, "map over"), (histogram, "scatter over"), (of_sums, "scatter over")],
)
def test_they_are_kernels(function: Callable[..., Any], step: str) -> None:
    assert step in str(wf.explain(wf.kernel(function), *arguments(function, 40)))


@pytest.mark.parametrize("size", [9, 20_000])
def test_histograms_of_few_elements_and_of_many(size: int) -> None:
    random = np.random.default_rng(size)
    found = np.zeros(size, np.int64)
    b = random.integers(-size, size, 100_000)
    wf.kernel(histogram)(found, b)
    np.testing.assert_array_equal(found, np.bincount(b % size, minlength=size))


def test_many_rounds_into_more_elements_than_scatters_copy() -> None:
    size, rounds = 9000, 600_000
    b = np.random.default_rng(3).integers(0, size, rounds)
    found = np.zeros(size, np.int64)
    kernel = wf.kernel(histogram)
    kernel(found, b)
    np.testing.assert_array_equal(found, np.bincount(b, minlength=size))
    assert "map over (16)" in str(wf.explain(kernel, found, b))
    assert "map over (4)" in str(wf.explain(kernel, found, b[: rounds // 2]))
    assert "scatter over" in str(wf.explain(kernel, found, b[: rounds // 8]))


def weighted(h: Any, b: Any, w: Any) -> None:
    for i in wf.prange(b.shape[0]):
        h[b[i]] += w[i]


def test_how_sums_are_rounded_follows_from_the_sizes_of_a_call_alone() -> None:
    """Not from what was compiled for fewer rounds: in order, or in 4 parts, or in 16."""
    size, random = 8200, np.random.default_rng(4)
    b, w = random.integers(0, size, 600_000), random.random(600_000)
    kernel, found = wf.kernel(weighted), dict[int, bytes]()
    for rounds in (50_000, 200_000, 600_000):
        alone, after = np.zeros(size), np.zeros(size)
        wf.kernel(weighted)(alone, b[:rounds], w[:rounds])
        kernel(after, b[:rounds], w[:rounds])
        assert alone.tobytes() == after.tobytes()
        found[rounds] = after.tobytes()
        one_thread = np.zeros(size)
        with wf.config(threads=1):
            kernel(one_thread, b[:rounds], w[:rounds])
        assert one_thread.tobytes() == found[rounds]
    for rounds, parts in ((600_000, 16), (200_000, 4), (50_000, 1)):
        ends = [rounds * part // parts for part in range(parts + 1)]
        copies = [np.zeros(size) for _ in range(parts)]
        for copy_, begin, end in zip(copies, ends, ends[1:], strict=False):
            np.add.at(copy_, b[begin:end], w[begin:end])
        if parts == 1:
            assert copies[0].tobytes() == found[rounds]
        np.testing.assert_allclose(np.frombuffer(found[rounds]), sum(copies), rtol=1e-12)


def test_no_rounds_and_no_elements() -> None:
    for rounds, size in ((0, 3), (0, 0), (3, 0)):
        h = np.ones(size)
        wf.kernel(whole)(h, np.ones((rounds, size)))
        np.testing.assert_array_equal(h, np.full(size, 1.0 + rounds))


def test_what_compares_with_nothing_stays() -> None:
    a = np.array([[3.0, 1.0], [2.0, 1.0]])
    h = np.array([np.nan, 0.5])
    wf.kernel(largest)(h, a)
    np.testing.assert_array_equal(h, [np.nan, 1.0])


@pytest.mark.parametrize("index", [M, -M - 1])
def test_an_index_outside(index: int) -> None:
    b = np.zeros(20, np.int64)
    b[11] = index
    with pytest.raises(IndexError):
        wf.kernel(histogram)(np.zeros(M), b)


def of_another_kind(h: Any, a: Any) -> None:
    for i in wf.prange(a.shape[0]):
        for j in range(a.shape[1]):
            h[j] = h[j] + a[i, j]


def test_conversions_on_the_way() -> None:
    a = np.arange(12.0).reshape(4, 3)
    narrow = np.zeros(3, np.float32)
    wf.kernel(of_another_kind)(narrow, a)
    np.testing.assert_array_equal(narrow, a.sum(axis=0))
    with pytest.raises(RaceError):  # in each round a whole number is made of what was added
        wf.kernel(of_another_kind)(np.zeros(3, np.int64), a + 0.5)


# ---------------------------------------------------------------- what is none


def read_too(h: Any, a: Any) -> None:
    for i in wf.prange(a.shape[0]):
        h[i // 2] += a[i, 0]
        a[i, 1] = h[0]


def looked_at(h: Any, a: Any) -> None:
    for i in wf.prange(a.shape[0]):
        if h[i // 2] < 3:
            h[i // 2] += a[i, 0]


def two_operators(h: Any, a: Any) -> None:
    for i in wf.prange(a.shape[0]):
        h[i // 2] += a[i, 0]
        h[i // 2] = max(h[i // 2], a[i, 1])


def two_operators_on_all(h: Any, a: Any) -> None:
    for i in wf.prange(a.shape[0]):
        h += a[i]
        h *= a[i]


def of_itself(h: Any, a: Any) -> None:
    for i in wf.prange(a.shape[0]):
        h[i // 2] += h[0]


def differences(h: Any, a: Any) -> None:
    for i in wf.prange(a.shape[0]):
        h[i // 2] = a[i, 0] - h[i // 2]


def put_back(h: Any, a: Any) -> None:
    for i in wf.prange(a.shape[0]):
        row = h[i // 2].copy()
        h[i % 2, 0] += a[i, 0]
        h[i // 2] = row + a[i]


def set_too(h: Any, a: Any) -> None:
    for i in wf.prange(a.shape[0]):
        h[i // 2] += a[i, 0]
        h[i // 3] = 5


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (read_too, "rounds update h by +=, and read it otherwise too"),
        (looked_at, "rounds update h by +=, and read it otherwise too"),
        (of_itself, "rounds update h by +=, and read it otherwise too"),
        (set_too, "rounds update h by +=, and write it otherwise too"),
        (two_operators, "rounds update h by += and by max"),
        (differences, "two rounds may access one element"),
        (put_back, "rounds update h by +=, and write it otherwise too"),
    ],
)
def test_what_is_no_reduction(function: Callable[..., Any], reason: str) -> None:
    h = np.ones((6, M)) if function is put_back else np.ones(6)
    given = [h, np.random.default_rng(2).random((12, M))]
    found, wanted = copy.deepcopy(given), copy.deepcopy(given)
    with pytest.warns(RaceWarning) as caught:
        wf.kernel(function)(*found)
    function(*wanted)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-12)
    message = str(caught[0].message)
    assert f"runs in order: {reason}\n" in message, message
    assert message.count("written at") + message.count("read at") == 2


def test_two_operators_on_one_element_are_refused() -> None:
    with pytest.raises(RaceError, match=r"rounds update h by \+= and by \*=.*\n.*\n.*\n"):
        wf.kernel(two_operators_on_all)(np.ones(M), np.ones((3, M)))
