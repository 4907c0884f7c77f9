"""Library routines: what `fun.Call` names, run by NumPy on whole arrays.

The rule for result types treats extents as opaque: it compares and rearranges them, so that
it serves polynomials and integers alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.errors import DTypeError, InternalError, LinearAlgebraError, Place, ShapeError
from weft.ops import blas
from weft.ops.dtypes import DType, from_numpy
from weft.ops.factorisations import FACTORISATIONS
from weft.ops.rules import ArrayType, NDArray, Options, Rule, broadcast, text
from weft.ops.runs import SORTING_IN_RUNS, order_shows
from weft.ops.transforms import TRANSFORMS
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Product:
    """A call of BLAS for arrays that lie in some way.

    Attributes
    ----------
    bound : Bound
    alpha, beta : ndarray, float or None
        What the product and the target are scaled by: an argument, a number, or nothing.
    factors : tuple of ndarray
    target : ndarray
    """

    bound: blas.Bound
    alpha: NDArray | float
    factors: tuple[NDArray, ...]
    beta: NDArray | None
    target: NDArray


@dataclass(frozen=True, slots=True)
class Routine:
    """A library routine.

    Attributes
    ----------
    rule : callable
        (argument types, options) -> result types; raises ShapeError or DTypeError.
    execute : callable
        (*arrays, out, **options) writes each result into the array of `out`.
    defaults : Mapping
        The options that it takes, with their defaults.
    updates : bool
        The result is an update of the first argument, and may be given its memory.
    beside : tuple of int
        What it makes besides its results, and gives back: so many times the bytes of its
        arguments, and of its results, at most.
    rows : int
        And so many times those of a row of its results.
    bind : callable or None
        (*arrays, out, **options) -> what of BLAS does it for arrays that lie so, and the
        arrays, scalars among them, that it takes (`weft.ops.blas.Bound.call`); or None.
    """

    name: str
    rule: Rule
    execute: Callable[..., None]
    defaults: Options
    updates: bool = False
    beside: tuple[int, int] = (0, 0)
    rows: int = 0
    bind: Callable[..., Product | None] | None = None

    def result_types(
        self, arguments: tuple[ArrayType, ...], options: Options, extents: tuple[Any, ...] = ()
    ) -> tuple[ArrayType, ...]:
        """The dtypes and shapes of the results (shape () for a scalar).

        `extents` are those that neither arguments nor options tell.
        """
        options = self._complete(options)
        return self.rule(arguments, {**options, "extents": extents} if extents else options)

    def run(
        self, *arrays: NDArray, out: tuple[NDArray, ...] | None = None,
        place: Place | None = None, extents: tuple[int, ...] = (), **options: Any,
    ) -> tuple[NDArray, ...]:  # fmt: skip
        """The results, in the arrays of `out` where they are given (any strides).

        Raises
        ------
        LinearAlgebraError
            For a matrix that has no such factorisation; it names the place.
        """
        options = {**self._complete(options)}
        if out is None:
            types = tuple((from_numpy(array.dtype), array.shape) for array in arrays)
            results = self.result_types(types, options, extents)
            out = tuple(np.empty(shape, dtype.numpy) for dtype, shape in results)
        try:
            self.execute(*arrays, out=out, **options)
        except LinearAlgebraError as error:
            if place is not None:
                error.move_to(place)
            raise
        return out

    def _complete(self, options: Options) -> Options:
        unknown = options.keys() - self.defaults.keys()
        if unknown:
            raise InternalError(f"{self.name} has no option {', '.join(sorted(unknown))}")
        return {**self.defaults, **options}


def _matmul_rule(arguments: tuple[ArrayType, ...], options: Options) -> tuple[ArrayType, ...]:
    (dtype, left), (other, right) = arguments
    if dtype is not other:
        raise DTypeError(f"matmul of {dtype.numpy} and {other.numpy}", "one dtype")
    if not left or not right:
        raise ShapeError("matmul of a scalar", "arrays of at least one dimension")
    rows = left[-2:-1] if len(left) > 1 else ()
    inner, columns = (right[-2], right[-1:]) if len(right) > 1 else (right[0], ())
    if left[-1] != inner:
        raise ShapeError(
            f"matmul of shapes {text(left)} and {text(right)}",
            f"as many rows on the right as columns on the left ({left[-1]}, not {inner})",
        )
    batch = broadcast(left[:-2], right[:-2])
    return ((dtype, (*batch, *rows, *columns)),)


def _matmul(left: NDArray, right: NDArray, *, out: tuple[NDArray, ...]) -> None:
    if out[0].ndim == 0:
        out[0][()] = np.matmul(left, right)
    else:
        np.matmul(left, right, out=out[0])


def _bind_matmul(left: NDArray, right: NDArray, *, out: tuple[NDArray, ...]) -> Product | None:
    (target,) = out
    # What NumPy calls gemv or syrk for is left to it.
    if not left.ndim == right.ndim == 2 or min(*target.shape, left.shape[1]) < 2:
        return None
    if np.may_share_memory(left, right):
        return None
    found = blas.bound(target, left, right, "all", False)
    return None if found is None else Product(found, 1.0, (left, right), None, target)


def _bind_update(
    old: NDArray,
    left: NDArray,
    right: NDArray,
    alpha: NDArray,
    beta: NDArray | None = None,
    *,
    part: str = "all",
    twice: bool = False,
    out: tuple[NDArray, ...],
) -> Product | None:
    (target,) = out
    found = blas.bound(target, left, right, part, twice) if target is old else None
    return None if found is None else Product(found, alpha, (left, right), beta, target)


def _update_rule(arguments: tuple[ArrayType, ...], options: Options) -> tuple[ArrayType, ...]:
    old, left, right, *scalars = arguments
    ((dtype, shape),) = _matmul_rule((left, right), options)
    if len(shape) != 2 or old != (dtype, shape):
        raise ShapeError(
            f"an update of {old[0].numpy} {text(old[1])} by a product of {dtype.numpy} "
            f"{text(shape)}", "one type and shape, of two dimensions",
        )  # fmt: skip
    if any(scalar != (dtype, ()) for scalar in scalars) or len(scalars) not in (1, 2):
        raise DTypeError("factors of an update that are not one or two scalars of its dtype", "")
    return (old,)


def _update(
    old: NDArray,
    left: NDArray,
    right: NDArray,
    alpha: NDArray,
    beta: NDArray | None = None,
    *,
    part: str,
    twice: bool,
    out: tuple[NDArray, ...],
) -> None:
    """In a part of the matrix, alpha * (left @ right) + beta * old; elsewhere old.

    Without beta the part is overwritten. `twice`: the product and its transpose.
    """
    (target,) = out
    if target is not old:
        target[...] = old
    factors = alpha.item(), None if beta is None else beta.item()
    if blas.update(target, left, right, *factors, part, twice):
        return
    with np.errstate(invalid="ignore", over="ignore"):
        _update_part(target, left @ right, alpha, beta, part, twice)


def _update_part(
    target: NDArray, product: NDArray, alpha: NDArray, beta: NDArray | None, part: str,
    twice: bool,
) -> None:  # fmt: skip
    value = alpha * (product + product.T if twice else product)
    if beta is not None:
        value += beta * target
    if part != "all":
        whole = np.ones(value.shape, bool)
        np.copyto(target, value, where=np.tril(whole) if part == "lower" else np.triu(whole))
    else:
        target[...] = value


def _add_product_rule(
    arguments: tuple[ArrayType, ...], options: Options
) -> tuple[ArrayType, ...]:
    old, left, right = arguments
    ((dtype, shape),) = _matmul_rule((left, right), options)
    if old != (dtype, shape):
        raise ShapeError(
            f"a product of {dtype.numpy} {text(shape)} added to {old[0].numpy} {text(old[1])}",
            "one type and shape",
        )
    return (old,)


def _add_product(
    old: NDArray, left: NDArray, right: NDArray, *, block: int, out: tuple[NDArray, ...]
) -> None:
    """old + left @ right, whose terms are added in blocks of so many, one after another."""
    (target,) = out
    if target is not old:
        target[...] = old
    is_square = left.ndim == 2 and blas.mirrored(left, right)
    axis = max(right.ndim - 2, 0)
    for start in range(0, left.shape[-1], block):
        terms = slice(start, start + block)
        factors = left[..., terms], right[(slice(None),) * axis + (terms,)]
        if not blas.add_product(target, *factors, "lower" if is_square else "all"):
            with np.errstate(invalid="ignore", over="ignore"):
                target += np.matmul(*factors)
            is_square = False
    if is_square:
        for row in range(1, target.shape[0]):
            target[:row, row] = target[row, :row]


def _sort_rule(arguments: tuple[ArrayType, ...], options: Options) -> tuple[ArrayType, ...]:
    ((dtype, shape),) = arguments
    _check_axis(options["axis"], len(shape))
    return ((dtype, shape),)


def _argsort_rule(arguments: tuple[ArrayType, ...], options: Options) -> tuple[ArrayType, ...]:
    ((_, shape),) = arguments
    _check_axis(options["axis"], len(shape))
    return ((DType.I64, shape),)


def _check_axis(axis: int, rank: int) -> None:
    if not -rank <= axis < rank:
        raise ShapeError(f"axis {axis} of an array of {rank} dimensions")


def _sort(
    array: NDArray, *, axis: int, descending: bool, stable: bool, out: tuple[NDArray, ...]
) -> None:
    # Sorting in place in the destination; a reversed view of it gives descending order.
    target = np.flip(out[0], axis) if descending else out[0]
    target[...] = array
    target.sort(axis=axis, kind="stable" if stable and order_shows(array) else None)


def _argsort(
    array: NDArray, *, axis: int, descending: bool, stable: bool, out: tuple[NDArray, ...]
) -> None:
    kind: Any = "stable" if stable else None
    if not descending:
        out[0][...] = np.argsort(array, axis=axis, kind=kind)
        return
    # Reversed twice, so that equal elements keep their order; NumPy sorts a copy of such a view,
    # for which the destination has room.
    turned = np.flip(array, axis)
    if out[0].flags.c_contiguous and array.itemsize <= out[0].itemsize and not np.may_share_memory(
        array, out[0]
    ):  # fmt: skip
        there: NDArray = np.ndarray(array.shape, array.dtype, out[0])
        there[...] = turned
        turned = there
    order = np.argsort(turned, axis=axis, kind=kind)
    np.subtract(array.shape[axis] - 1, np.flip(order, axis), out=out[0])


def _partition_rule(arguments: tuple[ArrayType, ...], options: Options) -> tuple[ArrayType, ...]:
    (dtype, shape), (_, places) = arguments
    if not shape or len(places) != 1:
        raise ShapeError(f"partition of shape {text(shape)} at places of shape {text(places)}")
    return ((dtype, shape),)


def _partition(array: NDArray, places: NDArray, *, out: tuple[NDArray, ...]) -> None:
    """Rows with what order would bring to the places there, less before and greater after it.

    Places outside of a row are of none: what reads there says so.
    """
    out[0][...] = array
    inside = places[(places >= 0) & (places < array.shape[-1])]
    if inside.size:
        out[0].partition(np.unique(inside), axis=-1)


def _search_rule(arguments: tuple[ArrayType, ...], options: Options) -> tuple[ArrayType, ...]:
    (dtype, ordered), (other, values) = arguments
    if dtype is not other:
        raise DTypeError(f"searchsorted of {other.numpy} in {dtype.numpy}", "one dtype")
    if len(ordered) != 1:
        raise ShapeError(f"searchsorted in an array of shape {text(ordered)}", "one dimension")
    return ((DType.I64, values),)


def _search(ordered: NDArray, values: NDArray, *, side: Any, out: tuple[NDArray, ...]) -> None:
    out[0][...] = np.searchsorted(ordered, values, side)


_SORTING = {"axis": -1, "descending": False, "stable": True}

ROUTINES: dict[str, Routine] = {
    routine.name: routine
    for routine in (
        Routine("matmul", _matmul_rule, _matmul, {}, bind=_bind_matmul),
        Routine(
            "update", _update_rule, _update, {"part": "all", "twice": False}, True,
            bind=_bind_update,
        ),
        Routine(  # one of its blocks, where BLAS has nothing that adds
            "add_product", _add_product_rule, _add_product, {"block": 256}, beside=(0, 1)
        ),
        # Half of it, where it merges; and a result.
        Routine("sort", _sort_rule, _sort, _SORTING, beside=(0, 1)),
        Routine("argsort", _argsort_rule, _argsort, _SORTING, beside=(0, 2)),
        Routine("partition", _partition_rule, _partition, {}),
        Routine("searchsorted", _search_rule, _search, {"side": "left"}, beside=(0, 1)),
        *(
            Routine(name, rule, execute, options, beside=beside)
            for name, (rule, execute, options, beside) in SORTING_IN_RUNS.items()
        ),
        # What LAPACK overwrites, and works in; and results.
        *(Routine(name, *parts, beside=(2, 1)) for name, parts in FACTORISATIONS.items()),
        *(
            Routine(name, rule, execute, options, beside=beside, rows=rows)
            for name, (rule, execute, options, beside, rows) in TRANSFORMS.items()
        ),
    )
}


def routine(name: str) -> Routine:
    """The routine of a name; `InternalError` where there is none."""
    found = ROUTINES.get(name)
    if found is None:
        raise InternalError(f"no library routine is named {name!r}")
    return found
