"""Index functions follow NumPy's views: what a layout change looks at is what NumPy's does."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.lmad import Lmad
from weft.sizes import ONE, ZERO, Poly, as_poly

N, M, K = (Poly.var(name) for name in "nmk")
quick = settings(max_examples=60, deadline=None, derandomize=True)


def lmad_of(array: Any, memory: Any) -> Lmad:
    """The LMAD of a NumPy view of a flat int64 array."""
    start = array.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
    dims = zip(array.shape, array.strides, strict=True)
    return Lmad(as_poly(start // 8), tuple((as_poly(n), as_poly(s // 8)) for n, s in dims))


def elements(index: Lmad) -> Any:
    """The offsets, which are the values of `numpy.arange` memory."""
    shape = tuple(extent.constant for extent in index.shape)
    offsets = np.empty(shape, np.int64)
    for at in np.ndindex(shape):
        offsets[at] = index.apply(tuple(map(as_poly, at))).constant
    return offsets


@st.composite
def views(draw: st.DrawFn) -> tuple[Any, Any]:
    """A flat array of its own offsets, and a view of it."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    memory = np.arange(int(np.prod(shape)))
    view = memory.reshape(shape)
    view = view.transpose(draw(st.permutations(range(len(shape)))))
    steps = [draw(st.sampled_from([1, 1, -1, 2])) for _ in shape]
    return memory, view[tuple(slice(None, None, step) for step in steps)]


@quick
@given(views(), st.data())
def test_layout_changes_are_numpys(pair: tuple[Any, Any], data: st.DataObject) -> None:
    memory, view = pair
    index = lmad_of(view, memory)
    np.testing.assert_array_equal(elements(index), view)
    axes = tuple(data.draw(st.permutations(range(view.ndim))))
    np.testing.assert_array_equal(elements(index.permute(axes)), view.transpose(axes))
    assert index.permute(axes).unpermute(axes) == index
    np.testing.assert_array_equal(elements(index.fix((as_poly(0),))), view[0])
    wide = (as_poly(2), *index.shape)
    np.testing.assert_array_equal(
        elements(index.broadcast(wide)), np.broadcast_to(view, (2, *view.shape))
    )


@quick
@given(views(), st.data())
def test_reshape_is_numpys_view_or_none(pair: tuple[Any, Any], data: st.DataObject) -> None:
    memory, view = pair
    left, shape = view.size, []
    while left > 1 and len(shape) < 4:
        factor = data.draw(st.sampled_from([d for d in range(1, left + 1) if left % d == 0]))
        shape.append(factor)
        left //= factor
    shape.append(left)
    found = lmad_of(view, memory).reshape(tuple(map(as_poly, shape)))
    reshaped = view.reshape(shape)
    if found is None:
        assert not np.shares_memory(reshaped, memory)
    else:
        np.testing.assert_array_equal(elements(found), reshaped)


def test_symbolic_reshapes() -> None:
    rows = Lmad.row_major((N, M, K))
    assert rows.reshape((N * M, K)) == Lmad.row_major((N * M, K))
    assert rows.reshape((N, ONE, M * K)) == Lmad.row_major((N, ONE, M * K))
    assert rows.reshape((K, N, M)) == Lmad.row_major((K, N, M))
    turned = rows.permute((0, 2, 1))
    assert turned.reshape((N * K, M)) is None
    assert turned.reshape((N, ONE, K, M)) is not None
    window = Lmad(as_poly(3), ((N, Poly.var("s")), (M, ONE)))
    assert window.reshape((N * M,)) is None
    assert window.reshape((ONE, N, M)) == Lmad(as_poly(3), ((ONE, N * Poly.var("s")), *window.dims))


def test_same_ignores_strides_of_single_elements() -> None:
    assert Lmad(N, ((ONE, M), (K, ONE))).same(Lmad(N, ((ONE, K), (K, ONE))))
    assert not Lmad(N, ((M, M),)).same(Lmad(N, ((M, K),)))
    assert not Lmad(N, ((M, M),)).same(Lmad(K, ((M, M),)))


@quick
@given(views(), st.data())
def test_slices_are_numpys(pair: tuple[Any, Any], data: st.DataObject) -> None:
    memory, view = pair
    slices, triplets = [], []
    for extent in view.shape:
        step = data.draw(st.sampled_from([1, 2, -1, -2]))
        start, stop = data.draw(st.integers(0, extent - 1)), -1 if step < 0 else extent
        count = len(range(start, stop, step))
        slices.append(slice(start, None, step))
        triplets.append((as_poly(start), as_poly(count), as_poly(step)))
    expected = view[tuple(slices)]
    index = lmad_of(view, memory)
    np.testing.assert_array_equal(elements(index.slice(tuple(triplets))), expected)
    lmads = tuple(Lmad(start, ((count, step),)) for start, count, step in triplets)
    np.testing.assert_array_equal(elements(index.slice_lmads(lmads)), expected)


def test_each_dimension_is_sliced_by_its_own_lmad() -> None:
    grid = np.arange(12 * 10).reshape(12, 10)
    windows = Lmad(ONE, ((as_poly(3), as_poly(4)), (as_poly(2), ONE)))  # rows [[1, 2], [5, 6], ..]
    column = Lmad(as_poly(7), ())
    found = lmad_of(grid, grid).slice_lmads((windows, column))
    np.testing.assert_array_equal(elements(found), grid[[[1, 2], [5, 6], [9, 10]], 7])


def test_column_major_is_fortrans() -> None:
    fortran = np.arange(24).reshape((2, 3, 4), order="F")
    index = Lmad.column_major((as_poly(2), as_poly(3), as_poly(4)))
    np.testing.assert_array_equal(elements(index), fortran)
    assert Lmad.column_major((N, M, K), N).dims == ((N, ONE), (M, N), (K, N * M))


def test_compose_and_text() -> None:
    diagonal = Lmad(M, ((N * N, as_poly(2)),)).compose(ONE, ((N, N + 1),))
    assert str(diagonal) == "m + 2 + {(n : 2*n + 2)}"


def test_an_extent_that_is_another_by_a_fact_is_not_repeated() -> None:
    """3*n == 15 is known of them: the strides stay; only dimensions of 1 are repeated."""
    n = Poly.var("n")
    index = Lmad.row_major((3 * n, as_poly(1), 2 * n))
    wide = index.broadcast((as_poly(4), as_poly(15), as_poly(7), as_poly(10)))
    assert [stride for _, stride in wide.dims] == [ZERO, 2 * n, ZERO, ONE]
