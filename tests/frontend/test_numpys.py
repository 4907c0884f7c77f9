"""NumPy's functions beyond the standard's: on lazy arrays, in traced functions, and in kernels."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from slow import every_second

import weft as wf
from weft.errors import ArgumentError, WeftError

JOINING = """
np.hstack((v, w))
np.hstack((a, a[:, :1]))
np.hstack((2.0, v))
np.vstack((v, 2 * v))
np.vstack((a, a[:1]))
np.dstack((v, v))
np.dstack((a, a))
np.column_stack((v, i))
np.column_stack((a, a[:, 0]))
np.append(v, w)
np.append(a, 3.0)
np.append(a, a, axis=1)
np.block([[a, a], [2 * a, 3 * a]])
np.block([v, w])
np.atleast_1d(v.sum())
np.atleast_2d(v * 2)
np.atleast_3d(v * 2)
np.atleast_3d(a)
np.split(np.hstack((v, v, v)), 3)
np.split(a, [1, 2], axis=1)
np.array_split(v, 3)
np.array_split(a, 2, axis=-1)
np.hsplit(a * 2, [1])
np.vsplit(a, [2, 3])
np.dsplit(a[:, :, None], 1)
np.diag(v)
np.diag(v * 2, 2)
np.diag(v, -1)
np.diag(a)
np.diag(a, 1)
np.flipud(a)
np.fliplr(2 * a)
np.rot90(a)
np.rot90(a + 1, 2)
np.rot90(a, 3)
np.rot90(a[None] * w[:, None, None], -1, (2, 0))
np.meshgrid(a, v)
np.diagonal(a, 1)
np.diagonal(a[None] * w[:, None, None], axis1=2, axis2=1)
np.trace(a)
np.trace(a, 1)
np.trace(a[None] * w[:, None, None], axis1=1, axis2=2)
np.lib.stride_tricks.sliding_window_view(v, 2)
np.lib.stride_tricks.sliding_window_view(a, (2, 2))
np.lib.stride_tricks.sliding_window_view(a, 2, axis=1).sum(axis=-1)
"""
COMPARING = """
np.isclose(v, v + 1e-9)
np.isclose(v, np.where(v > 0.5, np.inf, v))
np.isclose(i, i + (i > 2))
np.isclose(np.where(v > 0.5, np.nan, v), np.where(v > 0.5, np.nan, v), equal_nan=True)
np.allclose(a, a + 1e-12)
np.allclose(a, a + 1.0, rtol=0.0, atol=0.5)
np.array_equal(a, a)
np.array_equal(v, w)
np.array_equal(a, v)
np.array_equal(i, i + (i > 3))
np.select([v > 0.7, v > 0.3], [v, -v], 0.5)
np.select([i > 3, i > 1], [i, i * 10])
np.select([v > 0.7, v > 0.3], [v.astype(np.float32), 2.5])
np.select([i > 3, i > 1], [1, 2.5], 7)
np.nan_to_num(np.where(v > 0.5, np.nan, v))
np.nan_to_num(np.where(v > 0.5, np.inf, -np.inf))
np.nan_to_num(np.where(v > 0.5, np.inf, -np.inf).astype(np.float32))
np.nan_to_num(np.where(v > 0.5, np.inf, np.nan), nan=1.0, posinf=2.0)
np.nan_to_num(i)
np.where(i, v, -v)
np.where(i % 2, i, 0.5)
np.where(np.round(v), 1, 0)
"""
NUMERICS = """
np.degrees(v)
np.rad2deg(i)
np.radians(v.astype(np.float32))
np.deg2rad(v)
np.fmod(v - 0.5, 0.3)
np.fmod(i - 3, 2)
np.fmod(i.astype(np.int8) - np.int8(127) - np.int8(1), 2 - i.astype(np.int8))
np.fmod(2 - i.astype(np.int8), i.astype(np.int8) - np.int8(127) - np.int8(1))
np.fmod(i.astype(np.int8) - np.int8(127) - np.int8(1), np.float32(2.5))
np.fmod(-v, np.float32(0.25))
np.fmod(v.astype(np.float32), 0.25)
np.divmod(i - 3, 2)
np.divmod(v - 0.5, 0.25)
np.modf(5 * v - 2)
np.fix(5 * v - 2)
np.heaviside(v - v[0], 0.5)
np.heaviside((v - v[0]).astype(np.float32), 0.5)
np.heaviside(i - 2, 0.5)
np.heaviside((i - 2).astype(np.int16), v.astype(np.float32))
np.heaviside(v.astype(np.float32), v)
np.float_power(i, -1)
np.float_power(v.astype(np.float32), 2)
np.fabs(1 - i)
np.rint(i)
np.round(9 * v + 1j * np.where(v > 0.5, np.inf, v), 1)
(99 * (v + 1j * v[::-1])).astype(np.complex64).round(-1)
np.sinc(5 * (v - v[0]))
np.angle(v - 0.5 + 1j * v)
np.angle(v - 0.5, deg=True)
np.ediff1d(a)
np.gradient(v)
np.gradient(v, 0.5)
np.gradient(v, edge_order=2)
np.gradient(v, np.cumsum(v + 0.1))
np.gradient(v, np.cumsum(v + 0.1), edge_order=2)
np.gradient(a)
np.gradient(a, 0.5, 2.0)
np.gradient(a, axis=1)
np.gradient(a, np.arange(a.shape[1]) ** 2.0, axis=1)
np.gradient(i)
np.gradient(a.astype(np.float32))
np.gradient(a.astype(np.float32), np.float64(0.5), 2)
np.gradient(v, i.astype(np.int8).cumsum() + np.arange(i.shape[0], dtype=np.int8), edge_order=2)
np.gradient(v, np.arange(v.shape[0], dtype=np.uint8)[::-1])
np.diff(v, prepend=0)
np.diff(a, axis=0, prepend=2.0, append=a[:1])
np.trapezoid(v)
np.trapezoid(a, axis=0)
np.trapezoid(v, dx=0.5)
np.trapezoid(v.astype(np.float32), dx=0.5)
np.trapezoid(a, dx=v[: a.shape[1] - 1])
np.trapezoid(a, np.cumsum(a[0]))
np.interp(w, np.cumsum(v), v)
np.interp(9 * a - 1, np.cumsum(v), v, left=-1.0, right=2.0)
np.interp(np.cumsum(v), np.cumsum(v), v)
np.interp(w.astype(np.float32), np.cumsum(v), i.astype(np.float32))
np.interp(4 * v, np.arange(5), np.array([0.5, np.nan, 1.0, np.inf, np.inf]))
np.interp(np.arange(5), np.arange(5), np.array([0.5, np.nan, 1.0, np.inf, 2.0]))
np.interp(np.where(v > 0.5, np.nan, v), np.arange(3.0), w[:2].sum() + np.arange(3.0))
np.interp(3 * v, np.arange(4), np.array([0.5, np.inf, 1.0, 2.0]) + 1j * np.arange(4.0))
np.convolve(v, w)
np.convolve(w, v)
np.convolve(v, w, "same")
np.convolve(w, v, mode="same")
np.convolve(v, w, "valid")
np.convolve(v, np.array([1.0, np.nan, 2.0, 1.0]))
np.convolve(np.array([1.0, np.inf, 2.0, 1.0], np.complex64), v, mode="same")
np.correlate(v, np.array([1.0, np.inf, 2.0]), "full")
np.convolve(i, i)
np.convolve(i.astype(np.uint8) * np.uint8(60), i.astype(np.int16))
np.correlate(i.astype(np.uint8), 60 * i.astype(np.uint8), "full")
np.convolve(i > 2, i < 2)
np.correlate(v, w)
np.correlate(w, v, "full")
np.correlate(v, w, "same")
np.correlate(w, v, "same")
np.correlate(v + 1j, w - 1j * w, "full")
np.correlate(i > 2, i < 2)
np.cross(a[:, :3], a[:, 1:4])
np.cross(a[:3].T, v[:3])
np.cross(a[:3], a[1:4], axis=0)
np.kron(a, a[:2, :3])
np.kron(v, w)
np.kron(v, a)
np.vdot(a, a)
np.vdot(v + 1j, v - 2j)
np.polyval(w, v)
np.polyval(i, 2)
np.polyval([1.0, 2.0, 3.0], a)
"""
BOOLEANS = """
np.dot(a > 0.8, (a > 0.8).T)
(a > 0.8) @ (a[0] > 0.5)
(a > 0.8).T @ a
np.vdot(v > 0.8, v < 0.9)
np.inner(a > 0.8, a < 0.8)
np.outer(v > 0.5, w > 0.5)
np.einsum("ij,kj->ik", a > 0.8, a > 0.8)
np.einsum("ij,ij->i", a > 0.8, a > 0.8)
np.tensordot(a > 0.8, a > 0.2, 2)
np.linalg.matrix_power(a[:4, :4] > 0.7, 3)
np.real(v > 0.5)
np.imag(v > 0.5)
np.conj(v > 0.5)
(v > 0.5).conj()
(v > 0.5).real
np.floor(v > 0.5)
np.ceil(v > 0.5)
np.trunc(v > 0.5)
"""
DISTRIBUTIONS = """
np.average(a)
np.average(a, axis=0)
np.average(v, weights=v + 1)
np.average(a, axis=1, weights=a)
np.average(a, axis=1, weights=np.arange(a.shape[1]))
np.average(a, axis=0, weights=a[:, 0])
np.average(a, axis=(1, 0), weights=a.T)
np.average(a[None] * w[:, None, None], axis=(2, 0), weights=np.multiply.outer(a[0], w))
np.average(a[None] * w[:, None, None], axis=(1,), weights=a[:, 0], keepdims=True)
np.ptp(a)
np.ptp(a, axis=1)
np.median(v)
np.median(a, axis=0)
np.median(a, axis=-1, keepdims=True)
np.median(i)
np.median(np.where(v > 0.3, np.inf, v))
np.median(np.where(v > 0.5, np.inf, v), keepdims=True)
np.median(np.where(v > 0.5, np.nan, v))
np.percentile(v, 30)
np.clip(v, a_min=0.25, a_max=0.5 * v + 0.2)
np.clip(i, 0.5, 2.5)
np.clip(i.astype(np.uint8), 1, None)
i.clip(max=1.5)
np.clip(v.astype(np.float32), np.float64(0.3), 2 * v)
np.percentile(a, 75, axis=1)
np.percentile(v, [10, 50, 100])
np.percentile(v.astype(np.float32), 40)
np.quantile(a, 0.3, axis=0)
np.quantile(a, np.array([0.0, 0.25, 1.0]), axis=1)
np.quantile(a, 0.5, keepdims=True)
np.quantile(a[None] * w[:, None, None], 0.3, axis=(2, 0))
np.percentile(a[None] * w[:, None, None], [30, 60], axis=(0, -1), keepdims=True)
np.median(a[None] * w[:, None, None], axis=(0, 1))
np.quantile(v.astype(np.float32), [0.25, 0.5])
np.percentile(v.astype(np.float32), np.float64(40))
np.histogram(v)
np.histogram(a, bins=4)
np.histogram(v, 5, (0.2, 0.7))
np.histogram(v, bins=np.array([0.0, 0.3, 0.35, 1.0]))
np.histogram(i, bins=3)
np.histogram(v, 4, weights=2 * v)
np.histogram(v, 4, density=True)
np.histogram(np.where(v > 0.5, np.nan, v), 4, (0.0, 1.0))
np.histogram(v.astype(np.float32), 7)
np.histogram(v * 0, 3)
np.digitize(v, np.array([0.2, 0.4, 0.8]))
np.digitize(v, np.array([0.8, 0.4, 0.2]), right=True)
np.digitize(i, np.array([1, 3]), True)
np.cov(a)
np.cov(a, rowvar=False)
np.cov(v, bias=True)
np.cov(v.astype(np.float32))
np.cov(a[0], a[1:])
np.cov(a, 2 * a[:, :2], rowvar=False)
np.cov(a, ddof=0)
np.cov(a, ddof=a.shape[1] + 1)
np.cov(a + 1j * a * a)
np.corrcoef(a)
np.corrcoef(a, rowvar=False)
np.corrcoef(v)
np.corrcoef(v, i)
np.mean(a.astype(np.float32), axis=0, dtype=np.float64)
np.mean(i, dtype=np.float32)
i.std(dtype=np.float32)
np.var(a.astype(np.float32), dtype=np.float64, ddof=1, keepdims=True)
np.partition(v, 1)[1]
np.partition(v, [1, -1])[-1]
np.partition(a, -2, axis=0)[-2]
np.partition(a, 0, axis=None)[0]
"""
METHODS = """
np.add.reduce(a)
np.add.reduce(a, axis=1)
np.multiply.reduce(a, axis=0)
np.maximum.reduce(v)
np.minimum.reduce(a, axis=-1, keepdims=True)
np.logical_or.reduce(v > 0.9)
np.add.accumulate(v)
np.add.accumulate(a, axis=1)
np.multiply.accumulate(v)
np.maximum.accumulate(v)
np.minimum.accumulate(a, axis=1)
np.subtract.outer(v, w)
np.sum(v, where=v > 0.5)
np.sum(a, axis=0, where=v[: a.shape[1]] > 0.5)
np.prod(i + 1, where=i > 2)
np.any(v > 0.5, where=v < 0.2)
np.all(v > 0.5, where=v > 0.5)
v * np.size(a) + np.ndim(a)
v + np.shape(a)[1]
v + np.size(a, 0)
v + np.size(a[None], (0, -1))
"""


def lines(text: str) -> list[str]:
    return text.strip().splitlines()


TEXTS = (JOINING, COMPARING, NUMERICS, BOOLEANS, DISTRIBUTIONS, METHODS)
EXPRESSIONS = [
    each for text in TEXTS for each in lines(text)
]
COMPUTED = [  # whose results' sizes follow from values, or that NumPy itself computes
    "np.bincount(i)", "np.bincount(i, minlength=9)", "np.bincount(i, v[: i.shape[0]])",
    "np.split(v, np.cumsum(np.array([1, 2])))", "np.hsplit(a, np.sort(i)[:2])",
    "np.pad(v, 2, mode='mean')", "np.pad(v, (2, 1), constant_values=(3.0, 4.0))",
    "np.pad(a, {-1: (1, 2)}, mode='edge')", "np.pad(a, {0: 1, 1: (0, 2)})",
    "np.histogram(v, 'auto')", "np.array_split(v, i[:1])", "np.split(v, np.array(v.shape[0]))",
]  # fmt: skip


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """A module with a function for each expression, which kernels can read."""
    path: Path = tmp_path_factory.mktemp("numpys") / "numpy_functions.py"
    text = [
        f"def function_{number}(a, v, w, i):\n    return {expression}\n"
        for number, expression in enumerate(EXPRESSIONS)
    ]
    path.write_text("import numpy as np\n" + "\n".join(text))
    spec = importlib.util.spec_from_file_location("numpy_functions", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def arguments(rows: int, columns: int, long: int, short: int) -> list[np.ndarray]:
    rng = np.random.default_rng(rows * long)
    return [
        rng.random((rows, columns)), rng.random(long), rng.random(short), rng.integers(0, 5, long)
    ]  # fmt: skip


SHAPES = [(5, 4, 7, 3), (4, 6, 13, 2)]


def agree(got: Any, expected: Any) -> None:
    several = isinstance(expected, tuple | list)
    assert isinstance(got, tuple | list) == several
    pairs = zip(got, expected, strict=True) if several else [(got, expected)]
    for one, other in pairs:
        found, wanted = np.asarray(one), np.asarray(other)
        assert found.dtype == wanted.dtype
        assert found.shape == wanted.shape
        exactness = 1e-6 if found.dtype.itemsize < 8 else 1e-12
        np.testing.assert_allclose(found, wanted, rtol=exactness, atol=1e-14)


@pytest.mark.parametrize("number", range(len(EXPRESSIONS)), ids=EXPRESSIONS)
@pytest.mark.parametrize("below", [1 << 60, pytest.param(0, marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore")
def test_of_arrays_as_numpy(functions: ModuleType, number: int, below: int) -> None:
    """Interpreted; compiled where there is time."""
    function: Callable[..., Any] = getattr(functions, f"function_{number}")
    with wf.config(interpret_below=below):
        for shape in SHAPES:
            given = arguments(*shape)
            agree(function(*map(wf.asarray, given)), function(*given))


@pytest.mark.parametrize("number", every_second(range(len(EXPRESSIONS))), ids=EXPRESSIONS)
@pytest.mark.filterwarnings("ignore")
def test_compiled_functions_as_numpy(functions: ModuleType, number: int) -> None:
    function: Callable[..., Any] = getattr(functions, f"function_{number}")
    kernel = wf.kernel(function)
    for shape in SHAPES:
        given = arguments(*shape)
        expected = function(*given)
        agree(kernel(*given), expected)
    agree(wf.jit(function)(*given), expected)


@pytest.mark.parametrize("expression", COMPUTED)
def test_sizes_that_values_decide_are_computed(expression: str) -> None:
    for shape in SHAPES:
        named = dict(zip("avwi", arguments(*shape), strict=True))
        lazy = {name: wf.asarray(array) for name, array in named.items()}
        agree(eval(expression, {**lazy, "np": np}), eval(expression, {**named, "np": np}))


@pytest.mark.parametrize("call", [
    lambda v: wf.hstack([]), lambda v: np.split(v, 2), lambda v: np.array_split(v, 0),
    lambda v: np.diag(v[None, None]), lambda v: wf.block([[v], v]), lambda v: wf.select([], []),
    lambda v: np.gradient(v, 1.0, 2.0), lambda v: np.gradient(v[:1]),
    lambda v: np.convolve(v, v[None]), lambda v: np.convolve(v, v, "some"),
    lambda v: np.convolve(v, v[:0]), lambda v: np.cross(v, v), lambda v: np.histogram(v, 0),
    lambda v: np.cov(v[None, None]), lambda v: np.average(v, weights=v[None]),
    lambda v: np.average(v[:, None] * v, 0, v[None]), lambda v: np.average(v, weights=v[:1]),
    lambda v: wf.sliding_window_view(v, 9), lambda v: wf.sliding_window_view(v, (2, 2)),
    lambda v: np.quantile(v[None], 0.5, axis=(0, 0)), lambda v: np.quantile(v, -0.1),
    lambda v: np.partition(v, v.shape[0]), lambda v: np.partition(v, [0, -1 - v.shape[0]]),
    lambda v: np.percentile(v, [50, 101]), lambda v: np.quantile(v, np.nan),
    lambda v: np.mean(v, dtype=np.int32), lambda v: np.cov(v, v[None, None]),
    lambda v: np.size(v, 1), lambda v: wf.pad(v, 1, mode="mean"),
    lambda v: np.pad(v, 1, mode="some"), lambda v: wf.histogram(v, "auto"),
    lambda v: np.pad(v, {1: 1}), lambda v: wf.jit(lambda x: np.pad(x, 1, "mean"))(v.numpy()),
])  # fmt: skip
def test_what_cannot_be_is_refused(call: Callable[[wf.Array], Any]) -> None:
    with pytest.raises(WeftError):
        call(wf.asarray(np.arange(7.0)))


@pytest.mark.filterwarnings("ignore")
def test_nothing_and_one() -> None:
    for expression in ("np.hstack((v, v))", "np.diag(v)", "np.array_split(v, 2)",
                       "np.kron(v, v)", "np.trapezoid(v)", "np.polyval(v, 2.0)",
                       "np.histogram(v, 3, (0.0, 1.0))", "np.vdot(v, v)", "np.histogram(v)",
                       "np.median(v)", "np.median(v[:, None] * np.ones(3), axis=0)",
                       "np.cov(v)", "np.repeat(v, [2] * len(v))",
                       "np.signbit(np.cumulative_sum(v, include_initial=True))"):  # fmt: skip
        both(expression, np.array([]))
        both(expression, np.array([0.5]))
    for expression in ("np.interp(3 * v, v, v)", "np.convolve(v, v)",
                       "np.percentile(v, 20)"):  # fmt: skip
        both(expression, np.array([0.5]))


@pytest.mark.parametrize("dtype", [np.float64, np.int16, np.uint64])
def test_many_candidates_are_searched(dtype: Any) -> None:
    """As few ones are compared with; one function serves both."""
    jitted = wf.jit(lambda x, y: wf.isin(x, y, invert=True))
    x = np.arange(40).reshape(5, 8).astype(dtype)
    for count in (0, 3, 5000):
        y = (np.arange(count) * 3 % 1000).astype(dtype)
        if dtype is np.float64:
            x[0, :3], y[:2] = (np.nan, np.inf, -0.0), np.nan
        expected = np.isin(x, y)
        agree(wf.isin(wf.asarray(x), y), expected)
        agree(jitted(x, y), ~expected)
    assert str(wf.explain(wf.isin(x, y))).count("by NumPy") == 1  # sorted


def both(expression: str, v: np.ndarray) -> None:
    """What NumPy computes is what Weft does."""
    agree(
        eval(expression, {"v": wf.asarray(v), "np": np}), eval(expression, {"v": v, "np": np})
    )


@pytest.mark.parametrize("order", ["C", "F", "A"])
@pytest.mark.parametrize("shape", [(6, 4), (4, -1), (2, 2, 6), 24, (24, 1)])
def test_orders_of_shapes(order: Any, shape: Any) -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    lazy = wf.asarray(x)
    for found in (lazy.reshape(shape, order=order), np.reshape(lazy, shape, order=order)):
        assert isinstance(found, wf.Array)
        np.testing.assert_array_equal(found, x.reshape(shape, order=order))
    for found in (lazy.ravel(order), lazy.flatten(order), np.ravel(lazy, order)):
        assert isinstance(found, wf.Array)
        np.testing.assert_array_equal(found, x.ravel(order))


def test_other_orders() -> None:
    with pytest.raises(ArgumentError, match="order='Z'"):
        wf.asarray(np.ones(3)).reshape(3, order="Z")


def test_diagonals_as_methods() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    lazy = wf.asarray(x)
    np.testing.assert_array_equal(lazy.trace(), x.trace())
    np.testing.assert_array_equal(lazy.trace(1, 1, 2), x.trace(1, 1, 2))
    np.testing.assert_array_equal(lazy.diagonal(1, 1, 2), x.diagonal(1, 1, 2))


@pytest.mark.parametrize(
    "how",
    [
        {}, {"axis": 0}, {"axis": None}, {"kind": "stable"}, {"axis": 0, "kind": "mergesort"},
        {"kind": "quicksort"}, {"stable": True},
    ],
)  # fmt: skip
def test_sorted_indices_are_those_of_numpy(how: dict[str, Any]) -> None:
    """Also of equal elements, whose order NumPy keeps where it is asked to."""
    x = np.random.default_rng(0).integers(0, 5, (7, 300))
    lazy, expected = wf.asarray(x), np.argsort(x, **how)
    for found in (np.argsort(lazy, **how), lazy.argsort(**how)):
        assert isinstance(found, wf.Array)
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(wf.argsort(lazy), np.argsort(x, kind="stable"))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero", "ignore:overflow")
def test_roots_and_reciprocals_of_complex_numbers_are_numpys_of_infinite_ones_too(
    dtype: str,
) -> None:
    ends = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan]
    z = np.array([complex(a, b) for a in ends for b in ends]).astype(dtype)

    def powers(z: Any) -> Any:
        w = z.copy()
        w **= 0.5
        return z**0.5, z**-1, w, z**-1.0

    for found in (powers(wf.asarray(z)), wf.jit(powers)(z)):
        for one, other in zip(found, powers(z), strict=True):
            np.testing.assert_allclose(np.asarray(one), other, rtol=1e-6)


BY_POSITION = """
sum(a, 0, np.float32)
prod(a, 1)
mean(a, 0)
std(a, 0)
var(a, 0, ddof=1)
max(a, 0)
min(a, 1)
any(a, 0)
all(a, 0)
argmax(a, 1)
argmin(a, 0)
count_nonzero(a, 0)
nansum(a, 0)
nanmean(a, 1)
nanvar(a, 0, ddof=1)
nanstd(a, 0)
nanmax(a, 0)
sort(a, 0)
argsort(a, 0)
flip(a, 0)
roll(a, 1, 0)
stack([a, a], 1)
repeat(a, 2, 0)
take(a, i, 1)
take_along_axis(a, np.argsort(a, 0), 0)
diff(a, 2, 0)
tensordot(a, a.T, 1)
diagonal(a, 1)
trace(a, 1)
tril(a, 1)
triu(a, -1)
round(a, 2)
round(a * 1e3, -2)
searchsorted(i, i, "right")
eye(3, 4, 1, np.float32)
zeros((2, 3), np.float32)
ones(3, np.int8)
full((2, 3), 7, np.int16)
zeros_like(a, np.float32)
full_like(a, 3, np.int32)
arange(0, 10, 2, np.float32)
linspace(0, 1)
array([1, 2], np.float32)
array([[1, 2], [3, 4]])
asarray([1, 2], np.float32)
fft.fft(a, 5, 0)
fft.rfft(a, 6)
fft.fftshift(a, 0)
fft.fftfreq(6, 0.5)
linalg.qr(a, "complete")[1]
linalg.svd(a, False)[1]
"""


@pytest.mark.parametrize("expression", BY_POSITION.split("\n")[1:-1])
def test_arguments_go_by_position_as_numpys_do(expression: str) -> None:
    data = np.random.default_rng(1).normal(size=(3, 4))
    names = {"a": data, "i": np.array([0, 1, 3]), "np": np}
    expected = eval(f"np.{expression}", names)
    given = eval(f"wf.{expression}", names | {"wf": wf})
    assert given.dtype == expected.dtype
    np.testing.assert_allclose(np.asarray(given), expected, rtol=1e-6, atol=1e-12)


def test_arrays_have_copies_of_their_data() -> None:
    data = np.arange(3.0)
    copy, over = wf.array(data), wf.asarray(data)
    data[0] = 5.0
    assert copy[0] == 0.0
    assert over[0] == 5.0
