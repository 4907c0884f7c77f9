"""Results of a call, in the arrays that its caller gave for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.io.held import may_share_memory
from weft.runtime.address import is_one
from weft.runtime.devices import copies

NDArray: TypeAlias = npt.NDArray[Any]
Value: TypeAlias = Any


def brought(
    results: list[Value], out: Sequence[NDArray | None] | None, threads: int
) -> list[Value]:
    """The results, those that lie elsewhere copied to the arrays that were given for them.

    Parameters
    ----------
    results : list
    out : sequence of (ndarray or None), optional
        An array for each result, or None for one that stays where it is.
    threads : int
        That copy what is large.

    Raises
    ------
    TypeError
        For an array of another dtype than its result has.
    """
    for k, given in enumerate(out or ()):
        if given is not None and results[k] is not given:
            if not is_one(given, results[k]):
                _bring(given, results[k], threads)
            results[k] = given
    return results


def _bring(target: NDArray, source: NDArray, threads: int) -> None:
    large = target.nbytes >= copies.LARGE
    alike = target.shape == source.shape and target.dtype == source.dtype
    if large and alike and not may_share_memory(target, source):
        copies.copy(target, source, threads)
    else:
        np.copyto(target, source, casting="no")
