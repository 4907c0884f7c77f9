"""What masks select, read, changed and reduced: on lazy arrays and in traced functions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.array.masks import alike
from weft.errors import DTypeError, MemoryLimitError, TracingError, WeftError

X = np.array([[1.0, -2, 3], [-4, 5, -6]])
Y = 10 * X


def written(change: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A function that gives what a function writes to a copy of its first argument."""

    def program(x: Any, y: Any) -> Any:
        x = x.copy()
        change(x, y)
        return x

    program.__name__ = change.__name__
    return program


@written
def added(x: Any, y: Any) -> None:
    x[x > 0] += 1


@written
def scaled_by_selected(x: Any, y: Any) -> None:
    x[x < 0] *= y[x < 0]


@written
def computed(x: Any, y: Any) -> None:
    m = x < 0
    x[m] = -y[m] * 2 + np.sqrt(np.abs(x[m])) ** 2 % 3 + x[m].real
    x[m] = np.clip(x[m], 0, 2) + np.round(x[m], 1)


@written
def rows(x: Any, y: Any) -> None:
    low = x.sum(axis=1) < 0
    x[low] = np.arange(3)
    x[low] += y[0]
    x[~low] /= 2


@written
def of_one_element(x: Any, y: Any) -> None:
    x[x > 0] = np.array([7.0])


@written
def beside_other_entries(x: Any, y: Any) -> None:
    x[x[:, 0] > 0, 1] += 3
    x[0, x[0] > 0] += 3
    x[:, x[0] > 0] *= 2
    x[..., x[1] > 0] = 4
    x[x[:, 0] > 0, 1:3] = np.array([8.0, 9.0])


@written
def held(x: Any, y: Any) -> None:
    z = w = x[x > 0]
    z += 1  # which w is too
    x[x > 0] = w


@written
def normalised(x: Any, y: Any) -> None:
    m = x > 0
    x[m] -= x[m].mean()
    x[m] /= np.sqrt(x[m] ** 2).sum()
    x[np.isfinite(x) & ~m] = y.mean()


@written
def two_masks(x: Any, y: Any) -> None:
    m = x > 0
    x[m], x[~m] = -1.0, 2.0


@written
def of_single_precision(x: Any, y: Any) -> None:
    x[...] = x.astype(np.float32)
    x[x > 0] *= np.float64(2.5)


def reduced(x: Any, y: Any) -> Any:
    m = x > 0
    return (
        x[m].sum(), np.mean(x[m]), x[m].prod(), x[m].var(), np.std(y[m]), (x[m] > 1).any(),
        (x[m] > 1).all(), np.count_nonzero(x[m] > 1), x[m].astype("float32").sum(),
        (x[m] * y[m]).sum(),
    )  # fmt: skip


PROGRAMS = [
    added, scaled_by_selected, computed, rows, of_one_element, beside_other_entries, held,
    normalised, two_masks, of_single_precision, reduced,
]  # fmt: skip


def agree(found: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple):
        for one, other in zip(found, wanted, strict=True):
            agree(one, other)
        return
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=1e-6 if found.dtype == np.float32 else 1e-13)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("below", [0, 4096])
@pytest.mark.filterwarnings("ignore:Mean of empty", "ignore:Degrees of", "ignore:invalid value")
def test_programs_with_masks(program: Any, below: int) -> None:
    jitted = wf.jit(program)
    with wf.config(interpret_below=below, implicit_compute="allow"):
        for x, y in [(X, Y), (-X, Y), (0 * X, X), (np.vstack([X, Y]), np.vstack([Y, X]))]:
            wanted = program(x, y)
            agree(jitted(x, y), wanted)
            if below:  # compiled, each of its results would be a program
                agree(program(wf.asarray(x), wf.asarray(y)), wanted)


def test_masks_of_lazy_arrays_are_not_computed() -> None:
    with wf.config(implicit_compute="raise"):
        x = wf.asarray(X)
        x[x > 0] += 1
        x[x[:, 0] < 0] *= 2
        total = x[x > 0].sum()
    assert float(total) == 2 + 4 + 12


