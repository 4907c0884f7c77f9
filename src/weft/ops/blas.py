"""Updates of matrices by products, by the BLAS that NumPy has loaded.

NumPy's own functions give products as new arrays. The library's routines add them to what is
there, scaled, and to one triangle alone (Dongarra and others, "A Set of Level 3 Basic Linear
Algebra Subprograms", 1990: gemm, syrk, syr2k).
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.records import dataclass

NDArray = npt.NDArray[Any]

ROW_MAJOR = 101
UPPER, LOWER = 121, 122
PLAIN, TRANSPOSED = 111, 112

_LETTERS = {"f": "s", "d": "d"}  # NumPy's for a dtype, and BLAS's
_NAMES = ("scipy_cblas_{}64_", "cblas_{}64_", "scipy_cblas_{}", "cblas_{}")
_MOST = 2**31  # extents from here on need a library of 64-bit integers


@functools.cache
def _routine(letter: str, name: str) -> tuple[Callable[..., None], bool] | None:
    """A routine, and whether it takes 64-bit integers; None where NumPy's library has none."""
    if sys.maxsize < 2**32 or sys.byteorder != "little" or sys.platform == "darwin":
        return None
    try:
        core: Any = np._core  # type: ignore[attr-defined]
        library = ctypes.CDLL(core._multiarray_umath.__file__)
    except (AttributeError, OSError):
        return None
    for spelling in _NAMES:
        function = getattr(library, spelling.format(letter + name), None)
        if function is not None:
            function.restype = None
            return function, "64" in spelling
    return None


