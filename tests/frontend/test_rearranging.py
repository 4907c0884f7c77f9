"""NumPy's functions that choose and move elements, and methods that write, beside NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import ArgumentError, DTypeError, UnsupportedError

RNG = np.random.default_rng(3)
X = RNG.standard_normal((4, 5))
V = X[0]
I = (10 * X).astype(np.int64)  # noqa: E741 - integers
Z = X + 1j * (X > 0)
ENDS = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 3.0])

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "piecewise": (lambda x: np.piecewise(x, [x < 0, x > 1], [-1, np.square, 7]), (X,)),
    "piecewise of one": (lambda x: np.piecewise(x, x < 0, [lambda y, k: y * k], 3), (V,)),
    "piecewise of integers": (lambda i: np.piecewise(i, [i < 0], [1.5, 2]), (I,)),
    "choose": (
        lambda i, x: (np.choose(i, [x, -x, 1], mode="clip"), np.choose(i, [x, -x], mode="wrap")),
        (I, X),
    ),
    "places": (lambda i: np.unravel_index(abs(i[0]) % 20, (4, 5)), (I,)),
    "flat places": (
        lambda i: (
            np.ravel_multi_index((i[0], i[1]), (4, 5), mode="wrap"),
            np.ravel_multi_index((i[0], i[1]), (4, 5), mode="clip", order="F"),
        ),
        (I,),
    ),
    "delete": (
        lambda x: (np.delete(x, 1), np.delete(x, -1, axis=0), np.delete(x, 2, axis=1)), (X,)
    ),
    "insert": (
        lambda x: (np.insert(x, 1, 9), np.insert(x[0], 5, [1, 2]), np.insert(x, -1, 0, axis=1)),
        (X,),
    ),
    "insert in integers": (lambda i: np.insert(i, 1, 9.5), (I,)),
    "resize": (lambda v: (np.resize(v, 12), np.resize(v, (2, 1)), np.resize(v, 0)), (V,)),
    "rollaxis": (
        lambda x: (np.rollaxis(x[None], 2), np.rollaxis(x[None], 0, 3), np.rollaxis(x[None], 1, 2)),
        (X,),
    ),
    "diagflat": (lambda x: np.diagflat(x[:2, :2], 1), (X,)),
    "unwrap": (
        lambda x: (np.unwrap(9 * x), np.unwrap(9 * x, axis=0), np.unwrap(x, 0.5, period=1)), (X,)
    ),
    "unwrap of integers": (lambda i: (np.unwrap(i, period=4), np.unwrap(i, period=5)), (I,)),
    "logaddexp2": (lambda x, e: (np.logaddexp2(x, 2 * x), np.logaddexp2(e, e[::-1])), (X, ENDS)),
    "infinite": (lambda e: (np.isneginf(e), np.isposinf(e)), (ENDS,)),
    "real": (lambda x, z: (np.isreal(z), np.iscomplex(z), np.isreal(x), np.iscomplex(x)), (X, Z)),
    "narrow": (
        lambda x, i: (
            np.choose(abs(i[0]), [x.astype("f4"), 2], mode="clip"),
            np.unravel_index(abs(i[0].astype("i4")) % 20, (4, 5)),
            np.ravel_multi_index((i[0].astype("i2"),), (40,), mode="clip"),
            np.unwrap(i.astype("i4"), period=4),
        ),
        (X, I),
    ),
    "kinds": (lambda x, z: x * np.iscomplexobj(z) + np.isrealobj(z), (X, Z)),
    "begun": (
        lambda x: (
            np.max(x, where=x < 0, initial=-3), np.min(x, axis=0, initial=0.5),
            np.sum(x, initial=2), np.prod(x, axis=1, where=x > 0, initial=3.0),
        ),
        (X,),
    ),
    "copy": (lambda x: np.copy(x), (X,)),
    "searchsorted": (lambda v: np.sort(v).searchsorted(v[:3]), (V,)),
}  # fmt: skip


def agree(found: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple):
        for one, other in zip(found, wanted, strict=True):
            agree(one, other)
        return
    values = found.numpy() if isinstance(found, wf.Array) else np.asarray(found)
    assert (values.dtype, values.shape) == (np.asarray(wanted).dtype, np.shape(wanted))
    np.testing.assert_allclose(values, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_programs(name: str) -> None:
    program, arguments = PROGRAMS[name]
    wanted = program(*arguments)
    agree(wf.jit(program)(*arguments), wanted)
    with wf.config(implicit_compute="raise"):
        found = program(*map(wf.asarray, arguments))
    agree(found, wanted)


def written(x: Any) -> Any:
    y = x.copy()
    y.sort(axis=0)
    z = x.view()
    z = z.view(z.dtype) * 2
    x = x.copy()
    x.fill(3)
    w = z[0].copy()
    w.partition(2)
    return x, y, z, w[2]


def test_methods_that_write() -> None:
    agree(written(wf.asarray(X)), written(X))
    agree(wf.jit(written)(X), written(X))
    agree(wf.kernel(written)(X.copy()), written(X))


def test_views_in_kernels_write_through() -> None:
    def change(x: Any) -> None:
        y = x.view(x.dtype)
        y[0] = 7.0
        x[1].partition(2)

    found, wanted = X.copy(), X.copy()
    wf.kernel(change)(found)
    change(wanted)
    assert (found[0] == 7).all()
    assert found[1, 2] == wanted[1, 2]


def test_errors() -> None:
    x = wf.asarray(X)
    with pytest.raises(UnsupportedError, match="a view of float64 as int64"):
        x.view(np.int64)
    with pytest.raises(ArgumentError, match="3 functions for 1 conditions"):
        np.piecewise(x, [x < 0], [1, 2, 3])
    with pytest.raises(DTypeError, match="places of float64"):
        np.unravel_index(x, (4, 5))
    with pytest.raises(DTypeError, match="isneginf of complex128"):
        wf.isneginf(Z)
    with pytest.raises(IndexError, match="index 9 is out of bounds for axis 1 with size 5"):
        np.delete(x, 9, axis=1)
