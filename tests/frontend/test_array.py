"""The lazy array: operators, indexing, updates, interchange with NumPy."""

from __future__ import annotations

import operator
import pickle
from typing import Any

import numpy as np
import pytest
from frontend.agree import same
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import weft as wf
from weft.errors import (
    ArgumentTypeError,
    DTypeError,
    ImplicitComputeError,
    OutOfBoundsError,
    ShapeError,
    TracingError,
)

X = np.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "operation",
    [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
     operator.pow, operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["int32", "float32", "float64", "uint8"])
def test_operators_are_numpys(operation: Any, dtype: str) -> None:
    a = np.arange(1, 7).astype(dtype).reshape(2, 3)
    b = np.arange(3, 0, -1).astype(dtype)
    same(operation(wf.asarray(a), b), operation(a, b))
    same(operation(a, wf.asarray(b)), operation(a, b))
    same(operation(wf.asarray(a), 2), operation(a, 2))
    same(operation(2, wf.asarray(a)), operation(2, a))


def test_python_scalars_are_weak() -> None:
    a = wf.asarray(np.ones(3, np.float32))
    assert (a + 1).dtype == np.float32
    assert (a * 2.5).dtype == np.float32
    assert (a + 1j).dtype == np.complex64
    assert (wf.asarray(np.ones(3, np.int8)) * 2.5).dtype == np.float64
    with pytest.raises(OverflowError):
        wf.asarray(np.ones(3, np.uint8)) + 300


KEYS: list[Any] = [
    0, -1, (1, 2), (slice(None), 1), (..., 2), (None, 0), slice(None, None, -1),
    (slice(1, None), slice(None, None, 2)), (0, slice(3, 0, -2), None, ...),
    (slice(5, 9),), (slice(-1, None), slice(0, -1)), np.array([1, 0, 1]),
    (slice(None), np.array([[0, 2], [1, 1]])), (np.array([0, 1]), 1, np.array([3, -1])),
    (np.array([0, 1]), slice(None), np.array([3, 0])), (0, np.array([2, 0]), slice(1, 3)),
    X[:, 0, 0] > 5, X > 7, (slice(None), np.array([True, False, True])),
    True, False, (0, True), (True, 0), (..., np.True_), (slice(None), False), (False, None, 1),
    (None, True, 0, np.array(True)), (np.array([0, 1]), True), (slice(1, 2), np.array(False), 2),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_indexing_is_numpys(key: Any) -> None:
    same(wf.asarray(X)[key], X[key])


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_updates_are_numpys(key: Any) -> None:
    expected = X.copy()
    expected[key] = -5
    x = wf.asarray(X)
    x[key] = -5
    same(x, expected)
    values = np.arange(X[key].size).reshape(X[key].shape)
    expected = X.copy()
    expected[key] = values
    x = wf.asarray(X)
    x[key] = values
    same(x, expected)
    assert X[0, 0, 1] == 1  # never the source


def test_indices_outside_are_errors() -> None:
    x = wf.asarray(X)
    with pytest.raises(OutOfBoundsError, match="index 2 is out of bounds for axis 0 with size 2"):
        x[2]
    with pytest.raises(IndexError):
        x[0, 0, 0, 0]
    with pytest.raises(IndexError):
        x[np.array([0, 5])].numpy()
    with pytest.raises(IndexError):
        x[1.5]  # type: ignore[index]


@given(st.data())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_any_basic_key(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=6))
    a = np.arange(np.prod(shape)).reshape(shape)
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    same(wf.asarray(a)[key], a[key])


def test_an_array_rebinds_itself_alone() -> None:
    source = np.zeros(4)
    x = wf.asarray(source)
    y = x[1:]
    x[0] = 7
    x += 1
    same(x, np.array([8.0, 1, 1, 1]))
    same(y, np.zeros(3))
    assert not source.any()
    z = wf.asarray(np.ones(2, int))
    with pytest.raises(DTypeError):
        z += 0.5
    with pytest.raises(ShapeError):
        x += np.ones((2, 4))