def test_a_mask_is_computed_once_for_all_that_it_selects(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []
    plain = wf.Array._implicit

    def counted(self: wf.Array, what: str) -> Any:
        computed.append(what)
        return plain(self, what)

    monkeypatch.setattr(wf.Array, "_implicit", counted)
    x = wf.asarray(X)
    chosen = x[x > 0]
    twice = chosen * 2
    assert (chosen.shape, twice.shape, (chosen + 1).shape) == ((3,), (3,), (3,))
    assert computed == ["indexing by a mask"]
    np.testing.assert_array_equal((twice + chosen).numpy(), [3, 9, 15])
    assert computed == ["indexing by a mask"]


def test_what_needs_to_know_how_many_there_are_computes_the_mask() -> None:
    x = wf.asarray(X)
    chosen = x[x > 0]
    assert (chosen.ndim, chosen.dtype, chosen.shape) == (1, np.float64, (3,))
    np.testing.assert_array_equal(chosen, [1, 3, 5])
    chosen[0] = 7
    np.testing.assert_array_equal(chosen * 2, [14, 6, 10])
    np.testing.assert_array_equal(np.sort(-x[x > 0]), [-5, -3, -1])
    x[x > 0] = np.array([9.0, 8.0, 7.0])
    x[x > 0] += np.array([1.0, 1.0, 1.0])
    np.testing.assert_array_equal(x, [[10, -2, 9], [-4, 8, -6]])
    np.testing.assert_array_equal(x[x[:, 0] > 0], X[:1] * 0 + [10, -2, 9])


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x[x > 0].size, lambda x: x[x > 0], lambda x: x[x > 0] + np.ones(3),
        lambda x: x[x > 0] + x[x > 1], lambda x: x[x > 0].cumsum(), lambda x: np.sort(x[x > 0]),
    ],
)  # fmt: skip
def test_what_traced_functions_refuse(change: Callable[[Any], Any]) -> None:
    with pytest.raises(TracingError, match="an index that is a mask"):
        wf.jit(change)(X)


def test_errors_are_numpys() -> None:
    def other_shape(x: Any) -> Any:
        x[x[0] > 0] += 1
        return x

    def other_dtype(x: Any) -> Any:
        x[x > 0] += 1.5
        return x

    def too_long(x: Any) -> Any:
        x[x[:, 0] > 0] = np.ones(2)
        return x

    for program, error, x in (
        (other_shape, IndexError, X), (other_dtype, TypeError, X.astype(int)),
        (too_long, ValueError, X),
    ):  # fmt: skip
        for call in (program, lambda x: wf.jit(program)(x), lambda x: program(wf.asarray(x))):  # noqa: B023
            with pytest.raises(error):
                call(x.copy())
    with pytest.raises(DTypeError, match="in-place add"):
        wf.jit(other_dtype)(X.astype(int))
    with pytest.raises(WeftError, match="a mask of shape"):
        wf.jit(other_shape)(X)


def test_long_masks_that_are_made_twice_are_one() -> None:
    """Two that are told apart by none of some thousand operations."""
    x = wf.asarray(np.arange(5.0))

    def mask() -> wf.Array:
        found = x
        for _ in range(3000):
            found = found + 1
        return found > 2

    node, other = mask()._node, mask()._node
    assert node is not other
    assert alike(node, other)
    assert not alike(node, (mask() & True)._node)


@pytest.mark.parametrize("select", [lambda x: x[x > 0], lambda x: wf.argwhere(x > 0)])
def test_what_selects_and_what_is_selected_fit_the_limit_together(select: Any) -> None:
    x = np.ones(400_000)
    with (
        wf.config(memory_limit="26 MiB"),
        pytest.raises(MemoryLimitError, match="of the 400000 elements that") as caught,
    ):
        len(select(wf.asarray(x)))
    least = int(re.search(r"at least (\d+) bytes", caught.value.advice)[1])  # type: ignore[index]
    with wf.config(memory_limit=least):
        assert len(select(wf.asarray(x))) == len(x)
