"""`wf.jit`: patterns, guards, containers, out=, and what tracing refuses."""

from __future__ import annotations

import math
import pickle
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import ArgumentError, DTypeError, ShapeError, TracingError

rng = np.random.default_rng(2)
X = rng.normal(size=(20, 5))


@wf.jit
def normalise(x: Any) -> Any:
    return (x - x.mean(axis=0)) / x.std(axis=0)


def variants(function: Any) -> list[int]:
    return [len(found) for found in function._variants.values()]


def test_numpy_in_numpy_out_and_one_trace_for_all_sizes() -> None:
    calls = []

    @wf.jit
    def f(x: Any, y: Any) -> Any:
        calls.append(1)
        return (x + y).sum(axis=0)

    for shape in [(3, 4), (7, 2), (2, 9), (3, 4)]:
        a, b = rng.normal(size=shape), rng.normal(size=shape[1])
        result = f(a, b)
        assert type(result) is np.ndarray
        np.testing.assert_allclose(result, (a + b).sum(axis=0))
    assert len(calls) == 1
    a = rng.normal(size=(1, 4))
    np.testing.assert_allclose(f(a, a[0]), 2 * a[0])
    f(a.astype(np.float32), a[0])
    assert len(calls) == 3
    assert type(wf.jit(lambda x: x.sum())(X)) is np.float64


def test_lazy_in_lazy_out() -> None:
    lazy = normalise(wf.asarray(X))
    assert isinstance(lazy, wf.Array)
    np.testing.assert_allclose(lazy.numpy(), normalise(X))


