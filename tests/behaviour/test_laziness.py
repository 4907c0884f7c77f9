"""What computes and what does not; what belongs to whom."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import ImplicitComputeError, UnsupportedError


class Untouchable:
    """An array whose values nobody may ask for."""

    shape, dtype = (40, 50), np.dtype("f8")

    def __getitem__(self, box: Any) -> Any:
        raise AssertionError("the data was read")


class Counting:
    """An array that counts how much of it is read."""

    def __init__(self, array: Any) -> None:
        self.array, self.shape, self.dtype, self.read = array, array.shape, array.dtype, 0

    def __getitem__(self, box: Any) -> Any:
        part = self.array[box]
        self.read += part.size
        return part


# ---------------------------------------------------------------- laziness


def test_nothing_is_read_before_a_value_is_asked_for() -> None:
    x = wf.open(Untouchable())
    y = (np.sin(x) + np.ones(50)).sum(axis=0)
    z = wf.matmul(x, x.T)[3:, ::-2].at[0].set(1.0)
    w = wf.map(lambda row: wf.cumulative_sum(row)[::-1], x)
    for lazy in (x, y, z, w, wf.cumulative_sum(x, axis=1), x.mean(), np.nansum(x)):
        assert isinstance(lazy, wf.Array)
        assert "weft.Array" in repr(lazy)
        assert str(lazy.shape) in lazy._repr_html_()
        assert lazy.nbytes == lazy.size * lazy.dtype.itemsize
        dir(lazy)
        copy.copy(lazy)
        copy.deepcopy(lazy)
    assert (len(x), x.shape, y.shape, z.shape) == (40, (40, 50), (50,), (37, 20))
    assert isinstance(x.dtype, np.dtype)
    wf.explain(y)
    with pytest.raises(wf.WeftError):
        y.numpy()


ASKS: list[Callable[[Any], Any]] = [
    lambda x: bool(x.any()),
    lambda x: float(x.sum()),
    lambda x: int(x.sum()),
    lambda x: complex(x.sum()),
    lambda x: np.asarray(x),
    lambda x: x.tolist(),
    lambda x: x.sum().item(),
    lambda x: [0, 1][(x.sum() > 0).astype("int64")],
    lambda x: x[x > 0].shape,
    lambda x: 2.0 in x,
    lambda x: np.from_dlpack(x),
]


@pytest.mark.parametrize("ask", ASKS)
def test_implicit_computing(ask: Callable[[Any], Any]) -> None:
    x = wf.asarray(np.array([1.0, 2.0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ask(x)
    with wf.config(implicit_compute="warn"), pytest.warns(UserWarning, match="lazy"):
        ask(x)
    with wf.config(implicit_compute="raise"):
        with pytest.raises(ImplicitComputeError) as caught:
            ask(x)
        np.testing.assert_array_equal((x + 1).numpy(), [2.0, 3.0])
        np.testing.assert_array_equal(wf.compute(x + 1), [2.0, 3.0])
    assert caught.value.place is not None
    assert caught.value.place.file == __file__


def test_several_results_read_their_source_once(tmp_path: Path) -> None:
    source = Counting(np.random.default_rng(0).random((64, 1000)))
    x = wf.open(source)
    with wf.config(interpret_below=0):
        values = wf.compute(x.sum(axis=0), x.sum(axis=1), x.max(), x.mean())
    assert source.read == source.array.size
    np.testing.assert_allclose(values[0], source.array.sum(axis=0))
    source.read = 0
    wf.store([x + 1, x.sum(axis=1)], [tmp_path / "a.npy", tmp_path / "b.npy"])
    assert source.read == source.array.size


def test_persist_computes_once() -> None:
    source = Counting(np.random.default_rng(0).random((64, 100)))
    kept = (wf.open(source) * 2).persist()
    assert source.read == source.array.size
    np.testing.assert_array_equal((kept + 1).numpy(), source.array * 2 + 1)
    np.testing.assert_array_equal(kept[3].numpy(), source.array[3] * 2)
    assert source.read == source.array.size


# ---------------------------------------------------------------- NumPy in, NumPy out


def test_calls_give_what_they_are_given() -> None:
    double = wf.jit(lambda x, y: (x * 2, {"y": [y + 1, y]}))
    a = np.arange(3.0)
    first, rest = double(a, a)
    assert type(first) is np.ndarray
    assert type(rest["y"][0]) is np.ndarray
    first, rest = double(wf.asarray(a), a)
    assert isinstance(first, wf.Array)
    assert isinstance(rest["y"][1], wf.Array)
    total = wf.jit(lambda x: x.sum())(a)
    assert total == 3.0
    assert isinstance(total, np.ndarray | np.generic)


def test_numpy_stays_lazy() -> None:
    x = wf.open(Untouchable())
    for result in (
        np.add(x, 1), np.ones((40, 50)) + x, np.ones(50) @ x.T, np.concatenate([x, x]),
        np.sum(x, axis=0), np.where(x > 0, x, 0), np.nanmean(x), np.float64(3) * x,
        np.stack([x, x]), np.moveaxis(x, 0, 1), np.clip(x, 0, 1),
    ):  # fmt: skip
        assert isinstance(result, wf.Array)


# ---------------------------------------------------------------- ownership

VIEWS: list[Callable[[Any], Any]] = [
    lambda x: x,
    lambda x: x.T,
    lambda x: x[::2],
    lambda x: x[:, ::-1],
    lambda x: x[0],
    lambda x: x.reshape((-1,)),
    lambda x: wf.broadcast_to(x, (2, *x.shape)),
    lambda x: wf.expand_dims(x, axis=0),
    lambda x: +x,
    lambda x: x.astype(x.dtype),
    lambda x: x.real,
]


@pytest.mark.parametrize("below", [0, 1 << 40], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("way", ["compute", "jit", "mixed"])
@pytest.mark.parametrize("view", VIEWS)
def test_results_alias_nothing(view: Callable[[Any], Any], way: str, below: int) -> None:
    a = np.arange(12.0).reshape(3, 4)
    before = a.copy()
    with wf.config(interpret_below=below):
        if way == "compute":
            x = wf.asarray(a)
            results = wf.compute(view(x), view(x), x)
        elif way == "jit":
            results = wf.jit(lambda x: (view(x), view(x), x))(a)
        else:
            results = wf.jit(lambda x: (view(x + 0), view(x), x + 0, view(x)))(a)
    for k, result in enumerate(results):
        assert not np.shares_memory(result, a)
        assert all(not np.shares_memory(result, other) for other in results[k + 1 :])
        assert result.flags.writeable
        result[...] = -1
    np.testing.assert_array_equal(a, before)


def test_a_lazy_array_reads_its_source_when_it_runs() -> None:
    a = np.zeros(3)
    live, snapshot = wf.asarray(a), wf.asarray(a, copy=True)
    a[:] = 5
    np.testing.assert_array_equal(live.numpy(), [5, 5, 5])
    np.testing.assert_array_equal(snapshot.numpy(), [0, 0, 0])


def test_assignment_rebinds_one_array() -> None:
    a = np.zeros((3, 4))
    x = wf.asarray(a)
    same, row, copied = x, x[1], x.copy()
    x[1, ::2] = 7
    x[2] += 1
    assert not a.any()
    assert not row.numpy().any()
    assert not copied.numpy().any()
    assert same is x
    np.testing.assert_array_equal(x.numpy(), [[0] * 4, [7, 0, 7, 0], [1] * 4])
    y = x
    y += 1
    assert y is x
    z = x[0]
    z *= 10
    assert x.numpy()[0].tolist() == [1, 1, 1, 1]
    assert not a.any()


def test_assignment_in_a_compiled_function_leaves_the_argument() -> None:
    @wf.jit
    def f(x: Any) -> Any:
        x[0] = 9
        return x

    a = np.zeros(3)
    np.testing.assert_array_equal(f(a), [9, 0, 0])
    assert not a.any()


def test_out_is_written_and_given_back() -> None:
    double = wf.jit(lambda x: (x * 2, x.sum()))
    a, out = np.arange(5.0), (np.zeros(5), np.zeros(()))
    results = double(a, out=out)
    assert results[0] is out[0]
    assert results[1] is out[1]
    np.testing.assert_array_equal(out[0], a * 2)
    assert out[1] == 10
    strided = np.zeros(10)
    wf.jit(lambda x: x + 1)(a, out=strided[::2])
    np.testing.assert_array_equal(strided, [1, 0, 2, 0, 3, 0, 4, 0, 5, 0])


@pytest.mark.parametrize("function", [
    lambda x: x * 2, lambda x: x[::-1], lambda x: wf.roll(x, 1) + x, lambda x: wf.cumulative_sum(x),
])  # fmt: skip
def test_out_may_be_the_argument(function: Callable[[Any], Any]) -> None:
    a = np.arange(5000.0)
    expected = wf.jit(function)(a)
    overlapping = np.concatenate([a, [0.0]])
    wf.jit(function)(a, out=a)
    np.testing.assert_array_equal(a, expected)
    wf.jit(function)(overlapping[:-1], out=overlapping[1:])
    np.testing.assert_array_equal(overlapping[1:], expected)


# ---------------------------------------------------------------- pickles


def scaled(x: Any, factor: float) -> Any:
    return x * factor


compiled_scaled = wf.jit(scaled)


def test_arrays_over_files_pickle(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(1000.0))
    x = wf.open(tmp_path / "a.npy")
    data = pickle.dumps(x)
    assert len(data) < 1000
    again = pickle.loads(data)
    np.testing.assert_array_equal(again.numpy(), np.arange(1000.0))
    assert "a.npy" in repr(again)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(x * 2)).numpy(), np.arange(1000.0) * 2)


def test_compiled_functions_pickle() -> None:
    again = pickle.loads(pickle.dumps(compiled_scaled))
    np.testing.assert_array_equal(again(np.ones(3), 2.5), [2.5] * 3)


def test_errors_pickle() -> None:
    with pytest.raises(wf.WeftError) as caught:
        wf.asarray(np.zeros(3)) + np.zeros(4)
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value)
    assert str(again) == str(caught.value)


def test_lazy_results_are_written_into_numpys_arrays() -> None:
    a = np.arange(4.0)
    a += wf.asarray(a) * 2  # the lazy operand is computed before anything is written
    np.testing.assert_array_equal(a, [0, 3, 6, 9])
    out = np.zeros((2, 4), np.float32)
    assert np.multiply(wf.ones((2, 4)), a, out=out) is out
    np.testing.assert_array_equal(out, [a, a])
    with pytest.raises(TypeError, match="Cannot cast"):
        np.add(wf.ones(4), 1, out=np.zeros(4, np.int64))
    with pytest.raises(ValueError, match="could not broadcast"):
        np.add(wf.ones(4), 1, out=np.zeros(3))
    lazy = wf.zeros(4)
    with pytest.raises(UnsupportedError, match="expected: a NumPy array"):
        np.add(a, 1, out=lazy)
