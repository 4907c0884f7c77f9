"""Parts of values: what subscripts and attributes give."""

from __future__ import annotations

import ast
import inspect
import math
from typing import Any

import numpy as np

from weft.array import Array
from weft.errors import interpreting
from weft.frontend.extent import Extent, product
from weft.functions import where
from weft.kernel import aliases, grids, grown, named, ordered, selection, tables
from weft.kernel.branches import kind
from weft.kernel.frame import Frame, NoneOperandError
from weft.kernel.keys import has_computed_step, is_view, resolved
from weft.kernel.lists import Grown
from weft.kernel.methods import Method
from weft.kernel.selection import is_mask
from weft.kernel.values import (
    ComputedView,
    KeyView,
    OneOf,
    PermutedView,
    Reference,
    ReshapedView,
    Selection,
)


def subscript(frame: Frame, node: ast.AST, value: Any, key: Any) -> Any:
    if isinstance(value, Array) and value.ndim:
        value = frame.memory.make(value)
    if isinstance(value, Grown):
        return grown.element(frame, node, value, key)
    if isinstance(value, Selection):
        if type(key) is int or tables.is_index(key):
            found = selection.element(frame, node, value, key)
            if found.ndim:
                made = frame.memory.make(found)
                if value.held is not None:
                    made.cell.source = value
                    value.held.is_shown = True
                return made
            return found
        narrower = selection.narrowed(value, key)
        if narrower is not None:
            return narrower
        value = selection.shown(frame, value)
    if not isinstance(value, Reference):
        if isinstance(value, Array | Extent | int | float | complex):
            frame.refuse(node, "an index into a number", "an array")
        if type(value) in (tuple, list) and tables.is_index(key):
            return tables.element(frame, node, value, key)
        if isinstance(key, Array) and not isinstance(value, grids.TRICKS):
            frame.refuse(
                node, f"a traced index into a {type(value).__name__}", "a constant index",
                "an array instead: np.array(...)",
            )  # fmt: skip
        if type(value) is list:
            grown.require_known(frame, value, key)
        if isinstance(value, grids.TRICKS):
            with interpreting(frame.place(node)):
                return grids.made(frame, node, value, key)
        return value[key]
    with interpreting(frame.place(node)):
        array = value.read()
        if isinstance(key, Selection) and key.array.ndim == 1 and key.array.dtype.kind in "iu":
            return Selection(array[where(key.mask, key.array, 0)], key.mask)
        if selection.is_within(key):
            key = selection.compacted(key)
        if is_mask(key, array) or selection.is_mask_of_rows(key, array):
            return Selection(array, key)
        key = selection.by_positions(key)
        is_stepped = has_computed_step(key)
        key = resolved(frame, array, key)
        if not is_view(key):
            if is_stepped:  # still a view, of what is not one in Weft
                refusal = "a write to a slice whose step is computed, by a name of its own"
                return value.through(ComputedView(lambda whole: whole[key], refusal))
            if isinstance(value, OneOf):
                return value.picked(lambda one: one.read()[key])
            return array[key]
        shown = value.through(KeyView(key))
        is_direct = not value.shows_part and not isinstance(value, OneOf)
        part = array[key] if is_direct else shown.read()
    if part.ndim and ordered.is_list(value):
        return ordered.as_list(frame, node, part)
    return shown if part.ndim else part


def attribute(frame: Frame, node: ast.AST, value: Any, name: str) -> Any:
    if isinstance(value, Array):
        if not value.ndim:
            if name in ("real", "imag", "dtype", "shape", "ndim", "size", "itemsize"):
                return getattr(value, name)
            return _method(frame, node, value, name)
        value = frame.memory.make(value)
    if isinstance(value, Selection):
        if name == "dtype":
            return value.array.dtype
        if name in ("size", "shape", "ndim"):
            count, rest = selection.count(value), value.array.shape[value.mask.ndim :]
            if name == "size":
                return math.prod(rest, start=count)
            return (count, *rest) if name == "shape" else 1 + len(rest)
        if name in ("T", "mT", "real", "imag", "flat"):
            return attribute(frame, node, selection.shown(frame, value), name)
        if not callable(getattr(np.ndarray, name, None)):
            selection.refuse(frame, node, f"the {name} of elements that a mask selects")
        return Method(value, name)
    if isinstance(value, Grown):
        return Method(value, name)
    if not isinstance(value, Reference):
        computed = inspect.getattr_static(type(value), name, None)
        if isinstance(computed, property) and named.is_named(value):
            return frame.trace.call(frame.trace, computed.fget, [value], {})
        try:
            return frame.constant(getattr(value, name))
        except AttributeError as error:
            frame.refuse(node, str(error), "an attribute that is there")
    array = value.read()
    if name in ("T", "mT"):
        order = list(range(array.ndim))
        order = order[::-1] if name == "T" else [*order[:-2], order[-1], order[-2]]
        return value.through(PermutedView(tuple(order)))
    if name in ("shape", "dtype", "ndim", "size", "itemsize", "nbytes"):
        return getattr(array, name)
    if name in ("real", "imag"):
        return aliases.part(value, name)
    if name == "flat":
        return value.through(ReshapedView((product(array._node.shape),)))
    return _method(frame, node, value, name)


def _method(frame: Frame, node: ast.AST, of: Any, name: str) -> Method:
    """A method, which waits for its arguments; what an array has besides is not compiled."""
    if ordered.is_list(of) and name in ordered.OF_LISTS:
        ordered.require_no_change(frame, node, name)
    if not any(callable(getattr(kind, name, None)) for kind in (np.ndarray, Array)):
        frame.refuse(
            node, f"the attribute {name} of an array",
            "shape, dtype, ndim, size, itemsize, nbytes, real, imag, T, or a method",
            f"compute {name} outside of the kernel, and give it as an argument",
        )  # fmt: skip
    return Method(of, name)


def unpacked(frame: Frame, node: ast.AST, value: Any) -> list[Any]:
    """The values that are in one: as many as the program knows."""
    if isinstance(value, Array) and value.ndim:
        value = frame.memory.make(value)
    if isinstance(value, Reference):
        count = value.read()._node.shape[0]
        return [subscript(frame, node, value, k) for k in range(int(count))]
    if value is None:
        raise NoneOperandError("cannot unpack None")
    if not isinstance(value, tuple | list | range):
        frame.refuse(node, f"{kind(value)} for several values", "a tuple or list")
    return list(value)
