"""Views of lazy arrays: what is written to them is written to what they are of, as NumPy's."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf

X = np.random.default_rng(8).standard_normal((4, 6))
Z = X[0] + 1j * X[1]


def rows(x: Any) -> Any:
    x[:, 1][x[:, 1] < 0] = 3
    row = x[0]
    row[2] = 5
    x[1].fill(3)
    x[2].sort()
    row += 1
    x[0, 0] = -9
    for each in x:
        each -= 1
    return x, row


def turned(x: Any) -> Any:
    columns = x.T
    columns[3] *= 2
    x.swapaxes(0, 1)[0, 1] = 12345
    x.transpose(1, 0)[2] -= 1
    x.mT[1, 1:3] = x.mT[2, 1:3]
    return x, columns


def reshaped(x: Any) -> Any:
    flat = x.reshape(-1)
    flat[5:9] += 100
    part = x[1:3].ravel()
    part[0] = 77
    x[2].reshape(2, 3)[1] = 0
    apart = x[:, :2].reshape(-1)
    apart[0] = 55
    x.flatten()[3] = 66
    x[:, None, 4:5].squeeze()[2] = 44
    return x, flat, part, apart


def views_of_views(x: Any) -> Any:
    every = x[1:, ::2]
    first = every[0]
    first += 3
    first += 4
    first[1] = 0
    every[...] *= first
    x[1:-1] += x[1:-1]
    every[2, 1:] = every[1, 1:]
    return x, every, first


def apart(x: Any) -> Any:
    element = x[0, 1]
    element += 5
    copied = x.copy()
    copied[0] = 0
    some = x[[0, 2]]
    some += 1
    chosen = x[x > 0]
    chosen += 1
    half = x[0] + 0
    half[0] = 9
    return x, element, copied, some, half


def parts(x: Any) -> Any:
    first, second = np.split(x, 2)
    first *= second
    whole = x.view()
    whole[1] = 2
    return x, first, whole


def agree(found: Any, expected: Any) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-12)


@pytest.mark.parametrize("write", [rows, turned, reshaped, views_of_views, apart, parts])
def test_writes_are_numpys(write: Callable[[Any], Any]) -> None:
    expected = write(X.copy())
    agree(write(wf.asarray(X)), expected)
    agree(wf.jit(write)(X), expected)


def test_parts_of_complex_numbers() -> None:
    def write(z: Any) -> Any:
        z.real[1:3] = 7
        z.imag[0] += 4
        return z

    agree(write(wf.asarray(Z)), write(Z.copy()))


def test_a_source_is_not_written() -> None:
    x = X.copy()
    lazy = wf.asarray(x)
    lazy[0][0] = 9
    assert lazy[0, 0] == 9
    np.testing.assert_array_equal(x, X)


def test_a_write_in_place_is_one_write() -> None:
    x = wf.asarray(X)
    row = x[1]
    for _ in range(100):
        row += 1
    x[0] += 1
    assert len(x._node.inputs[0].inputs[0].inputs) == 0
    np.testing.assert_allclose(x.numpy()[1], X[1] + 100)


def test_many_views_of_views() -> None:
    x = wf.asarray(np.zeros(3000))
    part = x
    for _ in range(1500):
        part = part[1:]
    part[0] = 1
    assert x._node.shape[0].value == 3000
    assert part[0] == 1


def test_copies_of_views_are_apart() -> None:
    x = wf.asarray(X)
    for copied in (copy.copy(x[0]), copy.deepcopy(x[0]), pickle.loads(pickle.dumps(x[0]))):
        copied += 1
    np.testing.assert_array_equal(x.numpy(), X)
