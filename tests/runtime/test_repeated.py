"""Calls whose arguments the pool looks at: what is like the call before, and what is not."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import OutOfBoundsError
from weft.launch.repeated import Repeated


@pytest.fixture
def repeated(monkeypatch: Any) -> list[bool]:
    """Whether each call that was tried was repeated."""
    done: list[bool] = []
    call = Repeated.call

    def calling(own: Repeated, arguments: tuple[Any, ...]) -> Any:
        found = call(own, arguments)
        done.append(found is not None)
        return found

    monkeypatch.setattr(Repeated, "call", calling)
    return done


def scaled(a, x, y):
    for i in wf.prange(x.shape[0]):
        y[i] = a * x[i] + y[i]
    return y.shape[0] + x[0]


def powers(n, x, y):
    y[...] = x**n


def both(x, y):
    return x + y, (x * y).sum(), x[1:]


def gathered(x, k, y):
    for i in wf.prange(k.shape[0]):
        y[i] = x[k[i]]


def like(function: Any, *arguments: Any) -> tuple[Any, list[Any]]:
    """What Python gives, and what it writes."""
    own = [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]
    return function(*own), own


def check(kernel: Any, *arguments: Any) -> None:
    expected, written = like(kernel.function, *arguments)
    given = kernel(*arguments)
    for value, wanted in zip(arguments, written, strict=True):
        np.testing.assert_array_equal(value, wanted)
    assert type(given) is type(expected)
    parts = (given, expected) if isinstance(expected, tuple) else ([given], [expected])
    for value, wanted in zip(*parts, strict=True):
        np.testing.assert_array_equal(value, wanted)


def vectors(n: int = 9, dtype: Any = "f8", seed: int = 0) -> tuple[Any, Any]:
    x, y = np.random.default_rng(seed).integers(1, 9, (2, n)).astype(dtype)
    return x.copy(), y.copy()


def warm(function: Any, *arguments: Any) -> Any:
    kernel = wf.kernel(function)
    for _ in range(2):
        check(kernel, *arguments)
    return kernel


def test_alike(repeated: list[bool]) -> None:
    kernel = warm(scaled, 2.0, *vectors())
    assert not repeated
    for seed in range(3):
        check(kernel, float(seed), *vectors(seed=seed))
    assert repeated == [True] * 3


@pytest.mark.parametrize(
    "arguments",
    [
        lambda: (2.0, *vectors(10)),
        lambda: (2.0, *vectors(dtype="f4")),
        lambda: (2, *vectors()),
        lambda: (np.float64(2.0), *vectors()),
        lambda: (2.0, vectors()[0], vectors(dtype="f4")[1]),
        lambda: (2.0, np.arange(18.0)[::2], vectors()[1]),
        lambda: (2.0, vectors()[0], np.arange(18.0)[::2]),
        lambda: (2.0, vectors()[0].reshape(9, 1)[:, 0][::-1], vectors()[1]),
        lambda: (2.0, vectors()[0].astype(">f8"), vectors()[1]),
        lambda: (2.0, np.frombuffer(bytes(72)), vectors()[1]),
    ],
)
def test_others_are_looked_at(arguments: Any, repeated: list[bool]) -> None:
    kernel = warm(scaled, 2.0, *vectors())
    check(kernel, 2.0, *vectors())
    check(kernel, *arguments())
    assert repeated == [True, False]
    check(kernel, 2.0, *vectors())


def test_matrices_of_other_shapes(repeated: list[bool]) -> None:
    kernel = warm(powers, 2, *(v.reshape(3, 4) for v in vectors(12)))
    for shape in ((3, 4), (4, 3), (12,), (2, 2, 3)):
        check(kernel, 2, *(v.reshape(shape) for v in vectors(12)))
    assert repeated[:2] == [True, False]
    assert not any(repeated[1:])


def test_ints(repeated: list[bool]) -> None:
    kernel = warm(powers, 2, *vectors())
    for n in (2, 3, 2, True, 2):
        check(kernel, n, *vectors())
    assert repeated == [True, False, False] or repeated[:2] == [True, False]
    kernel = warm(powers, 1000, *vectors(1))
    del repeated[:]
    check(kernel, 1000, np.ones(1), np.ones(1))
    check(kernel, 1000, np.ones(1), np.ones(1))
    assert not repeated  # two ints of one value may be two objects


def test_arrays_that_overlap(repeated: list[bool]) -> None:
    kernel = warm(scaled, 2.0, *vectors())
    check(kernel, 2.0, *vectors())
    whole = np.arange(20.0)
    y = whole[:9]
    expected = 2.0 * whole[9:18] + y
    kernel(2.0, whole[9:18], y)  # apart
    np.testing.assert_array_equal(y, expected)
    assert repeated == [True, True]
    for k in (0, 4, 8):
        whole = np.arange(20.0)
        wanted = whole.copy()
        scaled(2.0, wanted[k : k + 9], wanted[:9])
        with pytest.warns() if k else threading.Lock():
            kernel(2.0, whole[k : k + 9], whole[:9])
        np.testing.assert_array_equal(whole, wanted)
    assert repeated[2] is False


def test_what_may_not_be_written(repeated: list[bool]) -> None:
    kernel = warm(scaled, 2.0, *vectors())
    check(kernel, 2.0, *vectors())
    x, y = vectors()
    y.flags.writeable = False
    with pytest.raises((ValueError, wf.WeftError)):
        kernel(2.0, x, y)
    np.testing.assert_array_equal(y, vectors()[1])
    assert repeated == [True, False]


def test_views_and_what_weft_gives(repeated: list[bool]) -> None:
    n = 1 << 15
    kernel = warm(scaled, 2.0, *vectors(n))
    double = wf.jit(lambda x: x * 2)
    pair = np.arange(2.0 * n)
    for x in (double(pair[:n]), double(pair)[n:], pair[n:], pair.reshape(2, n)[1]):
        check(kernel, 2.0, x, vectors(n)[1])
    assert repeated == [True] * 4


def test_mapped_files(tmp_path: Path, repeated: list[bool]) -> None:
    kernel = warm(scaled, 2.0, *vectors())
    check(kernel, 2.0, *vectors())
    np.save(tmp_path / "x.npy", vectors()[0])
    mapped = np.load(tmp_path / "x.npy", "r+")
    for x in (mapped, np.asarray(mapped), np.asarray(mapped)[:]):
        check(kernel, 2.0, x, vectors()[1])
    assert repeated[0]
    assert not any(repeated[1:])


def test_results(repeated: list[bool]) -> None:
    kernel = warm(both, *vectors())
    x, y = vectors()
    first, _, _ = kernel(x, y)
    kept = first.copy()
    second, total, rest = kernel(*vectors(seed=3))
    assert isinstance(total, np.float64)
    np.testing.assert_array_equal(first, kept)
    assert not np.shares_memory(first, second)
    np.testing.assert_array_equal(second, np.add(*vectors(seed=3)))
    np.testing.assert_array_equal(rest, vectors(seed=3)[0][1:])


def test_float32_numbers(repeated: list[bool]) -> None:
    def times(a: wf.f32, x: wf.f32[:]):
        x *= a

    kernel = wf.kernel(times)
    for a in (2.0, 0.1, 0.1, -0.0):
        x = np.float32([1, 3, 5])
        kernel(a, x)
        np.testing.assert_array_equal(x, np.float32([1, 3, 5]) * np.float32(a))
    assert any(repeated)


@pytest.mark.parametrize("kind", [float, np.float64, np.float32])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_numbers_of_numpy(kind: Any, dtype: str, repeated: list[bool]) -> None:
    kernel = warm(scaled, kind(2), *vectors(dtype=dtype))
    for a in (0.1, 3, -0.0, np.inf):
        check(kernel, kind(a), *vectors(dtype=dtype))
    assert repeated == [True] * 4
    check(kernel, {float: np.float32}.get(kind, float)(0.5), *vectors(dtype=dtype))
    assert repeated[-1] is False


def product(a, b, c, alpha, beta):
    for i in wf.prange(c.shape[0]):
        for j in range(c.shape[1]):
            c[i, j] *= beta
            for k in range(a.shape[1]):
                c[i, j] += alpha * a[i, k] * b[k, j]


@pytest.mark.parametrize("kind", [float, np.float64])
def test_factors_of_products(kind: Any, repeated: list[bool]) -> None:
    n = 40
    a, b = np.random.default_rng(3).integers(-4, 5, (2, n, n)).astype("f8")
    kernel = wf.kernel(product)
    for alpha, beta in ((2, 3), (2, 3), (0.5, -1), (1, 1), (0, 2), (3, 0), (2, 0.25)):
        c = np.ones((n, n))
        kernel(a, b, c, kind(alpha), kind(beta))
        np.testing.assert_array_equal(c, alpha * (a @ b) + beta)
        if alpha == 0:
            a[0, 0] = np.nan  # which zeros do not take away
            c = np.ones((n, n))
            kernel(a, b, c, kind(0), kind(1))
            assert np.isnan(c[0]).all()
            a[0, 0] = 1
    assert True in repeated
    assert False in repeated


def test_nothing_is_kept_of_a_call(repeated: list[bool]) -> None:
    """Arrays may be large, and kernels stay."""
    kernel = wf.kernel(scaled)
    added = wf.jit(lambda x, y: x + y)
    for seed in range(3):
        arrays = vectors(seed=seed)
        kernel(2.0, *arrays)
        out = np.empty(9)
        added(*arrays)
        added(*arrays, out=out)
        known = [weakref.ref(array) for array in (*arrays, out)]
        del arrays, out
        gc.collect()
        assert [ref() for ref in known] == [None] * 3
    assert True in repeated


def test_failures(repeated: list[bool]) -> None:
    x, y = vectors()
    kernel = warm(gathered, x, np.array([1, 2]), y[:2].copy())
    check(kernel, x, np.array([8, -9]), y[:2].copy())
    for bad in ([0, 9], [-10, 0]):
        with pytest.raises(OutOfBoundsError, match="x"):
            kernel(x, np.array(bad), y[:2].copy())
    check(kernel, x, np.array([8, -9]), y[:2].copy())
    assert repeated[0] is True
    assert repeated[-1] is True


def test_settings(repeated: list[bool]) -> None:
    kernel = warm(scaled, 2.0, *vectors())
    with wf.config(threads=1):
        check(kernel, 2.0, *vectors())
    check(kernel, 2.0, *vectors())
    with wf.profile():
        check(kernel, 2.0, *vectors())
    assert True in repeated
    assert repeated[-1] is False


def test_threads(repeated: list[bool]) -> None:
    kernel = warm(scaled, 2.0, *vectors(1000))
    failures: list[BaseException] = []

    def many(seed: int) -> None:
        try:
            for k in range(200):
                check(kernel, float(k), *vectors(1000, seed=seed))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=many, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert repeated.count(True) > 700
