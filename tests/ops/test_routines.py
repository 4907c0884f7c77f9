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


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128, np.int32])
@pytest.mark.parametrize("part", ["all", "lower", "upper"])
@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_update(dtype: Any, part: str, twice: bool, turned: bool) -> None:
    generator = np.random.default_rng(5)
    left, right, old = ((generator.random(shape) * 9).astype(dtype)
                        for shape in ((5, 3), (3, 5), (5, 5)))  # fmt: skip
    left, right = (left, np.asfortranarray(right)) if turned else (left, right)
    twice = twice and part != "all"
    inside = {"all": np.ones, "lower": np.tri, "upper": lambda s: np.tri(s).T}
    mask = np.ones((5, 5)) if part == "all" else inside[part](5)
    for given in ((left, right), (left, left.T)):
        product = given[0] @ given[1]
        product = product + product.T if twice else product
        for factors in ((2, 3), (2,), (0, 3), (2, 0)):
            scalars = [np.asarray(factor, dtype) for factor in factors]
            value = factors[0] * product + (factors[1] * old if len(factors) > 1 else 0)
            got = run("update", old, *given, *scalars, part=part, twice=twice)
            np.testing.assert_allclose(got, np.where(mask, value, old), rtol=1e-5)


def test_update_in_place_by_the_library() -> None:
    """NumPy's wheels have a BLAS whose routines are found; a matrix by rows is done there."""
    left, right, target = np.ones((4, 3)), np.ones((3, 4)), np.zeros((4, 6))[:, 1:5]
    bind = routine("update").bind
    assert bind is not None
    one = np.asarray(1.0)
    found = bind(target, left, right, one, one, out=(target,))
    assert found is not None
    assert found.bound.steps == (3, 4, 6)
    assert bind(target, left, right[:, ::2], one, one, out=(target,)) is None
    assert bind(target, left, right, one, one, part="lower", out=(target,)) is None
    assert bind(target, left, left.T, one, one, part="lower", out=(target,)) is not None
    assert bind(target.copy("F"), left, right, one, one, out=(target,)) is None


def test_update_refuses_what_does_not_fit() -> None:
    rule = routine("update").result_types
    square, scalar = (DType.F64, (4, 4)), (DType.F64, ())
    with pytest.raises(ShapeError, match="one type and shape"):
        rule((square, (DType.F64, (3, 2)), (DType.F64, (2, 4)), scalar), {})
    with pytest.raises(DTypeError, match="factors"):
        rule((square, square, square, (DType.F32, ())), {})


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_and_argsort(axis: int, descending: bool) -> None:
    x = np.random.default_rng(2).integers(0, 4, (6, 7))
    key = -x if descending else x
    wanted = np.argsort(key, axis=axis, kind="stable")
    options = {"axis": axis, "descending": descending, "stable": True}
    np.testing.assert_array_equal(run("argsort", x, **options), wanted)
    np.testing.assert_array_equal(run("sort", x, **options), np.take_along_axis(x, wanted, axis))


def test_partition() -> None:
    """Places outside of a row are of no element; of none, nothing moves."""
    x = np.random.default_rng(3).integers(0, 50, (6, 41)).astype(np.float64)
    x[2, ::7] = np.nan
    found = run("partition", x, np.array([3, 20, 40, 3, -1, 41]))
    ordered = np.sort(x)
    np.testing.assert_array_equal(found[:, [3, 20, 40]], ordered[:, [3, 20, 40]])
    np.testing.assert_array_equal(np.sort(found[:, :3]), ordered[:, :3])
    np.testing.assert_array_equal(np.sort(found[:, 4:20]), ordered[:, 4:20])
    np.testing.assert_array_equal(run("partition", x, np.zeros(0, np.int64)), x)
    assert run("partition", x[:, :0], np.array([0])).shape == (6, 0)
    with pytest.raises(ShapeError):
        routine("partition").run(x, np.zeros((2, 2), np.int64))


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
