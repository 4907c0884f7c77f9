"""`isinstance` of what is traced: as what a value is in plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array, node_of
from weft.frontend.extent import Extent
from weft.kernel.lists import Grown
from weft.kernel.values import Reference, Selection

_PYTHONS: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float, "c": complex}


def is_instance(value: Any, classes: Any) -> bool:
    return issubclass(_class_of(value), classes)


def _class_of(value: Any) -> type:
    if isinstance(value, Reference | Selection) or (isinstance(value, Array) and value.ndim):
        return np.ndarray
    if isinstance(value, Grown):
        return list
    if isinstance(value, Extent):
        return int
    if isinstance(value, Array):
        dtype = np.dtype(value.dtype)
        return _PYTHONS[dtype.kind] if node_of(value).weak else dtype.type
    return type(value)
