"""The elements that a mask selects: computed where they are, since their number is not known.

    z[inside] = z[inside] ** 2 + c[inside]  =>  z[...] = where(inside, z ** 2 + c, z)
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from weft import functions
from weft.array import Array
from weft.array.masks import alike
from weft.frontend import lengths
from weft.frontend.extent import product
from weft.frontend.graph import size_scalar
from weft.functions import masked, statistical
from weft.functions.creation import iota
from weft.functions.masked import REDUCTIONS
from weft.kernel.frame import Frame, plain
from weft.kernel.numbers import weak
from weft.kernel.values import Reference, Selection, WritesSelection
from weft.ops.dtypes import DType


def is_mask(key: Any, array: Array) -> bool:
    """Whether a key is one mask over all dimensions of an array."""
    return (
        isinstance(key, Array) and key._node.dtype is DType.BOOL and key.ndim == array.ndim > 0
    )


def is_mask_of_rows(key: Any, array: Array) -> bool:
    """Whether a key is one mask over the first dimensions of an array."""
    return isinstance(key, Array) and key._node.dtype is DType.BOOL and 0 < key.ndim < array.ndim


def _spread(of: Array, mask: Array) -> Array:
    """A mask with dimensions of one for those of an array after it."""
    for _ in range(of.ndim - mask.ndim):
        mask = functions.expand_dims(mask, axis=-1)
    return mask


def require_separate(frame: Frame, node: ast.AST, of: Selection) -> NoReturn:
    """Have an array of its own for what is written: the function is traced again."""
    if of.held is None:
        refuse(frame, node, "a write to elements that a mask selects, which no variable holds")
    raise WritesSelection(of.held.place)


def shown(frame: Frame, of: Selection) -> Reference:
    """An array of the elements, which NumPy would show by views."""
    made = frame.memory.make(compacted(of))
    if of.held is not None:
        made.cell.source = of
        of.held.is_shown = True
    return made


def may_be_replaced(frame: Frame, of: Selection) -> bool:
    """Whether all that holds it is variables of this call, so that they may be bound anew."""
    held = of.held
    if held is None or held.frame is not frame or held.depth < len(frame.memory.regions):
        return False
    inside = any(_holds(value, of) for value in frame.variables.values() if value is not of)
    return not held.is_shown and not inside


def _holds(value: Any, of: Selection) -> bool:
    if isinstance(value, tuple | list | dict):
        parts = value.values() if isinstance(value, dict) else value
        return any(_holds(part, of) for part in parts)
    return value is of


def is_within(value: Any) -> bool:
    """Whether a value is what a mask selects, or holds it."""
    if isinstance(value, tuple | list):
        return any(map(is_within, value))
    return isinstance(value, Selection)


def lifted(
    frame: Frame, node: ast.AST, function: Callable[..., Any], operands: Sequence[Any]
) -> Any:
    """An elementwise function of operands, of which selections have one mask."""
    masks = [operand.mask for operand in operands if isinstance(operand, Selection)]
    if not masks:
        return function(*operands)
    ranks = {operand.array.ndim for operand in operands if isinstance(operand, Selection)}
    rest = min(ranks) - masks[0].ndim  # dimensions that are whole
    if (
        len(ranks) > 1
        or not all(alike(mask._node, masks[0]._node) for mask in masks)
        or any(isinstance(operand, Array) and operand.ndim > rest for operand in operands)
    ):
        return function(*compacted(operands))
    arrays = [one.array if isinstance(one, Selection) else one for one in operands]
    return Selection(function(*arrays), masks[0])


def is_where_read(target: Array, key: Any, value: Any) -> bool:
    """Whether what a mask selects is written where that mask selects."""
    if not isinstance(value, Selection):
        return False
    is_one = is_mask(key, target) or is_mask_of_rows(key, target)
    return is_one and alike(key._node, value.mask._node)


def apart(target: Array, key: Any, value: Any) -> tuple[Any, Any]:
    """A key and what is written there, where that is of as many elements as the run counts."""
    if is_within(key) or is_within(value):
        key, value = compacted(key), compacted(value)
    if is_mask(key, target) or is_mask_of_rows(key, target):
        rank = getattr(plain(value), "ndim", 0)
        if rank > target.ndim - key.ndim:
            key = compacted(positions(key))
    return key, value


def written(target: Array, key: Any, value: Selection) -> Array:
    """The target with its elements replaced that the value's mask selects."""
    new = functions.astype(value.array, target.dtype)
    return functions.where(_spread(target, key), new, target)


def distinct(array: Array) -> Selection:
    """What NumPy's `unique` gives: of the elements in order, the first of equal ones."""
    ordered = functions.sort(array, axis=None)
    before = functions.roll(ordered, 1)
    apart = ordered != before
    if ordered.dtype.kind == "f":
        apart = apart & ~(functions.isnan(ordered) & functions.isnan(before))
    return Selection(ordered, apart | (functions.arange(ordered.shape[0]) == 0))


def distinct_and_counts(array: Array) -> tuple[Selection, Selection]:
    """These, and how often each is there."""
    found = distinct(array)
    ordered = found.array
    counts = functions.searchsorted(ordered, ordered, side="right") - functions.arange(
        ordered.shape[0]
    )
    return found, Selection(counts, found.mask)


def by_positions(key: Any) -> Any:
    """A key with the positions that each mask in it selects, if it is of several parts."""
    if not isinstance(key, tuple):
        return key
    parts: list[Any] = []
    for part in key:
        is_one = isinstance(part, Array) and part.ndim and part.dtype == bool
        parts += compacted(positions(part)) if is_one else (part,)
    return tuple(parts)