def _address(routine: Callable[..., None]) -> int:
    return ctypes.cast(routine, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Bound:
    """A routine for matrices of some shapes that lie in some way: addresses are what is left.

    Attributes
    ----------
    routine : callable
    single : bool
        Precision.
    triangle : int
        UPPER or LOWER; 0 where all of the target is written.
    lie : tuple of int
        PLAIN or TRANSPOSED, for each factor: two of gemm, whose right one is as it takes it.
    sizes : (int, int, int)
        Rows and columns of the target, and the terms of each sum.
    steps : tuple of int
        How far rows or columns are apart: of the factors, and of the target.
    """

    routine: Callable[..., None]
    single: bool
    triangle: int
    lie: tuple[int, ...]
    sizes: tuple[int, int, int]
    steps: tuple[int, ...]

    @property
    def address(self) -> int:
        """Of the routine."""
        return _address(self.routine)

    def call(self, alpha: float, factors: Sequence[int], beta: float | None, target: int) -> bool:
        """Add alpha * product to beta * target; False where nothing was done.

        That is where a factor is 0, which the library takes for what makes zeros even of NaN.
        With a beta of None the target is not read.
        """
        if alpha == 0 or beta == 0:
            return False
        scalar = ctypes.c_float if self.single else ctypes.c_double
        integer, address = ctypes.c_int64, ctypes.c_void_p
        rows, columns, inner = self.sizes
        flags = (self.triangle, self.lie[0]) if self.triangle else self.lie
        sizes = (rows, inner) if self.triangle else (rows, columns, inner)
        matrices = [
            each
            for place, step in zip(factors, self.steps[:-1], strict=False)
            for each in (address(place), integer(step))
        ]
        kept = scalar(0.0 if beta is None else beta)
        self.routine(  # of an int64, the low half is what a 32-bit integer is read from
            *map(ctypes.c_int, (ROW_MAJOR, *flags)), *map(integer, sizes), scalar(alpha),
            *matrices, kept, address(target), integer(self.steps[-1]),
        )  # fmt: skip
        return True


def bound(
    target: NDArray, left: NDArray, right: NDArray, part: str, twice: bool
) -> Bound | None:
    """The routine that adds left @ right to a part of a matrix; None where there is none.

    Parameters
    ----------
    target : ndarray
        It shares no memory with the factors.
    left, right : ndarray
        Matrices of `target`'s dtype.
    part : {"all", "lower", "upper"}
        What is written; the triangles have the diagonal, and are of squares.
    twice : bool
        Of a triangle: what is added is the product and its transpose.
    """
    lie = [_lie(array) for array in (target, left, right if part == "all" else right.T)]
    found = [place for place in lie if place is not None]
    letter = _LETTERS.get(target.dtype.char)
    if len(found) < 3 or found[0][0] != PLAIN or letter is None or not target.size:
        return None
    flags = tuple(flag for flag, _ in found[1:])
    triangle = {"upper": UPPER, "lower": LOWER}.get(part, 0)
    name = "gemm" if not triangle else "syr2k" if twice else "syrk"
    if triangle and (flags[0] != flags[1] or not (twice or mirrored(left, right))):
        return None
    routine = _routine(letter, name)
    if routine is None or not (routine[1] or max(*target.shape, *left.shape) < _MOST):
        return None
    first, second, last = found[1][1], found[2][1], found[0][1]
    steps = (first, last) if name == "syrk" else (first, second, last)
    sizes = (*target.shape, left.shape[1])
    return Bound(routine[0], letter == "s", triangle, flags, sizes, steps)


def update(
    target: NDArray, left: NDArray, right: NDArray, alpha: float, beta: float | None, part: str,
    twice: bool,
) -> bool:  # fmt: skip
    """As `bound`, at once, with copies of what lies otherwise; False where it cannot be."""
    lie = _lie(target)
    if lie is None or lie[0] != PLAIN:
        rows = np.ascontiguousarray(target)
        done = update(rows, left, right, alpha, beta, part, twice)
        if done:
            target[...] = rows
        return done
    found = bound(target, left, right, part, twice)
    if found is None and (part == "all" or twice):
        left, right = np.ascontiguousarray(left), np.ascontiguousarray(right.T).T
        if part == "all":
            right = np.ascontiguousarray(right)
        found = bound(target, left, right, part, twice)
    return found is not None and found.call(
        alpha, (left.ctypes.data, right.ctypes.data), beta, target.ctypes.data
    )


def add_product(target: NDArray, left: NDArray, right: NDArray, part: str) -> bool:
    """Add left @ right to a part of a matrix; False where the library cannot as they lie."""
    if not target.ndim == left.ndim == right.ndim == 2:
        return False
    found = bound(target, left, right, part, False)
    factors = left.ctypes.data, right.ctypes.data
    return found is not None and found.call(1.0, factors, 1.0, target.ctypes.data)


@dataclass(frozen=True, slots=True)
class Gram:
    """A matrix times its own transpose, as the library's routines take it.

    Attributes
    ----------
    multiply, square : int
        The addresses of gemm and syrk.
    single : bool
        Precision.
    lies : int
        How the left factor does.
    sizes : (int, int)
        Rows of the target, and the terms of each sum.
    steps : (int, int)
        How far rows or columns are apart: of the left factor, and of the target.
    """

    multiply: int
    square: int
    single: bool
    lies: int
    sizes: tuple[int, int]
    steps: tuple[int, int]


def gram(target: NDArray, left: NDArray, right: NDArray) -> Gram | None:
    """What of the library makes left @ right where the one is the other's transpose.

    None where it is not, or the library has nothing for it. `target` shares no memory with them.
    """
    if not left.ndim == right.ndim == target.ndim == 2 or not mirrored(left, right):
        return None
    if not (left.flags.aligned and target.flags.aligned):
        return None
    return _gram(target.dtype, left.shape, left.strides, target.strides)


@functools.cache
def _gram(
    dtype: np.dtype[Any], shape: tuple[int, int], strides: tuple[int, int], into: tuple[int, int]
) -> Gram | None:
    rows, _ = shape
    letter = _LETTERS.get(dtype.char)
    lies = _lies(shape, strides, dtype.itemsize)
    target = _lies((rows, rows), into, dtype.itemsize)
    if letter is None or target is None or target[0] != PLAIN or lies is None:
        return None
    found = [_routine(letter, name) for name in ("gemm", "syrk")]
    routines = [each[0] for each in found if each and (each[1] or max(shape) < _MOST)]
    if len(routines) < 2:
        return None
    multiply, square = map(_address, routines)
    return Gram(multiply, square, letter == "s", lies[0], shape, (lies[1], target[1]))


def _lie(array: NDArray) -> tuple[int, int] | None:
    """How a matrix lies: by rows or by columns, and how far these are apart."""
    return _lies(array.shape, array.strides, array.itemsize) if array.flags.aligned else None


def _lies(
    shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int
) -> tuple[int, int] | None:
    rows, columns = shape
    steps = [stride // itemsize for stride in strides]
    if any(stride % itemsize for stride in strides):
        return None
    if (steps[1] == 1 or columns <= 1) and (steps[0] >= max(columns, 1) or rows <= 1):
        return PLAIN, max(steps[0], columns, 1) if rows > 1 else max(columns, 1)
    if steps[0] == 1 and steps[1] >= max(rows, 1):
        return TRANSPOSED, steps[1]
    return None


def mirrored(left: NDArray, right: NDArray) -> bool:
    """Whether the one is the other's transpose: the same memory."""
    return (
        left.shape == right.shape[::-1]
        and left.strides == right.strides[::-1]
        and left.__array_interface__["data"] == right.__array_interface__["data"]
    )
