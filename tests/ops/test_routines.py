"""Library routines give what NumPy gives, and their type rules foretell it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weft.errors import DTypeError, InternalError, ShapeError
from weft.ops.dtypes import DType, from_numpy
from weft.ops.routines import routine


def run(name: str, *arrays: Any, **options: Any) -> Any:
    types = tuple((from_numpy(a.dtype), a.shape) for a in arrays)
    ((dtype, shape),) = routine(name).result_types(types, options)
    (result,) = routine(name).run(*arrays, **options)
    assert result.shape == shape
    assert result.dtype == dtype.numpy
    strided = np.empty((*shape, 2), dtype.numpy)[..., 0]  # any destination will do
    (again,) = routine(name).run(*arrays, out=(strided,), **options)
    assert again is strided
    np.testing.assert_array_equal(again, result)
    return result


@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)), ((4,), (4,)),
     ((3, 4), (4,)), ((1, 3, 4), (7, 4, 2)), ((0, 4), (4, 3)), ((3, 0), (0, 2))],
)  # fmt: skip
def test_matmul(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    generator = np.random.default_rng(1)
    a, b = generator.normal(size=left), generator.normal(size=right)
    np.testing.assert_allclose(run("matmul", a, b), np.matmul(a, b), rtol=1e-14)
    whole = (a * 9).astype(np.int32), (b * 9).astype(np.int32)
    np.testing.assert_array_equal(run("matmul", *whole), np.matmul(*whole))


def test_matmul_refuses_what_does_not_fit() -> None:
    rule = routine("matmul").result_types
    with pytest.raises(ShapeError, match="3, not 4"):
        rule(((DType.F32, (2, 3)), (DType.F32, (4, 5))), {})
    with pytest.raises(DTypeError):
        rule(((DType.F32, (2, 3)), (DType.F64, (3, 5))), {})
    with pytest.raises(ShapeError):
        rule(((DType.F32, (2, 2, 3)), (DType.F32, (4, 3, 5))), {})


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_and_argsort(axis: int, descending: bool) -> None:
    x = np.random.default_rng(2).integers(0, 4, (6, 7))
    key = -x if descending else x
    wanted = np.argsort(key, axis=axis, kind="stable")
    options = {"axis": axis, "descending": descending, "stable": True}
    np.testing.assert_array_equal(run("argsort", x, **options), wanted)
    np.testing.assert_array_equal(run("sort", x, **options), np.take_along_axis(x, wanted, axis))


def test_searchsorted() -> None:
    ordered, values = np.array([1.0, 2.0, 2.0, 5.0]), np.array([[0.0, 2.0], [5.0, 9.0]])
    assert run("searchsorted", ordered, values).tolist() == [[0, 1], [3, 4]]
    assert run("searchsorted", ordered, values, side="right").tolist() == [[0, 3], [4, 4]]


def test_names_and_options_are_checked() -> None:
    with pytest.raises(InternalError, match="no_such"):
        routine("no_such")
    with pytest.raises(InternalError, match="sideways"):
        routine("sort").run(np.zeros(3), sideways=True)
    with pytest.raises(ShapeError):
        routine("sort").run(np.zeros(3), axis=1)


def test_sort_keeps_the_order_of_zeros() -> None:
    zeros = np.where(np.arange(100) % 3 == 0, -0.0, 0.0)
    (found,) = routine("sort").run(zeros)
    assert np.array_equal(np.signbit(found), np.signbit(zeros))
