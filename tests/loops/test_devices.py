"""Loop kernels and NumPy programs on a device, and in boxes under a limit: the same."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import pytest
from devices.harness import DIALECT, device
from loops.agree import agrees
from loops.programs import algebra, dense, elements, grids, irregular, science, stencils
from slow import some_slow

import weft as wf
from weft.errors import MemoryLimitError
from weft.plan import planner
from weft.runtime.devices import copies

EVERY = {
    **dense.INPUTS, **grids.INPUTS, **elements.INPUTS, **irregular.INPUTS, **stencils.INPUTS,
    **algebra.INPUTS, **science.INPUTS,
}  # fmt: skip
FEW = [
    dense.matrix_product, grids.five_point, elements.mandelbrot, irregular.breadth_first,
    stencils.jacobi_2d, algebra.lu, science.mandelbrot, science.sparse_matrix_vector,
]  # fmt: skip


UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20}


def check(function: Callable[..., Any], size: int, rtol: float = 1e-9) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agrees(function, *EVERY[function](size), rtol=rtol)


def few_and_all() -> list[Any]:
    return [
        pytest.param(f, id=f.__module__.split(".")[-1] + "." + f.__name__,
                     marks=[] if f in FEW else [pytest.mark.slow])
        for f in EVERY
    ]  # fmt: skip


@pytest.mark.parametrize("function", few_and_all())
def test_on_a_device(function: Callable[..., Any]) -> None:
    with wf.config(devices=device().name):
        check(function, 13)


TILED = [grids.five_point, dense.rank_k, irregular.sum_2d, stencils.jacobi_2d, grids.red_black,
         science.sparse_matrix_vector]  # fmt: skip

SIZES = {
    irregular.sum_2d: 150, irregular.extremes: 20_000, elements.monte_carlo_pi: 3000,
    elements.n_body_step: 40, grids.pathfinder: 40, science.sparse_matrix_vector: 100,
    irregular.sparse_rows: 100,
}  # fmt: skip
"""Of arguments of which half holds a box, where that takes more than 13: a reduction's tile."""

NEEDS = r"runs on the cpu: \w+ needs \d[\d.]* \w+ at once on {}: it cannot be cut into boxes"
IN_ORDER = NEEDS + ", since the rounds of a loop run one after another"
COMPLEX = "runs on the cpu: complex128 on a GPU"
ON_THE_CPU = {
    # Loops of which the rounds are not known to touch nothing of each other.
    grids.gauss_seidel: IN_ORDER,
    grids.red_black: IN_ORDER,
    irregular.bubble_sort: IN_ORDER,
    irregular.count_bytes: IN_ORDER,
    irregular.scatter: IN_ORDER,
    irregular.compacted: IN_ORDER,
    irregular.breadth_first: IN_ORDER,
    elements.classes: IN_ORDER,
    # Of a loop by a condition nothing says how far it goes.
    irregular.sparse_rows: NEEDS + ", since each may need all of value_0, column_0, x_0",
    # The last rounds read all of an array of which half fits.
    elements.pair_energy: NEEDS,
    # The local arrays of one row for each of the items that run together are more than there is.
    dense.tridiagonal: NEEDS,
    elements.mandelbrot: COMPLEX,
    science.mandelbrot: COMPLEX,
    science.contour_integral: COMPLEX,
}
"""Kernels of which the CPU does all, or all but what becomes of a result; what `explain` says."""

if DIALECT == "opencl":  # of which products are NumPy's
    ON_THE_CPU[dense.matrix_product] = r"kernel call \w+ \(by NumPy\)"


