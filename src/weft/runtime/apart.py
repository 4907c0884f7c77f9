"""Where workspace begins within a page, given the arrays that a call writes beside it.

A processor takes a load for one of what a store before it has written, until it knows better, where
their addresses have the same last 12 bits; then the load waits for the store. Loops that alternate
between a result and workspace write one of them while they read the other: rows and planes before
and after what they write, as a stencil does. So no store is to have the last bits of a load that
soon follows, whichever of the two is written. What rows and planes are apart decides, and so is
known at a call only: 7 points of 404 by 404 planes ran 1.14 times as fast, elsewhere in a page.

(A. Fog, The microarchitecture of Intel, AMD and VIA CPUs, on false dependences of memory.)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy.typing as npt

from weft.runtime.address import address_of

PAGE = 4096  # bytes: addresses are compared by what is left of them


def first_byte(arrays: Sequence[npt.NDArray[Any]], step: int, usual: int = 0) -> int:
    """Where in a page workspace begins that is used beside some arrays.

    Parameters
    ----------
    arrays : sequence of ndarray
    step : int
        Bytes that it is a multiple of.
    usual : int
        Where it begins if that is as good as anywhere else.
    """
    places = tuple(
        (address_of(array) % PAGE, tuple(stride % PAGE for stride in array.strides[:-1]))
        for array in arrays
        if array.nbytes >= PAGE
    )
    return _first_byte(places, step, usual)


@lru_cache(1024)
def _first_byte(places: tuple[tuple[int, tuple[int, ...]], ...], step: int, usual: int) -> int:
    begins = ((usual + more) % PAGE for more in range(0, PAGE, step))
    return max(begins, key=lambda begin: distance(begin, places))


def distance(begin: int, places: Sequence[tuple[int, tuple[int, ...]]]) -> int:
    """Bytes from a store to the load after it that has the same last bits, at least.

    Parameters
    ----------
    begin : int
        Where the workspace begins within a page.
    places : sequence of (int, tuple of int)
        Where arrays begin, and how far apart their rows and planes are, within pages.
    """
    found = PAGE
    for at, strides in places:
        shift = begin - at
        loads = {0, *strides, *(-stride for stride in strides)}
        found = min(found, *((way * shift - load) % PAGE for load in loads for way in (1, -1)))
    return found
