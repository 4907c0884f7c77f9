"""Sums that are rounded once, written in Python: interpreted as a user's function is."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.errors import UnsupportedError, user_place

_MOST = 48
"""So many doubles that do not overlap there may be: each takes 53 of some 2100 bits."""


def fsum(values: Any) -> Any:
    """By partial sums of which each has no bit in common with the others, as CPython does it."""
    partials, count, special = np.zeros(_MOST), 0, 0.0
    for value in values:
        x = float(value)
        if math.isfinite(x):
            kept = 0
            for k in range(count):
                y = partials[k]
                large, small = (x, y) if abs(x) >= abs(y) else (y, x)
                high = large + small
                low = small - (high - large)
                if low != 0.0:
                    partials[kept] = low
                    kept += 1
                x = high
            partials[kept] = x
            count = kept + 1
        else:
            special += x
    total, low = 0.0, 0.0
    while count > 0 and low == 0.0:
        count -= 1
        before = total
        total = before + partials[count]
        low = partials[count] - (total - before)
    if count > 0 and low != 0.0 and low * partials[count - 1] > 0.0:  # half way is not half way
        more = total + 2.0 * low
        total = more if more - total == 2.0 * low else total
    return total if special == 0.0 else special


def fmean(data: Any, weights: Any = None) -> Any:
    import statistics  # which imports much

    if len(data) == 0:
        raise statistics.StatisticsError("fmean requires at least one data point")
    if weights is None:
        return math.fsum(data) / len(data)
    if len(weights) != len(data):
        raise statistics.StatisticsError("data and weights must be the same length")
    products = [x * weight for x, weight in zip(data, weights)]  # noqa: B905 - which is checked
    return math.fsum(products) / math.fsum(weights)


IN_PLACE_OF = {
    "mean": "statistics.fmean(x), or np.mean(x)", "variance": "np.var(x, ddof=1)",
    "pvariance": "np.var(x)", "stdev": "np.std(x, ddof=1)", "pstdev": "np.std(x)",
}  # fmt: skip
"""For functions of `statistics` that compute with fractions, which are no numbers of a program."""


def of_statistics(function: Callable[..., Any]) -> Callable[..., Any]:
    """What stands for a function of the module `statistics`; any other as it is.

    Raises
    ------
    UnsupportedError
        Of one that computes with fractions.
    """
    if function.__module__ != "statistics":
        return function
    name = function.__name__
    if name in IN_PLACE_OF:
        raise UnsupportedError(
            f"statistics.{name}, which computes with fractions", "functions of floats",
            IN_PLACE_OF[name], place=user_place(),
        )  # fmt: skip
    return fmean if name == "fmean" else function
