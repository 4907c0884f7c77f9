"""NumPy 2's promotion of dtypes, and of Python scalars, which are weak."""

from __future__ import annotations

from functools import cache

import numpy as np

from weft.errors import ArgumentTypeError
from weft.ops.dtypes import DType, from_numpy

DEFAULT_FLOAT = DType.F64
DEFAULT_INTEGER = DType.I64
DEFAULT_COMPLEX = DType.C128


@cache
def promote(*dtypes: DType) -> DType:
    """The dtype to which operands of all these dtypes are converted.

    Raises
    ------
    ArgumentTypeError
        For no dtype at all.
    """
    if not dtypes:
        raise ArgumentTypeError("no dtypes to promote", "one or more")
    # NumPy's rule is not associative over many (int8, uint8, float32 at once); it is
    # folded from the left, as a chain of binary operations would.
    common = dtypes[0]
    for dtype in dtypes[1:]:
        common = from_numpy(np.promote_types(common.numpy, dtype.numpy))
    return common


@cache
def promote_with_python(dtype: DType, python_type: type) -> DType:
    """The dtype of an operation between an array and a Python scalar.

    Parameters
    ----------
    python_type : {bool, int, float, complex}
        A weak type: it changes the kind of the array's dtype, never its width.
    """
    if python_type not in (bool, int, float, complex):
        raise ArgumentTypeError(f"a {python_type.__name__}", "a bool, int, float or complex")
    if python_type is bool:
        return dtype
    if python_type is int:
        return DEFAULT_INTEGER if dtype is DType.BOOL else dtype
    if python_type is float:
        return dtype if dtype.kind in "fc" else DEFAULT_FLOAT
    if dtype.is_complex:
        return dtype
    return dtype.complex if dtype.is_float else DEFAULT_COMPLEX


def default_dtype(python_type: type) -> DType:
    """The dtype of an array made of Python scalars alone: that of `numpy.asarray`."""
    defaults = {
        bool: DType.BOOL, int: DEFAULT_INTEGER, float: DEFAULT_FLOAT, complex: DEFAULT_COMPLEX,
    }  # fmt: skip
    found = defaults.get(python_type)
    if found is None:
        raise ArgumentTypeError(f"a {python_type.__name__}", "a bool, int, float or complex")
    return found


@cache
def accumulator(dtype: DType) -> DType:
    """The dtype of `sum` and `prod`: small integers and booleans in (u)int64."""
    if dtype is DType.BOOL or dtype.is_signed:
        return DType.I64
    return DType.U64 if dtype.is_integer else dtype
