"""Fourier transforms: the standard's extension, and NumPy's of two axes.

Transforms are NumPy's library calls on rows, so that boxes of rows can be transformed where
not all fit. Shifts and frequencies are Weft's own: they fuse, and stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from weft import functions as wf
from weft.array import Array
from weft.array.making import turned_back
from weft.errors import ArgumentError, DTypeError, ShapeError, user_place
from weft.frontend import extent as extents
from weft.frontend import layout
from weft.frontend.extent import Extent
from weft.frontend.graph import Node
from weft.functions.arguments import array_node, as_inexact, axes_of, dtype_of, one_axis
from weft.functions.library_calls import library_call, rows_along
from weft.functions.manipulation import in_two_slices
from weft.ops.dtypes import DType

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

Transform: TypeAlias = Callable[..., Array]

_NORMS = ("backward", "ortho", "forward")


# ---------------------------------------------------------------- along one axis


def fft(x: Any, /, n: Any = None, axis: int = -1, norm: str | None = "backward") -> Array:
    """The discrete Fourier transform along an axis: complex, of the precision of x.

    Parameters
    ----------
    x : array
        Integers count as float64.
    n : int, optional
        How many elements are transformed: fewer, or zeros after them; by default all.
    axis : int
    norm : {"backward", "ortho", "forward"}
        Whether the way back is divided by n, both ways by its root, or this way by n.

    Raises
    ------
    ArgumentError
        For transforms of no elements, and another norm.
    ShapeError
        For a scalar, and an axis that the array does not have.
    """
    return _complex("fft", x, n, axis, norm)


def ifft(x: Any, /, n: Any = None, axis: int = -1, norm: str | None = "backward") -> Array:
    """The way back from `fft`, which has the parameters."""
    return _complex("ifft", x, n, axis, norm)


def rfft(x: Any, /, n: Any = None, axis: int = -1, norm: str | None = "backward") -> Array:
    """The transform of real numbers along an axis: its first n//2 + 1 elements, that tell all.

    `fft` has the parameters.

    Raises
    ------
    DTypeError
        For complex numbers.
    """
    return _of_reals("rfft", x, n, axis, norm)


def ihfft(x: Any, /, n: Any = None, axis: int = -1, norm: str | None = "backward") -> Array:
    """The way back from `hfft`: the first n//2 + 1 elements, that tell all, of a spectrum's.

    `fft` has the parameters.

    Raises
    ------
    DTypeError
        For complex numbers.
    """
    return _of_reals("ihfft", x, n, axis, norm)


def irfft(x: Any, /, n: Any = None, axis: int = -1, norm: str | None = "backward") -> Array:
    """The way back from `rfft`: n real numbers, by default twice as many as x has less two."""
    return _to_reals("irfft", x, n, axis, norm)


def hfft(x: Any, /, n: Any = None, axis: int = -1, norm: str | None = "backward") -> Array:
    """The transform, which is real, of what its first n//2 + 1 elements tell: x.

    n is by default twice as many as x has less two.
    """
    return _to_reals("hfft", x, n, axis, norm)


def _complex(routine: str, x: Any, n: Any, axis: int, norm: str | None) -> Array:
    rows, order = rows_along(as_inexact(array_node(x)), axis, routine)
    length = _length(rows.shape[-1] if n is None else n, routine)
    return _transformed(routine, rows, length, rows.dtype.complex, norm, order)


def _of_reals(routine: str, x: Any, n: Any, axis: int, norm: str | None) -> Array:
    rows, order = rows_along(as_inexact(array_node(x)), axis, routine)
    if rows.dtype.is_complex:
        raise DTypeError(
            f"{routine} of {rows.dtype.numpy}", "real numbers",
            "wf.real(x), or " + ("fft" if routine == "rfft" else "ifft"), user_place(),
        )  # fmt: skip
    length = _length(rows.shape[-1] if n is None else n, routine)
    rows = _of_length(rows, length)
    return _transformed(routine, rows, length // 2 + 1, rows.dtype.complex, norm, order)


def _to_reals(routine: str, x: Any, n: Any, axis: int, norm: str | None) -> Array:
    rows, order = rows_along(as_inexact(array_node(x)), axis, routine)
    length = _length((rows.shape[-1] - 1) * 2 if n is None else n, routine)
    return _transformed(routine, rows, length, rows.dtype.real, norm, order)


def _transformed(
    routine: str, rows: Node, length: Extent, dtype: DType, norm: str | None, order: list[int]
) -> Array:
    """Rows of a length and dtype that a routine makes, turned back from the order of axes."""
    if norm is None:
        norm = "backward"
    if norm not in _NORMS:
        expected = f"one of {', '.join(_NORMS)}"
        raise ArgumentError(f"norm {norm!r}", expected, place=user_place())
    shape = (*rows.shape[:-1], length)
    options = (("norm", norm),)
    return turned_back(library_call(routine, options, (rows,), shape, dtype, (length,)), order)


def _length(n: Any, routine: str) -> Extent:
    """How many elements are transformed: some."""
    length = extents.literal(n)
    if length.symbols or extents.at_least(length, extents.constant(1)):
        return length
    raise ArgumentError(f"{routine} of {length.value} elements", "1 or more", place=user_place())


def _of_length(rows: Node, length: Extent) -> Node:
    """Rows of which some elements are left out, or zeros follow."""
    own = rows.shape[-1]
    if own.poly == length.poly:
        return rows
    if extents.at_least(own, length):
        return layout.take_slice(rows, len(rows.shape) - 1, layout.ZERO, length)
    widths = [*[(0, 0)] * (len(rows.shape) - 1), (0, length - own)]
    return wf.pad(Array(rows), widths)._node


# ---------------------------------------------------------------- along several axes


def fftn(x: Any, /, s: Any = None, axes: Any = None, norm: str | None = "backward") -> Array:
    """The transform along several axes.

    Parameters
    ----------
    x : array
    s : sequence of int, optional
        How many elements are transformed of each of the axes (-1: all).
    axes : sequence of int, optional
        By default all, or the last ones, as many as `s` has.
    norm : {"backward", "ortho", "forward"}
        As of `fft`.

    Raises
    ------
    ArgumentError
        For as many lengths as there are no axes, for transforms of no elements, another norm.
    """
    return _along(fft, x, _axes(x, s, axes), norm)


def ifftn(x: Any, /, s: Any = None, axes: Any = None, norm: str | None = "backward") -> Array:
    """The way back from `fftn`, which has the parameters."""
    return _along(ifft, x, _axes(x, s, axes), norm)


def rfftn(x: Any, /, s: Any = None, axes: Any = None, norm: str | None = "backward") -> Array:
    """The transform of real numbers along several axes: of the last one the half that tells all.

    `fftn` has the parameters.

    Raises
    ------
    DTypeError
        For complex numbers.
    """
    *others, (axis, n) = _some_axes(x, s, axes, "rfftn")
    return _along(fft, rfft(x, n=n, axis=axis, norm=norm), others, norm)


def irfftn(x: Any, /, s: Any = None, axes: Any = None, norm: str | None = "backward") -> Array:
    """The way back from `rfftn`, which has the parameters.

    The last axis is by default twice as long as that of x less two.
    """
    *others, (axis, n) = _some_axes(x, s, axes, "irfftn")
    n = (n - 1) * 2 if s is None else n
    return irfft(_along(ifft, x, others[::-1], norm), n=n, axis=axis, norm=norm)


def fft2(
    a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = "backward"
) -> Array:
    """NumPy's `fft2`: the transform along two axes."""
    return fftn(a, s=s, axes=axes, norm=norm)