def compacted(value: Any) -> Any:
    """What masks select, in containers too, in arrays of lengths that only the run knows."""
    if isinstance(value, tuple | list):
        return type(value)(map(compacted, value))
    if not isinstance(value, Selection):
        return value
    if _is_empty(value.mask):
        return functions.zeros((0, *value.array.shape[value.mask.ndim :]), dtype=value.array.dtype)
    return one_by_one(value)(functions.arange(count(value)))


def _is_empty(mask: Array) -> bool:
    """Whether a mask certainly has no elements: then there is none that could be read."""
    return any(lengths.is_just(length, 0) for length in mask._node.shape)


def element(frame: Frame, node: ast.AST, of: Selection, index: Any) -> Array:
    """The element, or row, of a number; a negative one counts from the end."""
    many = count(of)
    number = functions.where(index < 0, index + many, index)
    inside = (number >= 0) & (number < many)
    error = IndexError("an index out of bounds, of elements that a mask selects")
    frame.trace.assertions.note(frame.memory, inside, error, frame.place(node))
    if _is_empty(of.mask):
        return functions.zeros(of.array.shape[of.mask.ndim :], dtype=of.array.dtype)
    return one_by_one(of)(functions.where(inside, number, 0))


def narrowed(of: Selection, key: Any) -> Selection | None:
    """Of these elements those for which a condition of them holds; None for any other key."""
    if not isinstance(key, Selection) or key.array._node.dtype is not DType.BOOL:
        return None
    if key.array.ndim != key.mask.ndim or not alike(key.mask._node, of.mask._node):
        return None
    return Selection(of.array, of.mask & key.array)


def one_by_one(of: Selection) -> Callable[[Any], Array]:
    """What gives the element, or row, of a number that there is."""
    ones = functions.astype(of.mask, np.dtype(np.int64)).reshape(-1)
    before = functions.cumulative_sum(ones) - ones
    rows = of.array
    if of.mask.ndim > 1:
        rows = rows.reshape((*before.shape, *rows.shape[of.mask.ndim :]))
    return lambda number: rows[functions.searchsorted(before, number, side="right") - 1]


def rows_of_positions(array: Array) -> Selection:
    """What NumPy's `argwhere` gives: a row for each element that is not 0."""
    found = positions(array)
    return Selection(functions.stack([along.array for along in found], axis=-1), found[0].mask)


def positions(array: Array) -> tuple[Selection, ...]:
    """What NumPy's `nonzero` gives: for each axis where the elements are that are not 0."""
    mask = functions.astype(array, np.dtype(bool))
    found = []
    for axis in range(array.ndim):
        found.append(Selection(Array(iota(array._node.shape, axis)), mask))
    return tuple(found)


def filled(of: Selection, value: Any) -> Array:
    """The array with a value where the mask selects nothing."""
    return masked.filled(of.array, _spread(of.array, of.mask), value)


def count(of: Selection) -> Array:
    """How many elements there are: a Python int, which extents know to be 0 to all."""
    everything = Array(size_scalar(product(of.mask._node.shape)))
    many = functions.maximum(functions.count_nonzero(of.mask), 0)
    return weak(functions.minimum(many, everything), DType.I64)


def is_of_masks(name: str) -> bool:
    """Whether a method, or a function of its name, is computed where a mask selects."""
    return name in ("copy", "len") or name in REDUCTIONS


OTHER = object()


def axis_alone(arguments: list[Any], named: dict[str, Any]) -> Any:
    """The axis that is given, None where none is; `OTHER` where more is given."""
    if not named and len(arguments) <= 1:
        return arguments[0] if arguments else None
    return named["axis"] if named.keys() == {"axis"} and not arguments else OTHER


def method(
    frame: Frame, node: ast.AST, of: Selection, name: str, axis: Any = None,
    of_python: bool = False,
) -> Any:  # fmt: skip
    """What a method gives, or the function of its name, of all or along the rows of a mask.

    `of_python`: it is Python's function, which says by another error that there is nothing.
    """
    if name == "copy":
        return Selection(of.array, of.mask)
    if name == "len":
        return count(of)
    if name in ("max", "min"):
        _require_any(frame, node, of, name, of_python)
    mask = functions.broadcast_to(_spread(of.array, of.mask), of.array.shape)
    if axis is None or (axis in (0, -1) and of.array.ndim == 1):
        return REDUCTIONS[name](of.array, mask)
    if name not in masked.ALONG or of.mask.ndim > 1 or type(axis) is not int or axis != 0:
        refuse(frame, node, f"{name} along {axis} of elements that a mask selects")
    return masked.ALONG[name](of.array, mask, axis)


def quantile(of: Selection, q: Any) -> Array:
    mask = functions.broadcast_to(_spread(of.array, of.mask), of.array.shape)
    return masked.quantile(of.array, mask, q)


def _require_any(
    frame: Frame, node: ast.AST, of: Selection, name: str, of_python: bool
) -> None:
    """NumPy's error, or Python's, where a mask selects nothing: there is no greatest element."""
    numpys = statistical.NOTHING.format(f"{name}imum")
    error = ValueError(f"{name}() iterable argument is empty" if of_python else numpys)
    frame.trace.assertions.note(frame.memory, functions.any(of.mask), error, frame.place(node))


def refuse(frame: Frame, node: ast.AST, what: str) -> NoReturn:
    frame.refuse(
        node, f"{what}: how many they are is not known while compiling",
        "elementwise operations on elements of one mask, written where it selects, or reduced",
        "np.where(mask, new, old), or a loop that counts them",
    )  # fmt: skip