def test_what_a_traced_function_has_written_outside_of_it_says_so() -> None:
    x = wf.asarray(np.zeros(4))

    @wf.jit
    def changed(by: Any) -> Any:
        x[0] = by
        return x[0] + by

    assert changed(2.0) == 4
    with pytest.raises(TracingError, match="has written to it"):
        x.numpy()


def test_what_is_as_it_was_is_a_copy() -> None:
    x = wf.asarray(np.arange(3))
    for same_values in (np.round(x, 1), np.nan_to_num(x), np.block(x)):
        same_values += 1
    same(x, np.arange(3))


def test_at_combines_equal_indices() -> None:
    x = wf.asarray(np.zeros(4))
    where = np.array([1, 1, 3])
    same(x.at[where].add(2.0), np.array([0.0, 4, 0, 2]))
    same(x.at[where].set([1.0, 2, 3]), np.array([0.0, 2, 0, 3]))
    same(x.at[1:3].max(5), np.array([0.0, 5, 5, 0]))
    same((x + 2).at[-1].multiply(3), np.array([2.0, 2, 2, 6]))


def test_a_source_is_read_when_it_is_run() -> None:
    data = np.ones(3)
    lazy, snapshot = wf.asarray(data), wf.asarray(data, copy=True)
    data[0] = 5
    same(lazy + 0, np.array([5.0, 1, 1]))
    same(snapshot + 0, np.ones(3))


def test_results_are_nobody_elses() -> None:
    data = np.ones((2, 3))
    result = wf.asarray(data).numpy()
    result[...] = 0
    view = wf.asarray(data).T.numpy()
    view[...] = 0
    assert data.all()


def test_values_for_python() -> None:
    one = wf.asarray(np.array([3]))
    assert bool(one)
    assert int(one) == 3
    assert float(wf.asarray(2.5)) == 2.5
    assert complex(wf.asarray(1j)) == 1j
    assert [10, 20, 30][wf.asarray(1)] == 20
    assert len(wf.asarray(X)) == 2
    assert [float(row.sum()) for row in wf.asarray(X[0])] == list(X[0].sum(axis=1))
    with pytest.raises(ValueError, match="shape"):
        bool(wf.asarray(X))
    with pytest.raises(TypeError):
        float(wf.asarray(X))
    with pytest.raises(ArgumentTypeError):
        operator.index(wf.asarray(1.5))


def test_formatting_is_numpys() -> None:
    x = wf.asarray(np.array([1.5, 2.25]))
    assert f"{x.sum():.2f}" == "3.75"
    assert f"{x}" == str(x)
    with pytest.raises(TypeError):
        f"{x:.2f}"


def test_corrections_by_both_names() -> None:
    x = np.array([1.0, 2.0, 4.0])
    for names in ({"ddof": 1}, {"correction": 1}):
        np.testing.assert_allclose(wf.asarray(x).std(**names).numpy(), x.std(ddof=1))
        np.testing.assert_allclose(wf.asarray(x).var(**names).numpy(), x.var(ddof=1))


def test_showing_never_computes() -> None:
    x = wf.asarray(X)
    with wf.config(implicit_compute="raise"):
        assert repr(x) == "weft.Array(shape=(2, 3, 4), dtype=float64, from memory)"
        assert "float64" in (x + 1)._repr_html_()
        assert len(x + 1) == 2
        with pytest.raises(ImplicitComputeError):
            np.asarray(x + 1)
        with pytest.raises(ImplicitComputeError):
            bool(x.sum())
    with wf.config(implicit_compute="warn"), pytest.warns(UserWarning, match="computes"):
        bool(x.sum())


