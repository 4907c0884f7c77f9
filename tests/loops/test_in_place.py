"""What a kernel writes in part is written in place: nothing is copied, and nothing else changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loops.agree import agrees

import weft as wf
from weft.errors import OutOfBoundsError
from weft.fun import nodes as fun
from weft.runtime import incore

RANDOM = np.random.default_rng(12)


def smooth(a: Any, b: Any) -> None:
    for i in range(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            b[i, j] = a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]


def relax(a: Any, b: Any, steps: int) -> None:
    for _ in range(steps):
        b[1:-1] = 0.5 * (a[:-2] + a[2:])
        a[1:-1] = 0.5 * (b[:-2] + b[2:])


def shift(a: Any) -> None:
    a[1:] = a[:-1]


def exchange(a: Any, b: Any) -> None:
    a[:], b[:] = b.copy(), a.copy()


def old_and_new(a: Any) -> Any:
    old = a[2:].copy()
    a[1:] += 1
    return old


def transposed(a: Any) -> None:
    a[...] = a.T + 1


def with_products(a: Any, b: Any) -> None:
    a[0] += 1
    c = a @ b
    a[1:] = c[1:]
    b[0, 0] = c[0, 0]


def rotate(a: Any, b: Any, steps: int) -> Any:
    for _ in range(steps):
        b[1:-1] = 0.5 * (a[:-2] + a[2:])
        a, b = b, a
    return a


CASES: dict[Any, tuple[Any, ...]] = {
    smooth: (RANDOM.random((9, 8)), RANDOM.random((9, 8))),
    relax: (RANDOM.random(20), RANDOM.random(20), 3),
    shift: (RANDOM.random(100),),
    exchange: (RANDOM.random(100), RANDOM.random(100)),
    old_and_new: (RANDOM.random(9),),
    transposed: (RANDOM.random((40, 40)),),
    with_products: (RANDOM.random((6, 6)), RANDOM.random((6, 6))),
    rotate: (RANDOM.random(20), RANDOM.random(20), 3),
}


@pytest.mark.parametrize("function", CASES)
def test_results(function: Any) -> None:
    with wf.config(interpret_below=0):
        agrees(function, *CASES[function])


def strided(array: np.ndarray) -> np.ndarray:
    """A window of a larger array."""
    wide = np.zeros([2 * extent + 3 for extent in array.shape], array.dtype)
    window = wide[tuple(slice(1, 1 + 2 * extent, 2) for extent in array.shape)]
    window[...] = array
    return window


@pytest.mark.parametrize("function", CASES)
def test_windows_of_larger_arrays(function: Any) -> None:
    given = [strided(a) if isinstance(a, np.ndarray) else a for a in CASES[function]]
    plain = [a.copy() if isinstance(a, np.ndarray) else a for a in given]
    with wf.config(interpret_below=0):
        wf.kernel(function)(*given)
    function(*plain)
    for own, wanted in zip(given, plain, strict=True):
        if isinstance(own, np.ndarray):
            np.testing.assert_allclose(own, wanted)
            assert own.base is not None
            inside = own.base.copy()
            inside[tuple(slice(1, 1 + 2 * extent, 2) for extent in own.shape)] = 0
            assert not inside.any()  # around it nothing is written


@pytest.mark.parametrize(
    "turned",
    [lambda a: a[::-1], lambda a: a.astype(">f8"), lambda a: np.flip(a.copy(), 1).T],
    ids=["backwards", "byte order", "transposed"],
)
def test_arrays_that_lie_otherwise(turned: Any) -> None:
    a, b = (turned(RANDOM.random((9, 8))) for _ in range(2))
    expected = b.copy()
    smooth(a, expected)
    wf.kernel(smooth)(a, b)
    np.testing.assert_array_equal(b, expected)


def allocated(monkeypatch: pytest.MonkeyPatch, function: Any, *arguments: Any) -> list[int]:
    """The bytes of what a second call allocates: results, and workspace; step by step."""
    monkeypatch.setattr(sys.modules["weft.launch.direct"], "record", lambda *_: None)
    kernel = wf.kernel(function)
    kernel(*arguments)
    found: list[int] = []
    run = incore.run_launch

    def watched(launch: Any, inputs: Any, pool: Any, threads: Any, out: Any = None) -> Any:
        found.append(launch.workspace)
        results = run(launch, inputs, pool, threads, out)
        found.extend(r.nbytes for r in results if not any(r is given for given in inputs))
        return results

    monkeypatch.setattr(incore, "run_launch", watched)
    kernel(*arguments)
    assert found
    return found


@pytest.mark.parametrize("function", [smooth, relax])
def test_nothing_is_copied(monkeypatch: pytest.MonkeyPatch, function: Any) -> None:
    arrays = [a for a in CASES[function] if isinstance(a, np.ndarray)]
    found = allocated(monkeypatch, function, *CASES[function])
    assert sum(found) < min(array.nbytes for array in arrays)


def columns(v: Any, x: Any) -> None:
    for i in wf.prange(v.shape[0]):
        total = x[i, 0] + x[i, 1]
        v[i, 0] += total
        v[i, 2] += total * x[i, 2]


def test_a_column_that_is_written_proves_how_many_there_are() -> None:
    """Then columns lie apart whatever the sizes: there is one version of the code."""
    v, x = np.ones((4, 3)), np.arange(12.0).reshape(4, 3)
    expected = v.copy()
    kernel = wf.kernel(columns)
    columns(expected, x)
    kernel(v, x)
    np.testing.assert_array_equal(v, expected)
    variant, _ = kernel.variant([v, x], kernel._arguments((v, x), {})[1])
    assert {str(fact) for fact in variant.facts} >= {"n1 - 3 >= 0", "n3 - 3 >= 0"}
    (artifact,) = variant.computation.every_artifact()
    assert [p.segment.better for p in artifact.pieces] == [None]
    with pytest.raises(OutOfBoundsError, match="index 2 is out of bounds for axis 1 with size 2"):
        kernel(v, np.ones((4, 2)))


def test_what_is_still_read_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """The new elements cannot be written over the old ones, which other rounds read."""
    assert sum(allocated(monkeypatch, transposed, *CASES[transposed])) >= 8 * 40 * 40


def test_an_error_in_the_middle_leaves_what_was_written() -> None:
    @wf.kernel
    def fill(a: Any, index: Any, x: Any) -> None:
        a[:2] = 7
        for i in range(index.shape[0]):
            x[index[i]] = 1

    a, x = np.zeros(4), np.zeros(3)
    with pytest.raises(OutOfBoundsError):
        fill(a, np.array([0, 99]), x)
    assert set(a.tolist()) <= {0.0, 7.0}
    assert set(x.tolist()) <= {0.0, 1.0}


def lower_triangle(c: Any) -> None:
    for i in wf.prange(c.shape[0]):
        for j in wf.prange(i + 1):
            c[i, j] = 2 * c[i, j]


def test_a_triangle_of_a_square_has_the_extents_of_its_array() -> None:
    """There are as many rows as columns, in this call: the array is replaced, and not reshaped."""
    c = np.arange(25.0).reshape(5, 5)
    kernel = wf.kernel(lower_triangle)
    expected = np.tril(2 * c) + np.triu(c, 1)
    program = kernel.trace(c)
    (result,) = program.body.results
    assert isinstance(program.body.statements[-1].expr, fun.Kernel)
    assert result.type == program.params[0].type
    kernel(c)
    np.testing.assert_array_equal(c, expected)
    oblong = np.arange(15.0).reshape(3, 5)
    expected = np.tril(2 * oblong) + np.triu(oblong, 1)
    kernel(oblong)
    np.testing.assert_array_equal(oblong, expected)


def rod(a: Any, b: Any, steps: int) -> None:
    for _ in range(steps):
        b[1:-1] = (a[:-2] + a[1:-1] + a[2:]) / 3
        a[1:-1] = (b[:-2] + b[1:-1] + b[2:]) / 3


def plate(a: Any, b: Any, steps: int) -> None:
    for _ in range(steps):
        b[1:-1, 1:-1] = (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]) / 4
        a[1:-1, 1:-1] = b[1:-1, 1:-1] * 0.5 + a[1:-1, 1:-1] * 0.5


def cone(a: Any, b: Any, steps: int) -> None:
    n = a.shape[0]
    for k in range(1, steps):
        b[k : n - k] = (a[k - 1 : n - k - 1] + a[k + 1 : n - k + 1]) / 2
        a[k : n - k] = b[k : n - k]


@pytest.mark.parametrize(
    ("function", "shape"), [(rod, (2_000_000,)), (plate, (1400, 1400)), (cone, (2_000_000,))]
)
def test_large_updates_by_slices_are_tiled_in_time(function: Any, shape: tuple[int, ...]) -> None:
    """Rows that an update does not replace are in no launch check, large as the arrays are."""
    a = np.random.default_rng(2).random(shape)
    ours, theirs = [a.copy(), a.copy()], [a.copy(), a.copy()]
    wf.kernel(function)(*ours, 9)
    function(*theirs, 9)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_a_number_for_a_slice_that_is_all_there_is() -> None:
    @wf.kernel
    def fill(a: Any, value: Any) -> Any:
        a[0:1] = value
        return a.sum()

    for extent in (3, 1, 0, 1, 2):
        a = np.ones(extent)
        assert fill(a, 3) == a.sum()
        np.testing.assert_array_equal(a, [3.0, 1, 1][:extent])


def test_rows_exchanged_by_lists_of_indices() -> None:
    """Which rows is data, as of pivots, or of the loop."""

    def eliminated(a: Any) -> Any:
        for k in range(a.shape[0] - 1):
            pivot = k + np.argmax(np.abs(a[k:, k]))
            if pivot != k:
                a[[k, pivot]] = a[[pivot, k]]
            a[k + 1 :] -= np.outer(a[k + 1 :, k] / a[k, k], a[k])
        a[:, [0, pivot]] *= 2
        return a[[[0, pivot], [pivot, k]], [[1], [0]]]

    for n in (2, 3, 7):
        agrees(eliminated, np.random.default_rng(n).random((n, n)))


def parts_of_complex(w: Any, x: Any) -> Any:
    w.real += 1
    w.imag[:] = x
    w.imag[1:] -= w.real[:-1]
    shown = w.real
    shown[2] = 7
    w[0] = 9j
    for i in wf.prange(w.shape[0]):
        w.real[i] *= x[i]
    for i in range(1, w.shape[0]):
        w.imag[i] = w.imag[i - 1] + w.real[i]
    w.real[w.imag > 0.5] = 0
    w.reshape(-1)[::2].real *= 2
    w.imag[[0, 1]] = [8, 9]
    np.imag(w)[-1:] = shown[3]
    x.real = 3
    return shown, w.imag.sum()


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_real_and_imaginary_parts_are_written(dtype: Any) -> None:
    x = np.arange(1.0, 6.0).astype(dtype(0).real.dtype)
    w = (x + 1j * x[::-1]).astype(dtype)
    for own in (w, np.repeat(w, 2)[::2]):
        agrees(parts_of_complex, own, x)


def several_names(x: Any) -> Any:
    a = b = np.zeros(3)
    a[0] = 1
    p, _ = c = np.zeros((2, 3))
    p[0] = 2
    grids = others = np.meshgrid(x, x)
    grids[0][0] = 7
    return b, c, others[0]


def in_containers(x: Any) -> Any:
    def set_first(parts: Any) -> None:
        parts[0][1] = 4

    pair, same, made = (np.zeros(3), x), [np.zeros(3)] * 2, [np.zeros(3) for _ in range(2)]
    set_first(pair)
    set_first(same)
    set_first(made)
    return pair[0], same[1], made[0]


def by_an_operator(x: Any) -> Any:
    parts = [x, x * 2]
    shown = parts[1]
    parts[0] *= 2
    parts[1] += 1
    return shown


@pytest.mark.parametrize("function", [several_names, in_containers, by_an_operator])
def test_who_holds_an_array_sees_what_is_written(function: Callable[..., Any]) -> None:
    agrees(function, np.arange(3.0))
