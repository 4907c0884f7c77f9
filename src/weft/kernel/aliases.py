"""NumPy's functions and methods that give views: as views, which write through, where they are."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import functions
from weft.array import Array
from weft.errors import TracingError
from weft.frontend import lengths
from weft.functions import interoperability
from weft.kernel.frame import Frame, plain, plain_named
from weft.kernel.selection import shown
from weft.kernel.strides import in_shape, is_row_major, strides_of
from weft.kernel.values import (
    ComputedView,
    KeyView,
    PartView,
    PermutedView,
    Reference,
    ReshapedView,
    Selection,
)

_MOVING = frozenset({
    "transpose", "permute_dims", "matrix_transpose", "swapaxes", "moveaxis", "rollaxis", "flip",
    "fliplr", "flipud", "rot90", "expand_dims", "atleast_1d", "atleast_2d", "atleast_3d",
})  # fmt: skip
_SHOWING = frozenset({
    "diagonal", "diag", "broadcast_to", "split", "array_split", "hsplit", "vsplit", "dsplit",
    "unstack",
})  # fmt: skip
GIVE_VIEWS = _MOVING | {"squeeze", "reshape", "ravel", "view"}
"""Methods that may give a view."""
_FIRST = ("a", "m", "x", "object", "val")  # what functions call the array


def function(
    frame: Frame, node: ast.Call, function: Any, arguments: Sequence[Any], named: dict[str, Any]
) -> Any:
    """What a function of NumPy gives that may give a view of its argument; None of others."""
    name = getattr(function, "__name__", "")
    if getattr(function, "__module__", "") != "numpy":
        return None
    if not arguments:
        arguments = [named[key] for key in _FIRST if key in named]
        named = {key: value for key, value in named.items() if key not in _FIRST}
    reference, *rest = arguments or [None]
    if isinstance(reference, Selection) and name in GIVE_VIEWS | _SHOWING:
        reference = shown(frame, reference)
    if not isinstance(reference, Reference):
        return None
    if name in _SAME:
        return _same(frame, node, reference, name, rest, named)
    if name in _SHOWING:
        return _shown(frame, node, reference, function, rest, named)
    if name in ("real", "imag"):
        return part(reference, name)
    if name == "reshape":
        named = dict(zip(("shape", "order"), rest, strict=False)) | named
        rest = []
    return method(frame, node, reference, name, rest, named)


def method(
    frame: Frame, node: ast.Call, reference: Reference, name: str, rest: Sequence[Any],
    named: dict[str, Any],
) -> Any:  # fmt: skip
    """What a method, or the function of its name, gives that may give a view."""
    arguments = [plain(value) for value in rest]
    named = plain_named(named)
    if name == "transpose" and len(arguments) > 1:
        arguments = [tuple(arguments)]
    if name in _MOVING:
        return _moved(frame, node, reference, name, arguments, named)
    if name == "squeeze":
        return _squeezed(reference, *arguments, **named)
    if name == "astype":
        return _kept(reference, arguments, named)
    if name in ("reshape", "ravel", "flatten"):
        return _in_shape(frame, node, reference, name, arguments, named)
    if name == "view":
        reference.read().view(*arguments, **named)  # which refuses other dtypes
        return reference
    return None


# ---------------------------------------------------------------- the array itself


_SAME = {
    "array": ("dtype",), "asarray": ("dtype", "order"), "asanyarray": ("dtype", "order"),
    "ascontiguousarray": ("dtype",),
}  # fmt: skip


def _same(
    frame: Frame, node: ast.Call, reference: Reference, name: str, rest: Sequence[Any],
    named: dict[str, Any],
) -> Reference | None:  # fmt: skip
    """The array that was given, where NumPy gives that: of its dtype, and not copied."""
    given = dict(zip(_SAME[name], rest, strict=False)) | named
    copy = given.get("copy", True if name == "array" else None)
    dtype, order = given.get("dtype"), given.get("order") or "K"
    alike = dtype is None or np.dtype(dtype) == reference.read().dtype
    if copy is not None and not copy and not alike:
        frame.refuse(node, "copy=False, where another dtype needs a copy", "copy=None")
    if copy or not alike or (given.get("ndmin") or 0) > reference.read().ndim:
        return None
    if order == "F":
        frame.refuse(node, "an array in order 'F'", "order 'C'", "x.T where it is used")
    if order == "C" or name == "ascontiguousarray":
        try:
            together = is_row_major(reference.read()._node.shape, strides_of(reference))
        except TracingError:
            return _undecided(frame, reference)
        return reference if together else None
    return reference


def _kept(reference: Reference, arguments: list[Any], named: dict[str, Any]) -> Reference | None:
    """`x.astype(dtype, copy=False)` of the dtype that x has."""
    names = ("dtype", "order", "casting", "subok", "copy")
    given = dict(zip(names, arguments, strict=False)) | named
    same = "dtype" in given and np.dtype(given["dtype"]) == reference.read().dtype
    return reference if same and not given.get("copy", True) else None


def _copy(frame: Frame, reference: Reference) -> Reference:
    return frame.memory.make(Array(reference.read()._node))


def _undecided(frame: Frame, reference: Reference) -> Reference:
    """What is a view or a copy, as lengths or strides decide that are not known."""
    made = _copy(frame, reference)
    made.cell.refusal = "whether NumPy copies it depends on lengths or strides that are not known"
    return made


# ---------------------------------------------------------------- axes in other places


def _moved(
    frame: Frame, node: ast.Call, reference: Reference, name: str, arguments: Sequence[Any],
    named: dict[str, Any],
) -> Reference | None:  # fmt: skip
    """A view whose axes NumPy permutes, turns round and adds; it says how on another array."""
    if not all(isinstance(value, int | tuple | list | None) for value in
               (*arguments, *named.values())):  # fmt: skip
        return None
    rank = reference.read().ndim
    example = np.empty(tuple(range(2, rank + 2)), np.int8)  # an axis is known by its length
    try:
        shown = getattr(np, name)(example, *arguments, **named)
    except (ValueError, TypeError) as error:
        frame.refuse(node, f"np.{name} of an array of {rank} dimensions: {error}", "axes it has")
    places = [k for k, length in enumerate(shown.shape) if length > 1]
    axes = tuple(shown.shape[place] - 2 for place in places)
    if axes != tuple(range(rank)):
        reference = reference.through(PermutedView(axes))
    key = tuple(
        None if length == 1 else slice(None, None, -1) if stride < 0 else slice(None)
        for length, stride in zip(shown.shape, shown.strides, strict=True)
    )
    if all(entry == slice(None) for entry in key):
        return reference
    return reference.through(KeyView(key))


def _squeezed(reference: Reference, axis: Any = None) -> Any:
    array = reference.read()
    array.squeeze(axis)  # says what is wrong with the axes
    shape = array._node.shape
    axes = [k for k, length in enumerate(shape) if lengths.is_just(length, 1)]
    if axis is not None:
        axes = [k % len(shape) for k in (axis if isinstance(axis, tuple | list) else (axis,))]
    view = KeyView(tuple(0 if k in axes else slice(None) for k in range(len(shape))))
    return reference.through(view) if len(axes) < len(shape) else array[view.key]


# ---------------------------------------------------------------- other shapes


def _in_shape(
    frame: Frame, node: ast.Call, reference: Reference, name: str, arguments: Sequence[Any],
    named: dict[str, Any],
) -> Reference:  # fmt: skip
    """`reshape`, `ravel` and `flatten`, in either order."""
    if name != "reshape":
        named = dict(zip(("order",), arguments, strict=False)) | named
        shape: tuple[Any, ...] = (-1,)
    elif "shape" in named:
        shape = named["shape"]
    else:
        shape = arguments[0] if len(arguments) == 1 else tuple(arguments)
    shape = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    order = named.get("order", "C")
    unknown = sorted(named.keys() - {"shape", "order", "copy"})
    if order not in ("C", "F") or unknown or (len(arguments) > 1 and name != "reshape"):
        found = unknown[0] if unknown else f"order={order!r}"
        frame.refuse(node, f"{name} with {found}", "a shape, and an order of 'C' or 'F'")
    if order == "F":  # the first axis quickest: of the array turned round, in C's order
        reference = _turned(reference)
        shape = shape[::-1]
    made = _reshaped(frame, reference, name, shape)
    made = _turned(made) if order == "F" else made
    return _copy(frame, made) if named.get("copy") else made


def _turned(reference: Reference) -> Reference:
    rank = reference.read().ndim
    return reference if rank < 2 else reference.through(PermutedView(tuple(range(rank))[::-1]))


def _reshaped(frame: Frame, reference: Reference, name: str, shape: tuple[Any, ...]) -> Reference:
    """A view in another shape where NumPy gives one, else a copy."""
    array = reference.read()
    wanted = array.reshape(*shape)._node.shape
    view = reference.through(ReshapedView(wanted))
    if name == "flatten":
        return _copy(frame, view)
    try:
        own = strides_of(reference)
        if name == "ravel":
            shown = is_row_major(array._node.shape, own)
        else:
            shown = in_shape(array._node.shape, own, wanted) is not None
    except TracingError:
        return _undecided(frame, view)
    return view if shown else _copy(frame, view)


# ---------------------------------------------------------------- parts, and what is computed


def _shown(
    frame: Frame, node: ast.Call, reference: Reference, function: Any, rest: Sequence[Any],
    named: dict[str, Any],
) -> Any:  # fmt: skip
    """What a function gives of the array, now and after writes to it; not to be written itself."""
    name = function.__name__
    if name == "diag" and reference.read().ndim == 1:
        return None  # a new matrix
    arguments = [plain(value) for value in rest]
    options = plain_named(named)

    def computed(array: Array) -> Any:
        return interoperability.function(function, (array, *arguments), options)

    if not hasattr(functions, name) and not hasattr(Array, name):
        return None
    now = computed(reference.read())
    what = f"np.{name} shows an array, and writing through it is not supported"
    if not isinstance(now, tuple | list):
        return reference.through(ComputedView(computed, what)) if now.ndim else now

    def one(number: int) -> Reference:
        return reference.through(ComputedView(lambda array: computed(array)[number], what))

    return type(now)(map(one, range(len(now))))


def part(reference: Reference, name: str) -> Any:
    """`x.real` and `x.imag`: of real numbers the array itself."""
    array = reference.read()
    if array.dtype.kind == "c":
        return reference.through(PartView(name))
    if name == "real":
        return reference
    what = f"x.{name} shows an array, and writing through it is not supported"
    return reference.through(ComputedView(lambda shown: getattr(shown, name), what))