@pytest.mark.parametrize(
    "function",
    [pytest.param(f, id=f.__module__.split(".")[-1] + "." + f.__name__,
                  marks=[] if f in TILED else [pytest.mark.slow]) for f in EVERY],
)  # fmt: skip
def test_tiled_on_a_device(
    function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a cap of half of what the arguments take: it computes there, in no more than that."""
    without_allowance = partial(planner.plan_program, allowance=0)
    monkeypatch.setattr(planner, "plan_program", without_allowance)
    on = device()
    size = SIZES.get(function, 13)
    arguments = EVERY[function](size)
    cap = max(sum(a.nbytes for a in arguments if isinstance(a, np.ndarray)) // 2, 512)
    on.trim()
    on.statistics.peak_bytes = 0
    before = on.statistics.launches
    with wf.config(devices=on.name, memory_limit={on.name: cap}, interpret_below=0):
        check(function, size)
        if function in ON_THE_CPU:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                said = str(wf.explain(wf.kernel(function), *arguments))
            assert re.search(ON_THE_CPU[function].format(re.escape(on.name)), said), said
        else:
            assert on.statistics.launches > before
    assert on.statistics.peak_bytes <= cap


def test_local_arrays_under_a_cap() -> None:
    """Short rows, of which a box has as many as run together with arrays of their own."""
    on = device()
    random = np.random.default_rng(4)
    lower, diagonal, upper = random.random(6), 2 + random.random(6), random.random(6)
    right = random.random((500, 6))
    cap = right.nbytes  # and as much for what is made of it
    before = on.statistics.launches
    with wf.config(devices=on.name, memory_limit={on.name: cap}):
        agrees(dense.tridiagonal, lower, diagonal, upper, right, np.zeros((500, 6)))
    assert on.statistics.launches - before > 1


COUNTED = np.random.default_rng(8).integers(0, 64, 20_000)
WEIGHTS = np.round(64 * np.random.default_rng(9).random(20_000))


@pytest.mark.parametrize(
    "count",
    [
        lambda: wf.bincount(wf.asarray(COUNTED), minlength=64),
        lambda: wf.bincount(wf.asarray(COUNTED), wf.asarray(WEIGHTS), minlength=64),
        lambda: wf.zeros(64).at[wf.asarray(COUNTED)].add(wf.asarray(WEIGHTS)),
    ],
    ids=["counts", "weights", "added"],
)
def test_histograms_under_a_cap(count: Callable[[], Any]) -> None:
    """Boxes of what is counted, each of which takes on what there is."""
    on = device()
    with wf.config(devices="cpu"):
        expected = np.asarray(count())
    before = on.statistics.launches
    with wf.config(devices=on.name, memory_limit={on.name: 100_000}, interpret_below=0):
        counted = count()
        assert re.search(r"[2-9] boxes of \d+ along", str(wf.explain(counted)))
        np.testing.assert_array_equal(np.asarray(counted), expected)
    assert on.statistics.launches - before > 2


def eliminate(a: Any) -> None:
    """A round's kernel gives a column and the rows that it scales, of which tiles read both."""
    n = a.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]


def transpose(a: Any) -> None:
    """The first round has nothing to do, and so no boxes."""
    for i in range(a.shape[0]):
        for j in range(i):
            t = a[i, j]
            a[i, j] = a[j, i]
            a[j, i] = t


@pytest.mark.parametrize("function", some_slow([eliminate, transpose], [eliminate]))
def test_triangles_in_place_under_a_limit(function: Callable[..., Any]) -> None:
    a = np.random.default_rng(1).random((40, 40)) + 100 * np.eye(40)
    expected = a.copy()
    function(expected)
    on = device()
    with wf.config(devices=on.name, memory_limit={on.name: "8 KiB"}):
        wf.kernel(function)(a)
    np.testing.assert_allclose(a, expected)


def carried(x: Any, y: Any, table: Any, other: Any) -> Any:
    total = 0.0
    last = 0.0
    for i in range(x.shape[0]):
        for _ in range(x.shape[0]):
            for j in range(0, x.shape[0], 2):
                table[j, 4] = max(table[j, 4], x[j] - x[-1 - i] + 1)
                last = abs(y[-1 - i])
            for _ in range(x.shape[0]):
                total += other[-5, 4] + -3.0
                other[:, 4] += y
    return total, last


