"""The functions of the namespace against NumPy's."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from frontend.agree import same
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import weft as wf
from weft.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError

rng = np.random.default_rng(0)
X = rng.normal(size=(3, 4, 5))
NAN = X.copy()
NAN[0, 1, 2] = NAN[2, :, 0] = np.nan
NAN[1, 1, 1] = np.inf

REDUCTIONS = ["sum", "prod", "mean", "std", "var", "max", "min", "any", "all"]
NAN_REDUCTIONS = ["nansum", "nanprod", "nanmean", "nanstd", "nanvar", "nanmax", "nanmin"]
AXES: list[Any] = [None, 0, 1, -1, (0, 2), ()]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [3, 3000], ids=["interpreted", "compiled"])
def test_fma_rounds_once(dtype: Any, count: int) -> None:
    tiny = 2.0 ** -(np.finfo(dtype).nmant // 2 + 2)
    a, b = np.full(count, 1 + tiny, dtype), np.full(count, 1 - tiny, dtype)
    assert not np.asarray(wf.asarray(a) * b - 1).any()
    found = np.asarray(wf.fma(a, b, -1))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.full(count, -tiny * tiny, dtype))


def test_fma_takes_floats() -> None:
    same(wf.fma(np.arange(3), 2, np.ones((2, 1))), np.broadcast_to([1.0, 3.0, 5.0], (2, 3)))
    with pytest.raises(DTypeError):
        wf.fma(X + 1j, X, X)


@pytest.mark.parametrize("name", [*REDUCTIONS, *NAN_REDUCTIONS])
@pytest.mark.parametrize("axis", AXES, ids=str)
def test_reductions(name: str, axis: Any) -> None:
    ours, theirs = getattr(wf, name), getattr(np, name)
    for data in (X, X.astype(np.float32), NAN):
        with np.errstate(all="ignore"):
            expected = theirs(data, axis=axis)
            kept = theirs(data, axis=axis, keepdims=True)
        same(ours(wf.asarray(data), axis=axis), expected)
        same(ours(wf.asarray(data), axis=axis, keepdims=True), kept)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "uint64", "complex64"])
def test_sums_promote_as_the_standard_says(dtype: str) -> None:
    data = np.arange(6).reshape(2, 3).astype(dtype)
    same(wf.sum(wf.asarray(data)), data.sum())
    same(wf.prod(wf.asarray(data), axis=0), data.prod(axis=0))
    same(wf.mean(wf.asarray(data), axis=1), data.mean(axis=1))
    same(wf.cumulative_sum(wf.asarray(data), axis=1), data.cumsum(axis=1))


@given(
    hnp.arrays(np.float64, hnp.array_shapes(max_dims=2, max_side=7),
               elements=st.sampled_from([0.0, -0.0, 1.0, 1.0, -2.5, np.nan, np.inf, -np.inf])),
    st.sampled_from(["argmax", "argmin", "max", "min", "nanmax"]),
)  # fmt: skip
@settings(max_examples=80, deadline=None, derandomize=True)
def test_nan_comes_first_and_so_does_the_first_of_equals(data: Any, name: str) -> None:
    with np.errstate(all="ignore"):
        for axis in (None, -1):
            same(getattr(wf, name)(wf.asarray(data), axis=axis), getattr(np, name)(data, axis=axis))


def test_nothing_has_no_maximum() -> None:
    empty = wf.asarray(np.ones((0, 3)))
    for name in ("max", "min", "argmax", "argmin"):
        with pytest.raises(ValueError, match="no elements"):
            getattr(wf, name)(empty, axis=0)
    same(wf.sum(empty, axis=0), np.zeros(3))
    same(wf.max(empty, axis=1), np.zeros(0))
    same(wf.mean(empty, axis=0), np.full(3, np.nan))
    same(wf.var(empty, axis=0), np.full(3, np.nan))


def test_variance_is_accurate_far_from_zero() -> None:
    data = (1e8 + rng.normal(size=1000)).astype(np.float64)
    same(wf.var(wf.asarray(data)), data.var(), rtol=1e-9)
    same(wf.var(wf.asarray(np.array([1e200, 1e200]))), np.array(0.0))
    complexes = rng.normal(size=9) + 1j * rng.normal(size=9)
    same(wf.var(wf.asarray(complexes)), complexes.var())


@pytest.mark.parametrize(
    ("lazy", "expected"),
    [
        (lambda x: wf.concat([x, x + 1], axis=1), lambda x: np.concatenate([x, x + 1], axis=1)),
        (lambda x: wf.concat([x, x], axis=None), lambda x: np.concatenate([x, x], axis=None)),
        (lambda x: wf.stack([x, x * 2], axis=-1), lambda x: np.stack([x, x * 2], axis=-1)),
        (lambda x: wf.roll(x, 2, axis=1), lambda x: np.roll(x, 2, axis=1)),
        (lambda x: wf.roll(x, (-1, 7), axis=(0, 2)), lambda x: np.roll(x, (-1, 7), axis=(0, 2))),
        (lambda x: wf.roll(x, 3), lambda x: np.roll(x, 3)),
        (lambda x: wf.roll(x, (1, 3)), lambda x: np.roll(x, (1, 3))),
        (lambda x: wf.roll(x, (1, -3), axis=1), lambda x: np.roll(x, (1, -3), axis=1)),
        (lambda x: wf.roll(x, np.array([2, 1]), axis=(2, 0)),
         lambda x: np.roll(x, np.array([2, 1]), axis=(2, 0))),
        (lambda x: wf.flip(x), lambda x: np.flip(x)),
        (lambda x: wf.flip(x, axis=1), lambda x: np.flip(x, axis=1)),
        (lambda x: wf.repeat(x, 3, axis=1), lambda x: np.repeat(x, 3, axis=1)),
        (lambda x: wf.repeat(x, np.array([1, 0, 2]), axis=0),
         lambda x: np.repeat(x, [1, 0, 2], axis=0)),
        (lambda x: wf.tile(x, (2, 1, 3)), lambda x: np.tile(x, (2, 1, 3))),
        (lambda x: wf.moveaxis(x, 0, -1), lambda x: np.moveaxis(x, 0, -1)),
        (lambda x: wf.reshape(x, (4, -1)), lambda x: x.reshape(4, -1)),
        (lambda x: wf.reshape(wf.permute_dims(x, (2, 0, 1)), (-1,)),
         lambda x: x.transpose(2, 0, 1).reshape(-1)),
        (lambda x: wf.expand_dims(x, axis=(0, -1)), lambda x: np.expand_dims(x, (0, -1))),
        (lambda x: wf.diff(x, axis=1, n=2), lambda x: np.diff(x, axis=1, n=2)),
        (lambda x: wf.cumulative_prod(x, axis=0), lambda x: np.cumprod(x, axis=0)),
        (lambda x: wf.sort(x, axis=1), lambda x: np.sort(x, axis=1)),
        (lambda x: wf.argsort(x, axis=0), lambda x: np.argsort(x, axis=0)),
        (lambda x: wf.tril(x, k=1), lambda x: np.tril(x, k=1)),
        (lambda x: wf.triu(x, k=-1), lambda x: np.triu(x, k=-1)),
        (lambda x: wf.take(x, np.array([2, 0]), axis=2), lambda x: np.take(x, [2, 0], axis=2)),
        (lambda x: wf.unstack(x, axis=1), lambda x: tuple(x[:, k] for k in range(4))),
        (lambda x: wf.matmul(x, wf.matrix_transpose(x)), lambda x: x @ x.swapaxes(1, 2)),
        (lambda x: wf.matmul(x, np.arange(5.0)), lambda x: x @ np.arange(5.0)),
        (lambda x: wf.matmul(np.arange(4.0), x), lambda x: np.arange(4.0) @ x),
        (lambda x: wf.tensordot(x, x, axes=2 * ((0, 2),)),
         lambda x: np.tensordot(x, x, axes=2 * ((0, 2),))),
        (lambda x: wf.vecdot(x, x, axis=-2), lambda x: (x * x).sum(axis=-2)),
        (lambda x: wf.isin(wf.round(x), [0.0, 1.0]), lambda x: np.isin(np.round(x), [0.0, 1.0])),
        (lambda x: wf.clip(x, -0.5, 0.5), lambda x: np.clip(x, -0.5, 0.5)),
        (lambda x: wf.searchsorted(np.arange(-2.0, 2), x),
         lambda x: np.searchsorted(np.arange(-2.0, 2), x)),
        (lambda x: wf.count_nonzero(x > 0, axis=0), lambda x: np.count_nonzero(x > 0, axis=0)),
        (lambda x: wf.broadcast_to(x[:, :1], (3, 6, 5)),
         lambda x: np.broadcast_to(x[:, :1], (3, 6, 5))),
        (lambda x: wf.meshgrid(x[0, 0], x[0, :, 0]), lambda x: np.meshgrid(x[0, 0], x[0, :, 0])),
        (lambda x: wf.unique_values(wf.round(x)), lambda x: np.unique(np.round(x))),
        (lambda x: wf.nonzero(x > 0), lambda x: np.nonzero(x > 0)),
        (lambda x: wf.take_along_axis(x, wf.argsort(x, axis=1), axis=1),
         lambda x: np.sort(x, axis=1)),
    ],
)  # fmt: skip
def test_functions(lazy: Any, expected: Any) -> None:
    wanted = expected(X)
    wanted = tuple(wanted) if isinstance(wanted, list) else wanted
    same(lazy(wf.asarray(X)), wanted)


def test_creation() -> None:
    same(wf.arange(3, 20, 4), np.arange(3, 20, 4))
    same(wf.arange(5.0, -2, -1.5), np.arange(5.0, -2, -1.5))
    same(wf.linspace(-1, 3, 7), np.linspace(-1, 3, 7))
    same(wf.linspace(0, 1, 5, endpoint=False), np.linspace(0, 1, 5, endpoint=False))
    ends = np.float32(0.5), np.float32(2)
    same(np.linspace(*map(wf.asarray, ends), 4), np.linspace(*ends, 4))
    same(wf.eye(3, 5, k=1, dtype=wf.int32), np.eye(3, 5, k=1, dtype=np.int32))
    same(wf.full((2, 3), 7), np.full((2, 3), 7))
    same(wf.zeros_like(wf.asarray(X)), np.zeros_like(X))
    same(wf.asarray([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]]))
    same(wf.asarray([wf.asarray(1), 2]), np.array([1, 2]))
    with pytest.raises(ArgumentError):
        wf.arange(3, step=0)
    with pytest.raises(ShapeError):
        wf.asarray([[1, 2], [3]])


@pytest.mark.parametrize("dtype", [None, np.float32, np.int64, np.complex128])
def test_ranges_are_rounded_as_numpys(dtype: Any) -> None:
    random = np.random.default_rng(1)
    for start, distance in random.normal(size=(20, 2)) * 3:
        bounds = start, start + distance, distance / 7.3
        found, wanted = wf.arange(*bounds, dtype=dtype), np.arange(*bounds, dtype=dtype)
        np.testing.assert_array_equal(found, wanted)


def test_shapes_that_do_not_fit() -> None:
    x = wf.asarray(X)
    with pytest.raises(ShapeError, match="60 elements"):
        wf.reshape(x, (7, -1))
    with pytest.raises(ShapeError):
        wf.matmul(x, x)
    with pytest.raises(ShapeError):
        wf.concat([x, x[:, :2, :3]], axis=0)
    with pytest.raises(ValueError, match="axis 3"):
        wf.sum(x, axis=3)
    with pytest.raises(ShapeError):
        wf.squeeze(x, 0)


@pytest.mark.parametrize("dtype", ["float64", "int8", "bool"])
def test_sums_of_truth_are_whether_any_is_true(dtype: str) -> None:
    data = np.array([[0.5, 0, 2], [0, 0, 0.25]]).astype(dtype)
    for name in ("sum", "prod", "nansum"):
        for axis in (None, 0, 1):
            found = getattr(wf, name)(wf.asarray(data), axis=axis, dtype="bool")
            same(found, getattr(np, name)(data, axis=axis, dtype="bool"))


@pytest.mark.parametrize("dtype", ["int16", "uint8", "int64", "float32", "float64"])
@pytest.mark.parametrize("decimals", [0, 2, -1, -2])
def test_rounding_to_decimals(dtype: str, decimals: int) -> None:
    data = np.array([15, 25, 150, 14.126, 7.5, 0]).astype(dtype)
    same(wf.asarray(data).round(decimals), data.round(decimals))
    same(np.round(wf.asarray(data), decimals), np.round(data, decimals))


Y = rng.integers(-9, 9, (3, 4, 3)).astype(float)

AS_NUMPY_IS_CALLED: dict[str, Any] = {
    "diff": lambda x: np.diff(x, 2),
    "diff along": lambda x: np.diff(x, 1, 0, prepend=x[:1]),
    "tril": lambda x: np.tril(x, 1),
    "triu": lambda x: np.triu(x, k=-1),
    "transpose": lambda x: np.transpose(x, axes=(2, 0, 1)),
    "swapaxes": lambda x: np.swapaxes(x, 0, -1),
    "cumsum": lambda x: np.cumsum(x, 1),
    "mean": lambda x: np.mean(x, 1, None, None, True),
    "var": lambda x: np.var(x, (0, 2), ddof=1),
    "clip": lambda x: np.clip(x, -3, a_max=4),
    "take": lambda x: np.take(x, [0, 5]),
    "take along": lambda x: np.take(x, [0, 2], 1, mode="raise"),
    "squeeze": lambda x: np.squeeze(x[:1]),
    "roll": lambda x: np.roll(x, 1, 0),
    "full_like": lambda x: np.full_like(x, 3, "i4"),
    "stack": lambda x: np.stack([x, x], -1),
    "concatenate": lambda x: np.concatenate((x, x), 1),
    "tensordot": lambda x: np.tensordot(x, x, ([0, 2], [0, 2])),
    "sort": lambda x: np.sort(x, None),
    "argsort": lambda x: np.argsort(x, axis=0, stable=True),
    "searchsorted": lambda x: np.searchsorted(np.arange(3.0), x, "right"),
    "count_nonzero": lambda x: np.count_nonzero(x, (0, 1)),
    "linspace": lambda x: np.linspace(x[0, 0], x[1, 1], 5),
    "repeat": lambda x: np.repeat(x, 2, -1),
    "meshgrid": lambda x: np.meshgrid(x[0, 0], x[0, 1], indexing="ij"),
    "isin": lambda x: np.isin(x, [1, 2], invert=True),
    "round": lambda x: np.round(x, decimals=1),
}


@pytest.mark.parametrize("name", AS_NUMPY_IS_CALLED)
def test_numpys_functions_take_arguments_as_numpy_does(name: str) -> None:
    function = AS_NUMPY_IS_CALLED[name]
    with wf.config(implicit_compute="raise"):
        lazy = function(wf.asarray(Y))
    same(lazy, function(Y))


@pytest.mark.parametrize(
    "function",
    [lambda x: np.mean(x, dtype="f4"), lambda x: np.sum(x, initial=3), lambda x: np.argmin(x),
     lambda x: np.take(x, [7, -9], 0, mode="wrap"), lambda x: np.ravel(x, "F"),
     lambda x: np.max(x, where=Y > 0, initial=-1), lambda x: np.std(x, dtype="f4")],
)  # fmt: skip
def test_what_weft_does_not_take_is_computed_by_numpy(function: Any) -> None:
    np.testing.assert_allclose(np.asarray(function(wf.asarray(Y))), function(Y), rtol=1e-6)


LIMITS: list[Any] = [
    (-1, 2), (-0.5, 1.5), (None, 300), (-300, None), (np.nan, 3), (-1, np.nan), (-np.inf, np.inf),
    (0.5, 100), (-2.5, 70.7), (-1e30, 1e30),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_limits_of_integers_may_be_any_numbers(dtype: str, limits: Any) -> None:
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    data = np.array([least, least + 1, 0, 1, 2, 60, 71, most - 1, most], dtype)
    expected = data.tolist()
    for limit, beyond in zip(limits, (operator.lt, operator.gt), strict=True):
        if limit is not None:
            expected = [int(limit) if beyond(v, limit) else v for v in expected]
    same(wf.clip(wf.asarray(data), *limits), np.array(expected, dtype))


def test_limits_that_are_ints_of_a_call() -> None:
    data = np.arange(256).astype("uint8")
    compiled = wf.jit(lambda x, n: wf.clip(x, -n, n))
    for n in (5, 300, 7, 256, 255):
        np.testing.assert_array_equal(compiled(data, n), np.minimum(data, min(n, 255)))


def test_nothing_and_text_are_equal_to_no_number() -> None:
    x = wf.asarray(X)
    for other in (None, "a"):
        same(x == other, np.zeros(X.shape, bool))
        same(x != other, np.ones(X.shape, bool))


UNSIGNED = np.array([2**53 + 1, 2**64 - 1, 0, 5, 2**63], "uint64")
SIGNED = np.array([2**53, 2**63 - 1, -1, 5, -(2**63)], "int64")


@pytest.mark.parametrize("name", ["less", "less_equal", "greater", "greater_equal", "equal",
                                  "not_equal"])  # fmt: skip
def test_integers_are_compared_without_rounding(name: str) -> None:
    ours, theirs = getattr(wf, name), getattr(np, name)
    signed, unsigned = wf.asarray(SIGNED), wf.asarray(UNSIGNED)
    same(ours(signed, unsigned), theirs(SIGNED, UNSIGNED))
    same(ours(unsigned, signed), theirs(UNSIGNED, SIGNED))
    same(ours(unsigned, signed[:, None].astype("int8")),
         theirs(UNSIGNED, SIGNED[:, None].astype("int8")))  # fmt: skip
    for number in (2**63, 2**64, -1, -(2**63) - 1, 2**70, 300):
        same(ours(unsigned, number), theirs(UNSIGNED, number))
        same(ours(number, signed), theirs(number, SIGNED))
        same(ours(signed.astype("int8"), number), theirs(SIGNED.astype("int8"), number))
    same(wf.isin(unsigned, signed), np.isin(UNSIGNED, SIGNED))


WRITING: list[Any] = [
    lambda x: np.fill_diagonal(x, 9), lambda x: np.copyto(x, 5.0), lambda x: np.put(x, [0], 7),
    lambda x: np.place(x, Y > 3, [1]), lambda x: np.putmask(x, Y > 3, 0),
    lambda x: np.put_along_axis(x, np.zeros((3, 4, 1), int), 9, 2),
    lambda x: np.add.at(x, [0, 0], 1), lambda x: np.add(x, x, out=x),
    lambda x: np.cumsum(x, axis=0, out=x), lambda x: np.sum(Y, axis=0, out=x[0]),
]  # fmt: skip


@pytest.mark.parametrize("write", WRITING)
def test_what_would_write_into_a_copy_is_refused(write: Any) -> None:
    with pytest.raises(UnsupportedError, match="writes into a lazy array") as refusal:
        write(wf.asarray(Y))
    assert refusal.value.place is not None
    assert refusal.value.place.file == __file__


def test_extents_that_are_equal_by_a_fact_are_not_repeated() -> None:
    x = np.arange(11.0)
    found = wf.jit(lambda a: wf.broadcast_to(wf.tile(a, (3,)), (2, 33)) + 0.0)(x)
    np.testing.assert_array_equal(found, np.broadcast_to(np.tile(x, 3), (2, 33)))
