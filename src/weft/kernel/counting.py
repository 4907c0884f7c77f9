"""`np.bincount` in kernels, where only a run knows the numbers that are counted."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from weft import functions
from weft.array import Array
from weft.errors import TracingError, UnsupportedError
from weft.frontend import given_lengths, lengths
from weft.frontend.extent import Extent
from weft.kernel.frame import Frame


def bincount(
    frame: Frame, node: ast.Call, x: Any, /, weights: Any = None, minlength: Any = None
) -> Array:
    """A least length is the length, where there is one: a run tells where it is too short."""
    counted, place = functions.asarray(x), frame.place(node)
    negative = ValueError("'list' argument must have no negative elements")
    frame.trace.assertions.note(frame.memory, functions.all(counted >= 0), negative, place)
    if minlength is not None:
        short = UnsupportedError(
            "np.bincount of numbers that its minlength does not count", "a larger minlength",
            "np.bincount(x, minlength=n), where n is more than the largest number",
        )  # fmt: skip
        held = functions.all(counted < minlength)
        frame.trace.assertions.note(frame.memory, held, short, place)
        return _counted(counted, weights, minlength)
    if frame.memory.regions:
        raise TracingError(
            "np.bincount without minlength= in a loop or branch of a kernel: only the numbers "
            "tell how many counts it gives", "a minlength that is more than the largest number",
            "np.bincount(x, minlength=n)", place,
        )  # fmt: skip
    return _counted(counted, weights, _reach(counted))


def _counted(counted: Array, weights: Any, length: Any) -> Array:
    """Of no numbers NumPy gives integers, whatever the weights are."""
    is_none = lengths.is_just(counted._node.shape[0], 0)
    return functions.bincount(counted, None if is_none else weights, length=length)


def _reach(counted: Array) -> Extent:
    """One more than the largest number; 0 where there is none."""
    if lengths.is_just(counted._node.shape[0], 0):
        return given_lengths.as_length(0)
    largest = functions.max(functions.astype(counted, np.dtype(np.int64)))
    return given_lengths.as_length(functions.maximum(largest + 1, 0))