def test_shapes_are_symbols_and_decisions_are_guards() -> None:
    @wf.jit
    def f(x: Any) -> Any:
        n = x.shape[0]
        if n % 2 == 0:
            return x.reshape(n // 2, 2).sum(axis=1) / n
        return x[: n - 1].reshape(-1, 2).sum(axis=1) / n

    for n in (8, 12, 9, 15, 8):
        a = np.arange(float(n))
        np.testing.assert_allclose(f(a), a[: n - n % 2].reshape(-1, 2).sum(axis=1) / n)
    assert variants(f) == [2]

    @wf.jit
    def g(x: Any) -> Any:
        total = 0
        for k in range(x.shape[0]):
            total = total + x[k]
        return total

    assert g(np.ones(3)) == 3
    assert g(np.ones(4)) == 4
    assert variants(g) == [2]


def test_python_arguments() -> None:
    @wf.jit
    def f(x: Any, n: int, scale: float, flag: bool) -> Any:
        return x[:n].sum() * scale + n if flag else x * scale

    a = np.arange(10.0)
    for n, scale in [(3, 2.0), (7, 0.5), (1, 1.0), (-2, 3.0)]:
        assert f(a, n, scale, True) == a[:n].sum() * scale + n
    np.testing.assert_array_equal(f(a, 3, 2.0, False), a * 2)
    assert f(a.astype(np.float32), 3, 2.5, True).dtype == np.float32  # scalars are weak
    for n in (11, 12, 13):
        assert f(a, n, 1.0, True) == a.sum() + n  # beyond the end


def test_lists_of_traced_indices() -> None:
    @wf.jit
    def ends(x: Any) -> Any:
        return x[[x.argmin(), 0, x.argmax()]]

    np.testing.assert_array_equal(ends(np.array([3.0, 1.0, 7.0])), [1.0, 3.0, 7.0])


def test_python_arguments_as_arrays() -> None:
    a = np.full(3, 1 / 3, np.float32)
    for made in (lambda s: wf.astype(s, wf.float64), wf.asarray, lambda s: wf.asarray(s + 1)):
        found = wf.jit(lambda x, s, made=made: x * made(s))(a, 0.7)
        np.testing.assert_array_equal(found, a * made(np.float64(0.7)), strict=True)


@dataclass(frozen=True)
class Factor:
    value: Any


@pytest.mark.parametrize("n", [2**63 - 1, 2**63, 2**64, 10**30, 1 - 2**63, -(2**63), -(2**70)])
def test_ints_of_any_size(n: int) -> None:
    x = np.ones(2)
    add = wf.jit(lambda x, n: (x + n, n))

    @wf.kernel
    def scale(x: Any, n: Any) -> None:
        for i in range(x.shape[0]):
            x[i] = x[i] * n

    for number in (5, n, n):
        found, given = add(x, number)
        assert np.array_equal(found, x + number)
        assert given == number
        scaled = x.copy()
        scale(scaled, number)
        assert np.array_equal(scaled, x * number)


def test_files_that_a_function_reads_itself(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    source = wf.open(tmp_path / "x.npy")
    add = wf.jit(lambda y: source[::-1] + y)

    @wf.kernel
    def accumulate(y: Any) -> None:
        for i in range(y.shape[0]):
            y[i] = y[i] + source[i]

    y = X.copy()
    for times in range(2, 5):
        accumulate(y)
        assert np.allclose(y, X * times)
        assert np.array_equal(add(y), X[::-1] + y)
    target = np.load(tmp_path / "x.npy", mmap_mode="r+")
    add(1.0, out=target)
    assert np.array_equal(np.load(tmp_path / "x.npy"), X[::-1] + 1)


def test_ordered_dictionaries_stay_what_they_are() -> None:
    def turned(given: Any) -> Any:
        given.move_to_end("a")
        return given

    found = wf.jit(turned)(OrderedDict(a=X, b=X + 1))
    assert type(found) is OrderedDict
    assert list(found) == ["b", "a"]
    assert np.array_equal(found["a"], X)


@dataclass(frozen=True)
class Pair:
    first: Any
    second: Any = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "second", self.first * 2)


def test_dataclasses_with_fields_that_are_not_given() -> None:
    pair = Pair(X)
    object.__setattr__(pair, "second", X + 1)  # not what it was made with
    found = wf.jit(lambda p: (p, p.first + p.second))(pair)
    assert np.array_equal(found[0].second, X + 1)
    assert np.array_equal(found[1], X + (X + 1))


def test_static_arguments_that_are_equal_and_not_the_same() -> None:
    x = np.arange(3)
    times = wf.jit(lambda x, p: x * p, static_argnames="p")
    over = wf.jit(lambda x, p: x / p[0], static_argnames="p")
    held = wf.jit(lambda x, p: x * p.value, static_argnames="p")
    with np.errstate(divide="ignore"):
        for p in (2, 2.0, np.float32(2), 2, True, 1, 1.0, 0.0, -0.0, 0j, -0.0):
            wanted = x * p
            for found in (times(x, p), held(x, Factor(p))):
                assert found.dtype == wanted.dtype
                assert np.array_equal(found, wanted)
                assert np.array_equal(np.signbit(found.real), np.signbit(wanted.real))
        for q in ((0.0,), (-0.0,)):
            assert np.array_equal(over(np.ones(2), q), np.ones(2) / q[0])


def test_static_arguments_of_any_number() -> None:
    add = wf.jit(lambda *xs: sum(xs), static_argnames="xs")
    assert [add(1, 2, 3), add(1.5, 2), add()] == [6, 3.5, 0]
    scaled = wf.jit(lambda x, *powers: [x**p for p in powers], static_argnames="powers")
    assert np.allclose(scaled(X, 2, 3), [X**2, X**3])
    assert len(scaled(X)) == 0


def test_static_arguments_and_keywords() -> None:
    @wf.jit(static_argnames="mode")
    def f(x: Any, *, mode: str = "double", y: Any = 1) -> Any:
        return x * 2 + y if mode == "double" else x - y

    np.testing.assert_array_equal(f(X), X * 2 + 1)
    np.testing.assert_array_equal(f(X, mode="minus", y=3), X - 3)
    with pytest.raises(ArgumentError, match="static_argnames"):
        wf.jit(lambda x: x, static_argnames="nothing")
    with pytest.raises(TypeError, match="hashable"):
        f(X, mode=[])


def test_containers_nest() -> None:
    Pair = namedtuple("Pair", "left right")

    @wf.jit
    def f(state: Any) -> Any:
        return {"a": [state["p"].left + 1, "text"], "n": Pair(state["p"].right.sum(), 7)}

    found = f({"p": Pair(X, X[0])})
    np.testing.assert_array_equal(found["a"][0], X + 1)
    assert found["a"][1] == "text"
    assert found["n"].right == 7
    assert found["n"].left == pytest.approx(X[0].sum())


def test_out() -> None:
    out = np.empty_like(X)
    assert normalise(X, out=out) is out
    np.testing.assert_allclose(out, normalise(X))
    with pytest.raises(DTypeError):
        normalise(X, out=out.astype(np.float32))
    with pytest.raises(ShapeError, match="shape"):
        normalise(X, out=np.empty((3, 3)))
    # An output that is also an input.
    a = X.copy()
    wf.jit(lambda x: x[::-1] + 1)(a, out=a)
    np.testing.assert_array_equal(a, X[::-1] + 1)
    out.flags.writeable = False
    with pytest.raises(ArgumentError, match="read-only"):
        normalise(X, out=out)


def test_results_share_memory_with_nothing() -> None:
    a = X.copy()
    same, view, twice = wf.jit(lambda x: (x, x.T, x))(a)
    same[0, 0] = view[1, 1] = 99
    assert a[0, 0] == X[0, 0]
    assert a[1, 1] == X[1, 1]
    assert twice[0, 0] == X[0, 0]


def test_any_strides_and_readonly_inputs() -> None:
    for a in (X[::2], X[:, ::-1], X.T, np.asfortranarray(X), np.broadcast_to(X[0], (4, 5))):
        np.testing.assert_allclose(normalise(a + 0), normalise(a), equal_nan=True)


def test_captured_arrays() -> None:
    weights = wf.asarray(np.arange(5.0))
    f = wf.jit(lambda x: x * weights + np.ones(5))
    np.testing.assert_allclose(f(X), X * np.arange(5.0) + 1)


def test_nested_jit_and_methods() -> None:
    class Model:
        scale = 2.0

        @wf.jit
        def apply(self, x: Any) -> Any:
            return normalise(x) * self.scale

    np.testing.assert_allclose(Model().apply(X), normalise(X) * 2)
    assert pickle.loads(pickle.dumps(normalise))(X).shape == X.shape


def test_branching_on_a_traced_array_says_where_and_what_to_write() -> None:
    @wf.jit
    def f(x: Any) -> Any:
        if x.sum() > 0:
            return x
        return -x

    with pytest.raises(TracingError) as error:
        f(X)
    text = str(error.value)
    assert "if x.sum() > 0" in text
    assert "wf.where" in text
    assert "test_jit.py" in text
    with pytest.raises(TracingError):
        wf.jit(lambda x: x[x > 0])(X)
    with pytest.raises(TracingError):
        wf.jit(lambda x: float(x[0, 0]))(X)


def test_shapes_that_do_not_fit_name_the_line() -> None:
    f = wf.jit(lambda x, y: x + y)
    f(np.ones(3), np.ones(3))
    with pytest.raises(ShapeError, match="test_jit"):
        f(np.ones(3), np.ones(4))


def test_assume() -> None:
    @wf.jit
    def f(x: Any, n: int, b: int) -> Any:
        wf.assume(n == 2 * b + 1)
        return x[:n].reshape(n) * b

    np.testing.assert_array_equal(f(np.ones(9), 7, 3), np.full(7, 3.0))
    with pytest.raises(ArgumentError, match="assumption"):
        f(np.ones(9), 8, 3)


def test_lower_shows_each_stage() -> None:
    lowered = normalise.lower(X)
    assert "program normalise" in lowered.fun
    assert "reduce" in lowered.traced
    assert "weft_entry" in lowered.source("c")
    with pytest.raises(ArgumentError):
        lowered.source("fortran")


def test_a_hundred_operations_in_a_row() -> None:
    def f(x: Any) -> Any:
        for k in range(100):
            x = x * 0.99 + k
        return x

    np.testing.assert_allclose(wf.jit(f)(X), f(X))


def test_results_that_are_no_arrays_are_given_as_they_are() -> None:
    assert wf.jit(lambda x: None)(np.ones(3)) is None
    assert wf.jit(lambda x: "name")(np.ones(3)) == "name"
    assert wf.jit(lambda x: ())(np.ones(3)) == ()


@pytest.mark.parametrize("shape", [(7,), (300, 200)])
def test_arrays_in_any_memory_layout(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).random(shape)
    read_only = x.copy()
    read_only.flags.writeable = False
    unaligned = np.frombuffer(b"-" + x.tobytes(), np.uint8)[1:].view(x.dtype).reshape(shape)
    increment = wf.jit(lambda x: x + 1)
    for given in (
        x, x.astype(">f8"), np.asfortranarray(x), read_only, unaligned, x[::-1][::-1],
        x.astype(">f8")[::-1][::-1],
    ):  # fmt: skip
        np.testing.assert_array_equal(increment(given), x + 1)


def test_a_repeated_call_goes_the_shortest_way_only_where_it_holds() -> None:
    """Of the same shapes: other settings, strides, threads, flags, a place for the result."""

    @wf.jit
    def double(x: Any, k: Any) -> Any:
        return (x * k).sum(axis=1)

    x = np.arange(24.0).reshape(4, 6)
    double(x, 2.0)
    ready = next(iter(double._exact.values()))
    direct = ready.direct
    assert direct is not None
    k = np.asarray(2.0)
    assert direct.call([x, k]) is not None
    wide = np.arange(48.0).reshape(4, 12)[:, ::2]
    assert direct.call([wide, k]) is None
    with wf.config(threads=direct.threads + 1):
        assert direct.call([x, k]) is None
        assert (double(x, 2.0) == 2 * x.sum(axis=1)).all()
    with wf.config(memory_limit=1 << 30):
        assert direct.call([x, k]) is None
    for array in (x, x + 1, wide, np.asfortranarray(x)):
        for factor in (2.0, 3.0):
            assert (double(array, factor) == factor * array.sum(axis=1)).all()
    fixed = x.copy()
    fixed.flags.writeable = False
    assert (double(fixed, 2.0) == 2 * x.sum(axis=1)).all()
    out = np.empty(4)
    assert double(x, 5.0, out=out) is out
    assert (out == 5 * x.sum(axis=1)).all()
    first, second = double(x, 2.0), double(x, 3.0)
    assert not np.shares_memory(first, second)
    assert ready.direct is direct


def test_what_is_more_than_one_segment_has_a_shortest_way_too() -> None:
    sorted_ = wf.jit(lambda x: wf.sort(x * 2) + 1)
    x = np.arange(5.0)[::-1].copy()
    for _ in range(3):
        assert (sorted_(x) == np.sort(x * 2) + 1).all()
    assert next(iter(sorted_._exact.values())).direct is not None


def test_what_gives_an_argument_gives_a_copy_each_time() -> None:
    program = wf.jit(lambda x: (x, x[1:], x + 1))
    x = np.arange(5.0)
    for _ in range(3):
        results = program(x)
        np.testing.assert_equal(results, (x, x[1:], x + 1))
        assert not any(np.shares_memory(result, x) for result in results)


FROM_SIZES: dict[str, Any] = {
    "a half": lambda x: x[: int(x.shape[0] * 0.5)],
    "a quarter, rounded": lambda x: x[: round(x.shape[0] / 4)],
    "a half, rounded up": lambda x: x[: math.ceil(x.shape[0] / 2)],
    "a branch": lambda x: x * 2 if x.shape[0] / 2 > 4 else x * 3,
    "a number": lambda x: x * float(x.shape[0] / 2),
    "a root": lambda x: x / np.sqrt(x.shape[0]) + math.sqrt(x.size),
    "a product with NumPy's": lambda x: x[:2] + np.arange(2) * x.shape[0],
    "the greater": lambda x: x[: np.maximum(x.shape[0], 8) // 2],
    "NumPy's range": lambda x: x + np.arange(x.shape[0]),
    "indices": lambda x: x[np.array([x.shape[0] - 1, 0])],
    "bits": lambda x: x + (x.shape[0] & (x.shape[0] - 1)) + (x.shape[0] >> 1) + (3 ^ x.shape[0]),
    "the number of bits": lambda x: x + x.shape[0].bit_length() + ~x.shape[0],
    "text": lambda x: x + len(str(x.shape[0])) + float(f"{x.shape[0]}"),
    "a set": lambda x: x + (x.shape[0] in {7, 20}),
    "a table": lambda x: x * {6: 2, 10: 3}.get(x.shape[0], 4),
}  # fmt: skip


@pytest.mark.parametrize("name", FROM_SIZES)
def test_what_python_makes_of_sizes_holds_for_them_alone(name: str) -> None:
    function = FROM_SIZES[name]
    compiled = wf.jit(function)
    for n in (6, 10, 20, 7, 6):
        x = np.arange(float(n))
        np.testing.assert_allclose(compiled(x), function(x))


def test_what_python_makes_of_int_arguments_holds_for_them_alone() -> None:
    compiled = wf.jit(lambda x, n: x * int(n * 0.5) if n / 2 > 2 else x + (n << 1))
    for n in (3, 5, 9, 4, -7):
        x = np.arange(4.0)
        expected = x * int(n * 0.5) if n / 2 > 2 else x + (n << 1)
        np.testing.assert_array_equal(compiled(x, n), expected)


def test_numbers_of_another_byte_order() -> None:
    compiled = wf.jit(lambda x, y: x * 2 + y)
    for _ in range(2):
        assert compiled(np.array(1.5, ">f8"), np.array(2, ">i4")) == 5.0


def test_a_function_that_only_writes_its_arguments_is_warned_of() -> None:
    @wf.jit
    def scaled(x: Any) -> None:
        x[:] = 2 * x

    @wf.jit
    def given(x: Any) -> Any:
        x[0] = 3
        return x

    x = np.ones(4)
    with pytest.warns(UserWarning, match="scaled, .* writes its arguments") as told:
        assert scaled(x) is None
    assert told[0].filename == __file__
    np.testing.assert_array_equal(given(x), [3, 1, 1, 1])
    np.testing.assert_array_equal(x, np.ones(4))
