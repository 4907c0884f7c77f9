"""Copies between arrays of the host, by several threads where they are large."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.runtime import threads
from weft.runtime.address import address_of
from weft.runtime.devices.cpu import CpuDevice, call_entry

_COPIED = struct.Struct("2Pq")  # a `copied` in copies.c

LARGE = 4 << 20
"""Bytes that threads copy sooner than one of them does."""


def copy(target: npt.NDArray[Any], source: npt.NDArray[Any], count: int) -> None:
    """Copy an array to another one of its shape and dtype, by so many threads.

    They share no memory.
    """
    whole = target.flags.c_contiguous and source.flags.c_contiguous
    if target.nbytes < LARGE or not whole or not CpuDevice.available():
        np.copyto(target, source)
        return
    record = _COPIED.pack(address_of(target), address_of(source), target.nbytes)
    status, _ = call_entry(threads.pool().copy, record, count)
    if status:  # of a file that has become shorter, say: NumPy finds out what
        np.copyto(target, source)
