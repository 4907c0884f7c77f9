"""Gram matrices by NumPy's BLAS, in parts that the threads of Weft's own pool compute."""

from __future__ import annotations

import struct
from typing import Any, TypeAlias

import numpy.typing as npt

from weft.launch.device import have_compiler
from weft.ops import blas as routines
from weft.runtime import blas, threads
from weft.runtime.address import address_of
from weft.runtime.devices.cpu import call_entry

NDArray: TypeAlias = npt.NDArray[Any]

_GRAM = struct.Struct("2P7q2P")  # a `gram` in products.c

_FEW = 2**26
"""Multiplications that the library's own threads do as soon."""

_PART = 192
"""Rows of a part, or up to twice as many: smaller ones read the factor more often."""

_FEW_ROWS = 384
"""Of which there are two parts; else four, since blocks on the diagonal take longer than they
should, and fewer cannot be shared out evenly."""


def gram(left: NDArray, right: NDArray, target: NDArray, count: int) -> bool:
    """Write left @ right to `target`, if the one factor is the other's transpose.

    NumPy has one triangle of that computed too, but copies it by one thread, and element by
    element.

    Parameters
    ----------
    left, right, target : ndarray
        The target shares no memory with the others.
    count : int
        Of threads.

    Returns
    -------
    bool
        False where nothing was done: the product is another, or too small to gain, or there is
        no library for it whose threads are Weft's to stop.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C, once parts that were begun are done.
    """
    found = gram_words(left, right, target)
    if found is None:
        return False
    record = _GRAM.pack(*found, address_of(left), address_of(target))
    with blas.at_most(1):
        status, _ = call_entry(threads.pool().gram, record, count, interruptible=True)
    if status:
        raise KeyboardInterrupt
    return True


def gram_words(left: NDArray, right: NDArray, target: NDArray) -> tuple[int, ...] | None:
    """What the pool's entry takes before the addresses of the factor and the target.

    None where `gram` would do nothing. The library is to have one thread meanwhile.
    """
    if target.size * left.shape[-1] < _FEW or not have_compiler():
        return None
    found = routines.gram(target, left, right)
    if found is None or blas.threads() is None:
        return None
    return (
        found.multiply, found.square, found.single, found.lies, *found.sizes, *found.steps,
        _parts(found.sizes[0]),
    )  # fmt: skip


def _parts(rows: int) -> int:
    """How many parts of both axes, whatever the threads: rounding depends on it."""
    parts = 2 if rows <= _FEW_ROWS else 4
    while rows > 2 * parts * _PART:
        parts *= 2
    return parts