def ifft2(
    a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = "backward"
) -> Array:
    """NumPy's `ifft2`: the way back from `fft2`."""
    return ifftn(a, s=s, axes=axes, norm=norm)


def rfft2(
    a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = "backward"
) -> Array:
    """NumPy's `rfft2`: the transform of real numbers along two axes."""
    return rfftn(a, s=s, axes=axes, norm=norm)


def irfft2(
    a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = "backward"
) -> Array:
    """NumPy's `irfft2`: the way back from `rfft2`."""
    return irfftn(a, s=s, axes=axes, norm=norm)


def _axes(x: Any, s: Any, axes: Any) -> list[tuple[int, Any]]:
    """The axes of several, and how many elements are transformed of each."""
    shape = array_node(x).shape
    counts = None if s is None else _listed(s)
    if axes is None:
        count = len(shape) if counts is None else len(counts)
        numbers = list(range(-count, 0))
    else:
        numbers = _listed(axes)
    places = [one_axis(axis, len(shape)) for axis in numbers]
    if counts is None:
        return [(place, shape[place]) for place in places]
    if len(counts) != len(places):
        raise ArgumentError(
            f"{len(counts)} lengths of {len(places)} axes", "as many", place=user_place()
        )
    pairs = zip(places, counts, strict=True)
    return [(k, shape[k] if isinstance(n, int) and n == -1 else n) for k, n in pairs]


def _listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, Sequence | np.ndarray) else [given]


def _some_axes(x: Any, s: Any, axes: Any, what: str) -> list[tuple[int, Any]]:
    found = _axes(x, s, axes)
    if not found:
        raise ShapeError(f"{what} along no axis", "one or more", place=user_place())
    return found


def _along(
    transform: Transform, x: Any, axes: Sequence[tuple[int, Any]], norm: str | None
) -> Array:
    """Transforms one after the other, from the last axis to the first."""
    found = Array(array_node(x))
    for axis, n in reversed(axes):
        found = transform(found, n=n, axis=axis, norm=norm)
    return found


# ---------------------------------------------------------------- frequencies


def fftfreq(n: Any, /, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of what `fft` gives of n elements: 0, 1, ..., -2, -1 over n * d.

    Parameters
    ----------
    n : int
    d : float
        How far apart elements are.
    dtype : dtype, optional
        float64 by default.

    Raises
    ------
    ArgumentError
        For less than one element.
    """
    length = _length(n, "fftfreq")
    index = wf.arange(length, device=device)
    signed = wf.where(index < (length + 1) // 2, index, index - length)
    return _frequencies(signed, length, d, dtype)


def rfftfreq(n: Any, /, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of what `rfft` gives of n elements: 0, 1, ..., n//2 over n * d.

    `fftfreq` has the parameters.
    """
    length = _length(n, "rfftfreq")
    return _frequencies(wf.arange(length // 2 + 1, device=device), length, d, dtype)


def _frequencies(index: Array, length: Extent, d: Any, dtype: Any) -> Array:
    wanted = dtype_of(dtype, DType.F64)
    if wanted.kind != "f":
        raise DTypeError(f"frequencies of {wanted.numpy}", "floats", place=user_place())
    return wf.astype(index * (1.0 / (length * d)), wanted.numpy)


def fftshift(x: Any, /, axes: Any = None) -> Array:
    """Spectra with their frequency 0 in the middle of some axes (by default of all)."""
    return _shifted(x, axes, lambda extent: extent // 2)


def ifftshift(x: Any, /, axes: Any = None) -> Array:
    """The way back from `fftshift`."""
    return _shifted(x, axes, lambda extent: (extent + 1) // 2)


def _shifted(x: Any, axes: Any, shift: Callable[[Extent], Extent]) -> Array:
    node = array_node(x)
    for axis in axes_of(axes, len(node.shape)):
        node = in_two_slices(node, axis, shift)
    return Array(node)
