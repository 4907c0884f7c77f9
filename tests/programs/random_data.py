"""A random program with its arguments, and random values of every dtype."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.fun import nodes as fun
from weft.fun.show import show
from weft.ops.dtypes import DType


@dataclass
class Case:
    """A program and what to run it on; shown as text when a test fails."""

    program: fun.Program
    arguments: tuple[Any, ...]
    sizes: dict[str, int]

    def __iter__(self) -> Any:
        return iter((self.program, self.arguments))

    def __repr__(self) -> str:
        shown = "\n".join(_array_text(argument) for argument in self.arguments)
        return f"Case: sizes {self.sizes}\n{show(self.program)}{shown}"


def _array_text(array: Any) -> str:
    if array.size > 100:
        return f"{array.dtype} {array.shape}, beginning {array.ravel()[:20].tolist()}"
    return f"{array.dtype} {array.shape} {array.tolist()}"


def neutral(name: str, dtype: DType) -> fun.Const:
    """The neutral element of an associative operation."""
    lowest: Any
    highest: Any
    lowest = highest = 0  # of complex numbers there is none
    if dtype.is_float:
        lowest, highest = -np.inf, np.inf
    elif dtype is DType.BOOL:
        lowest, highest = False, True
    elif dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        lowest, highest = int(info.min), int(info.max)
    zero, one = (0.0, 1.0) if dtype.is_float else (0, 1)
    values = {
        "minimum": highest, "maximum": lowest, "add": zero, "multiply": one,
        "logical_and": True, "logical_or": False,
    }  # fmt: skip
    return fun.Const(values[name], dtype)


def data(dtype: DType, shape: tuple[int, ...], seed: int) -> Any:
    """Values of a dtype: floats are multiples of 1/4, NaN and infinities; any integers."""
    rng = np.random.default_rng(seed)
    match dtype.kind:
        case "b":
            return rng.random(shape) < 0.5
        case "c":
            parts = data(dtype.real, (2, *shape), seed)
            whole = np.empty(shape, dtype.numpy)
            whole.real, whole.imag = parts
            return whole
        case "f":
            values = rng.integers(-12, 13, shape) / 4
            special = rng.random(shape)
            rate = 0.04 if seed % 2 else 0.0
            for k, value in enumerate((np.nan, np.inf, -np.inf, -0.0)):
                values = np.where((special > k * rate) & (special < (k + 1) * rate), value, values)
            return values.astype(dtype.numpy)
        case _:
            info = np.iinfo(dtype.numpy)
            small = rng.integers(max(info.min, -9), 10, shape)
            wild = rng.integers(info.min, info.max, shape, dtype.numpy, endpoint=True)
            return np.where(rng.random(shape) < 0.8, small.astype(dtype.numpy), wild)
