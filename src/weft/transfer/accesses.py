"""Accesses as LMADs over the strides that arrays have at launch.

An access of affine index is base + sum of stride_k * digit_k with 0 <= digit_k < extent_k, where
each digit is an affine function of index variables: the constant-stride LMAD of section 4.2.
Strides here are positive and decreasing: a variable that moves backwards is counted from its end.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Affine:
    """constant + the sum of multiplier * variable."""

    constant: int
    terms: tuple[tuple[str, int], ...] = ()

    def plus(self, other: Affine, factor: int = 1) -> Affine:
        """This, and a multiple of another."""
        total = dict(self.terms)
        for name, multiplier in other.terms:
            total[name] = total.get(name, 0) + factor * multiplier
        terms = tuple((name, value) for name, value in total.items() if value)
        return Affine(self.constant + factor * other.constant, terms)

    def at(self, values: Mapping[str, Any]) -> Any:
        """Its value."""
        return self.constant + sum(m * values[name] for name, m in self.terms)


@dataclass(frozen=True, slots=True)
class Dimension:
    """stride * digit, for digits from 0 to extent - 1."""

    stride: int
    extent: int
    digit: Affine


@dataclass(frozen=True, slots=True)
class Access:
    """The elements base + sum of stride * digit over its dimensions, strides decreasing."""

    base: int
    dims: tuple[Dimension, ...]

    @property
    def last(self) -> int:
        """The greatest element."""
        return self.base + sum(d.stride * (d.extent - 1) for d in self.dims)

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(d.stride for d in self.dims)

    def extents(self, strides: Sequence[int]) -> tuple[int, ...]:
        """How many digits it has for each of some strides: 1 for those that it lacks."""
        known = {d.stride: d.extent for d in self.dims}
        return tuple(known.get(stride, 1) for stride in strides)

    def digits(self, strides: Sequence[int]) -> tuple[Affine, ...]:
        """Its digit for each of some strides."""
        known = {d.stride: d.digit for d in self.dims}
        return tuple(known.get(stride, Affine(0)) for stride in strides)

    def is_injective(self, variables: Collection[tuple[str, Variable]]) -> bool:
        """Whether it is known that no values of its variables meet what others do."""
        combinations = math.prod(high - low + 1 for _, (_, low, high) in variables)
        digits = [dim.extent for dim in self.dims]
        return combinations == math.prod(digits) and restricted(self.strides, digits)

    def elements(self) -> npt.NDArray[np.int64]:
        """Every element, by enumeration."""
        found = np.array([self.base], np.int64)
        for dim in self.dims:
            steps = dim.stride * np.arange(dim.extent, dtype=np.int64)
            found = (found[:, None] + steps).ravel()
        return np.unique(found)


Variable: TypeAlias = tuple[int, int, int]
"""Coefficient, least and greatest value of a variable of an access."""


def restricted(strides: Sequence[int], extents: Sequence[int], greatest: int = 0) -> bool:
    """Whether strides, in decreasing order, leave room for what lies below each.

    s_k > greatest + the sum of s_p * (u_p - 1) over p > k: definition 1 of the paper, and with the
    greatest residue of several LMADs its condition 14 (which has s_d - 1 for it).
    """
    below = greatest
    for stride, extent in zip(reversed(strides), reversed(extents), strict=True):
        if stride <= below:
            return False
        below += stride * (extent - 1)
    return True


def access(constant: int, variables: Mapping[str, Variable]) -> Access:
    """The access constant + the sum of coefficient * variable, each variable in its range."""
    base = constant
    by_stride: dict[int, tuple[int, Affine]] = {}
    for name, (factor, low, high) in variables.items():
        if factor == 0 or low >= high:
            base += factor * low
            continue
        start, sign = (low, 1) if factor > 0 else (high, -1)
        base += factor * start
        digit = Affine(-sign * start, ((name, sign),))
        extent, known = by_stride.get(abs(factor), (1, Affine(0)))
        by_stride[abs(factor)] = extent + high - low, known.plus(digit)
    dims = [Dimension(s, extent, digit) for s, (extent, digit) in by_stride.items()]
    dims.sort(key=lambda dim: -dim.stride)
    return Access(base, _joined(dims))


def _joined(dims: list[Dimension]) -> tuple[Dimension, ...]:
    """Dimensions that run into each other as one, where the smaller fills the larger's gaps.

    {(n : m*s), (u : s)} => {(m*(n - 1) + u : s)} where m <= u
    """
    done: list[Dimension] = []  # strides increasing
    for dim in reversed(dims):
        below = sum(d.stride * (d.extent - 1) for d in done)
        if done and dim.stride <= below:
            inner = done[-1]
            times, rest = divmod(dim.stride, inner.stride)
            if rest == 0 and times <= inner.extent:
                extent = times * (dim.extent - 1) + inner.extent
                done[-1] = Dimension(inner.stride, extent, inner.digit.plus(dim.digit, times))
                continue
        done.append(dim)
    return tuple(reversed(done))