def gram(a: Any, c: Any) -> None:
    for i in range(c.shape[0]):
        for j in range(i, c.shape[0]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * a[j, k]
            c[i, j] = s
            c[j, i] = s


@pytest.mark.parametrize("limit", [700, 1000, 3000])
def test_rounds_of_the_host_under_a_limit(limit: int) -> None:
    """Scalars that only a branch or loop hands on; rows whose number a round decides."""
    random = np.random.default_rng(0)
    on = device()
    with warnings.catch_warnings(), wf.config(devices=on.name, memory_limit={on.name: limit}):
        warnings.simplefilter("ignore")
        x, table = random.integers(-6, 7, 6), random.integers(-6, 7, (6, 6))
        y, other = random.integers(-6, 7, 6) / 2, random.integers(-6, 7, (6, 6)) / 2
        agrees(carried, x, y, table, other)
        agrees(gram, random.random((6, 4)), np.zeros((6, 6)))


def test_what_is_updated_in_place_is_brought_back_by_all_threads() -> None:
    on = device()

    def add(y, x):
        for i in range(y.shape[0]):
            for j in range(y.shape[1]):
                y[i, j] += 2 * x[i, j]

    x, y = np.random.default_rng(5).random((2, 1100, 1030), np.float32)
    expected, wide = y + 2 * x, np.zeros((1100, 2060), np.float32)
    wide[:, ::2] = y
    with wf.config(devices=[on.name]), mock.patch.object(copies, "copy", wraps=copies.copy) as seen:
        for given in (y, wide[:, ::2]):
            wf.kernel(add)(given, x)
            np.testing.assert_array_equal(given, expected)
    assert any(call.args[0] is y for call in seen.call_args_list)
    np.testing.assert_array_equal(wide[:, 1::2], 0)


def test_what_the_host_runs_is_named() -> None:
    """A loop whose rounds go to the device one by one, and one that runs on the CPU: why."""
    on = device()
    with warnings.catch_warnings(), wf.config(devices=on.name, memory_limit={on.name: 1500}):
        warnings.simplefilter("ignore")
        rounds = str(wf.explain(wf.kernel(dense.lu_in_place), *EVERY[dense.lu_in_place](14)))
        on_cpu = str(wf.explain(wf.kernel(grids.gauss_seidel), *EVERY[grids.gauss_seidel](14)))
    assert re.search(r"the rounds of t_\d+, one by one: each needs", rounds)
    assert re.search(rf"round, stage \d: .*\n.* at once on {on.name}", rounds)
    assert re.search(rf"runs on the cpu: t_\d+ needs \d.* at once on {on.name}", on_cpu)


def advised(error: MemoryLimitError) -> int:
    found = re.search(r"a memory_limit of at least ([\d.]+) (\w+)", str(error))
    assert found, error
    return math.ceil(float(found[1]) * UNITS[found[2]])


@pytest.mark.parametrize("function", few_and_all())
def test_in_boxes(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a limit that the arrays do not fit, or what the refusal names where boxes do not."""
    without_allowance = partial(planner.plan_program, allowance=0)
    monkeypatch.setattr(planner, "plan_program", without_allowance)
    limit = 24 << 10
    for _ in range(10):  # stages are refused one after another
        try:
            with wf.config(memory_limit=limit):
                return check(function, 40)
        except MemoryLimitError as error:
            limit = advised(error)
    raise AssertionError(f"even {limit} bytes are refused")


def turned(a: Any, b: Any) -> None:
    for i in wf.prange(a.shape[0]):
        b[i] = a[i] * 1j


def test_loops_without_a_form_for_the_device_run_on_the_cpu() -> None:
    """And `explain` says why; nothing is run for it."""
    a, b = np.arange(5) * (1 + 2j), np.zeros(5, complex)
    kernel = wf.kernel(turned)
    with wf.config(devices=device().name):
        for explained in (wf.explain(kernel, a, b), kernel.explain(a, b)):
            assert "runs on the cpu: complex128 on a GPU" in str(explained)
        assert not b.any()
        kernel(a, b)
    np.testing.assert_array_equal(b, a * 1j)


def test_a_part_of_an_argument_is_written_as_it_lies() -> None:
    """The device copies rows to where they belong: no array is made for them in between."""
    on = device()
    a = np.random.default_rng(1).random((300, 301))
    b, expected = np.ones_like(a), np.ones_like(a)

    @wf.kernel
    def shrink(a: Any, b: Any) -> None:
        b[1:-1, 1:-1] = a[1:-1, 1:-1] / 2

    shrink.function(a, expected)
    with wf.config(devices=[on.name]), mock.patch.object(on, "takes", wraps=on.takes) as asked:
        shrink(a, b)
    np.testing.assert_array_equal(b, expected)
    given = [call.args[0] for call in asked.call_args_list]
    assert any(np.shares_memory(array, b) for array in given)


def shortest_paths(d: Any) -> None:
    """Floyd and Warshall: each element may be read by all that come after it."""
    n = d.shape[0]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                d[i, j] = min(d[i, j], d[i, k] + d[k, j])


def relaxed(d: Any) -> None:
    for _ in range(3):
        for i in range(1, d.shape[0] - 1):
            for j in range(1, d.shape[1] - 1):
                d[i, j] = 0.25 * (d[i - 1, j] + d[i + 1, j] + d[i, j - 1] + d[i, j + 1])


@pytest.mark.parametrize("nest", [shortest_paths, relaxed])
def test_nests_whose_rounds_need_each_other_are_few_launches(nest: Callable[[Any], None]) -> None:
    """One item writes element after element, where each would be a launch."""
    on, kernel = device(), wf.kernel(nest)
    d = np.random.default_rng(5).random((17, 17))
    expected, found = d.copy(), d.copy()
    nest(expected)
    before = on.statistics.launches
    with wf.config(devices=on.name, interpret_below=0):
        kernel(found)
    assert on.statistics.launches - before < d.size // 4
    np.testing.assert_array_equal(found, expected)
