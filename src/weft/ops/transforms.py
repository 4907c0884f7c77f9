"""NumPy's Fourier transforms as library routines, of rows: along the last axis.

How long a row of the result is no rule computes: it is given as an extent of the call
(`weft.fun.nodes.Call.extents`), and says how many elements are transformed, but for rows of
real numbers, all of whose elements are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.ops.rules import ArrayType, Described, NDArray, Options


def _to_complex(arguments: tuple[ArrayType, ...], options: Options) -> tuple[ArrayType, ...]:
    dtype, shape = arguments[0]
    return ((dtype.complex, (*shape[:-1], *options.get("extents", ()))),)


def _to_real(arguments: tuple[ArrayType, ...], options: Options) -> tuple[ArrayType, ...]:
    dtype, shape = arguments[0]
    return ((dtype.real, (*shape[:-1], *options.get("extents", ()))),)


def _run(compute: Callable[..., Any], of_reals: bool = False) -> Callable[..., None]:
    def run(rows: NDArray, *, norm: str, out: tuple[NDArray, ...]) -> None:
        (target,) = out
        if target.size:  # NumPy refuses rows without elements, of which there are none
            length = (rows if of_reals else target).shape[-1]
            found = compute(rows, n=length, norm=norm, out=target)
            if found is not target:  # NumPy's hfft takes `out` and leaves it
                target[...] = found

    return run


_NORM = {"norm": "backward"}

# What some turn around, or are made of; and the roots of unity and the work of a row. That is most
# where its length has a large prime factor (Bluestein's algorithm, of rows twice as long or more):
# no plan knows what length it will be.
_OF_COMPLEX, _OF_REALS, _TURNED = ((0, 1), 8), ((0, 1), 18), ((0, 2), 18)

TRANSFORMS: dict[str, tuple[*Described, tuple[int, int], int]] = {
    "fft": (_to_complex, _run(np.fft.fft), _NORM, *_OF_COMPLEX),
    "ifft": (_to_complex, _run(np.fft.ifft), _NORM, *_OF_COMPLEX),
    "rfft": (_to_complex, _run(np.fft.rfft, True), _NORM, *_OF_REALS),
    "ihfft": (_to_complex, _run(np.fft.ihfft, True), _NORM, *_OF_REALS),
    "irfft": (_to_real, _run(np.fft.irfft), _NORM, *_OF_REALS),
    "hfft": (_to_real, _run(np.fft.hfft), _NORM, *_TURNED),
}
"""The rule for types, what does it, options, and what it makes besides, as a routine has them."""
