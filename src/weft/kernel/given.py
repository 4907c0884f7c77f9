"""The arguments that kernels are given: their data, and what of it has programs of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.config import settings
from weft.errors import ArgumentError, Place
from weft.jit.arguments import Foreign, as_data
from weft.kernel.strides import layout_of
from weft.launch import CPU, is_gpu
from weft.runtime.address import is_one


def data_of(leaf: Any) -> Any:
    """An argument as programs take it: an array without dimensions as one of one element."""
    data = as_data(leaf)
    data = data.data if isinstance(data, Foreign) else data
    return data.reshape(1) if isinstance(leaf, np.ndarray) and not leaf.shape else data


def told_apart(leaves: Sequence[Any], data: Sequence[Any], room: int) -> tuple[Any, ...]:
    """What of arguments, beside types and shapes, has programs of its own.

    For each the first that is the same array; and which passes there are, the room of lists, and
    layouts.
    """
    return (*same_memory(data), ((words(), room), *map(layout_of, leaves)))


def require_writable(array: np.ndarray, place: Place) -> None:
    if not array.flags.writeable:
        raise ArgumentError(
            "an argument that the kernel writes is read-only", "a writable array",
            "a copy: np.array(x)", place=place,
        )  # fmt: skip


def same_memory(data: Sequence[Any]) -> tuple[int, ...]:
    """For each argument the first that is the same array."""
    first: list[int] = []
    arrays: list[tuple[int, np.ndarray]] = []
    for number, value in enumerate(data):
        own = number
        if isinstance(value, np.ndarray) and value.shape:
            for other, array in arrays:
                if is_one(array, value):
                    own = other
                    break
            else:
                arrays.append((number, value))
        first.append(own)
    return tuple(first)


def words() -> str:
    """The passes to leave out: a GPU has no use for a library of the host's."""
    current = settings()
    on_gpu = current.devices != (CPU,) and any(map(is_gpu, current.devices))
    return f"{current.optimise} no-blas" if on_gpu else current.optimise
