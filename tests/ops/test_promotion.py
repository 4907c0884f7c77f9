"""Promotion is NumPy 2's."""

from __future__ import annotations

import numpy as np
import pytest

from weft.errors import ArgumentTypeError
from weft.ops.dtypes import DType, from_numpy
from weft.ops.promotion import accumulator, default_dtype, promote, promote_with_python


@pytest.mark.parametrize("left", list(DType))
def test_promote_is_numpys(left: DType) -> None:
    for right in DType:
        wanted = np.result_type(left.numpy, right.numpy)
        assert promote(left, right).numpy == wanted


@pytest.mark.parametrize("dtype", list(DType))
def test_python_scalars_are_weak(dtype: DType) -> None:
    for value in (True, 3, 1.5, 2j):
        wanted = (np.zeros(3, dtype.numpy) + value).dtype
        assert promote_with_python(dtype, type(value)).numpy == wanted


@pytest.mark.parametrize("value", [True, 3, 1.5, 2j])
def test_default_dtypes_are_those_of_asarray(value: complex) -> None:
    assert default_dtype(type(value)).numpy == np.asarray(value).dtype


@pytest.mark.parametrize("dtype", list(DType))
def test_accumulator_is_that_of_sum(dtype: DType) -> None:
    assert accumulator(dtype) is from_numpy(np.zeros(1, dtype.numpy).sum().dtype)


def test_other_python_types_are_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="a str"):
        promote_with_python(DType.I8, str)
    with pytest.raises(ArgumentTypeError):
        promote()