def test_numpys_functions_stay_lazy() -> None:
    x = wf.asarray(X)
    for lazy, expected in [
        (np.sum(x, axis=0), X.sum(axis=0)),
        (np.mean(x, axis=(0, 1)), X.mean(axis=(0, 1))),
        (np.sin(x), np.sin(X)),
        (X + x, X + X),
        (np.float64(2) * x, 2 * X),
        (np.concatenate([x, x], axis=1), np.concatenate([X, X], axis=1)),
        (np.where(x > 3, x, 0), np.where(X > 3, X, 0)),
        (np.std(x, axis=0, ddof=1), X.std(axis=0, ddof=1)),
        (np.add.reduce(x), np.add.reduce(X)),
        (np.transpose(x), X.T),
        (np.nanmax(x), np.nanmax(X)),
        (np.cumsum(x, axis=1), np.cumsum(X, axis=1)),
        (np.stack([x, X]), np.stack([X, X])),
        (np.clip(x, 2, 5), np.clip(X, 2, 5)),
        (np.take(x, np.array([3, 1]), axis=2), np.take(X, [3, 1], axis=2)),
        (np.matmul(x, x.mT), X @ X.swapaxes(1, 2)),
    ]:
        assert isinstance(lazy, wf.Array)
        same(lazy, expected)
    assert isinstance(np.trim_zeros(x[0, 0]), np.ndarray)  # what Weft does not have is computed


def test_pickling_and_dlpack() -> None:
    x = wf.asarray(X) + 1
    same(pickle.loads(pickle.dumps(x)), X + 1)
    np.testing.assert_array_equal(np.from_dlpack(x), X + 1)
    same(wf.from_dlpack(X), X)


def test_persist_computes_once() -> None:
    data = np.ones(3)
    kept = (wf.asarray(data) * 2).persist()
    data[0] = 100
    same(kept + 1, np.full(3, 3.0))


def test_dtypes_that_are_not_there() -> None:
    with pytest.raises(DTypeError, match="float16"):
        wf.asarray(np.ones(3, np.float16))
    with pytest.raises(TypeError):
        wf.asarray(np.array(["a"]))
    with pytest.raises(TypeError):
        wf.asarray(np.ones(3)) & wf.asarray(np.ones(3))
    with pytest.raises(ShapeError, match=r"\(2, 3, 4\) and \(3,\)"):
        wf.asarray(X) + np.ones(3)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("extent", [100, 1000])
def test_indices_from_the_end_in_any_dtype(dtype: Any, extent: int) -> None:
    """An extent that the dtype of the indices does not hold is no limit to them."""
    index = np.array([0, -1, 99, -100, 5, -100 if dtype is np.int8 else -extent], dtype)
    counts = wf.jit(lambda k: wf.zeros(extent, dtype=wf.int64).at[k].add(1))(index)
    expected = np.zeros(extent, np.int64)
    np.add.at(expected, index, 1)
    assert (np.asarray(counts) == expected).all()
    x = np.arange(extent)
    assert (np.asarray(wf.asarray(x)[index]) == x[index]).all()


def test_tuples_are_operands_as_lists_are() -> None:
    x, row = wf.asarray(X), (1, 2, 3, 4)
    same(x == row, row == X)
    same(x != row, row != X)
    same(x + row, X + row)
    same(row * x, row * X)
    same(x @ row, X @ row)
    assert x.__add__({1}) is NotImplemented


def test_divmod_is_pythons() -> None:
    same(divmod(wf.asarray(X), 3), divmod(X, 3))
    same(divmod(7, wf.asarray(X) + 1), divmod(7, X + 1))
    same(divmod(wf.asarray(X), X + 2), divmod(X, X + 2))


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int64, np.float32])
def test_elements_and_sums_are_bound_anew_in_place_as_numpys_scalars(dtype: type) -> None:
    def changed(x: Any) -> Any:
        total = x.sum()
        before, element = total, x[2]
        total += 1
        total *= 0.5
        element += 2.5
        x[1] *= 2
        x[0] += 2.5
        return before, total, element, x

    values = np.array([1, 3, 2], dtype)
    for found, wanted in zip(changed(wf.asarray(values)), changed(values.copy()), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


def test_squares_of_bools_have_numpys_dtypes() -> None:
    values = np.array([True, False])
    for power in (lambda x: x**2, lambda x: x**3, lambda x: x[0] ** 2, lambda x: np.power(x, 2)):
        found, wanted = power(wf.asarray(values)), power(values)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
