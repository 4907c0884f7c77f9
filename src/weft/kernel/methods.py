"""Methods of arrays, and of what is seen through views."""

from __future__ import annotations

import ast
from typing import Any

from weft import functions
from weft.array import Array
from weft.kernel import aliases, numbers, ordered, selection, writing
from weft.kernel.frame import Frame, all_plain, plain, plain_named
from weft.kernel.numbers import weak
from weft.kernel.values import Reference, Selection
from weft.ops.dtypes import DType
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Method:
    """A method of an array, waiting for its arguments."""

    of: Any  # a Reference, or a scalar
    name: str


def call(
    frame: Frame, node: ast.Call, method: Method, arguments: list[Any], named: dict[str, Any]
) -> Any:
    reference, name = method.of, method.name
    arguments = all_plain(arguments)
    if isinstance(reference, Selection):
        if name in _WRITING:
            selection.require_separate(frame, node, reference)
        if name in aliases.GIVE_VIEWS:
            reference = selection.shown(frame, reference)
    if isinstance(reference, Reference):
        if name == "copy" and ordered.is_list(reference):
            return ordered.as_list(frame, node, reference.read())
        if name == "fill":
            (value,) = _only(arguments, named)
            writing.write(frame, node, reference, value)
            return None
        if name == "sort":
            writing.write(frame, node, reference, _sorted(reference.read(), *arguments, **named))
            return None
        if name == "put":
            writing.put(frame, node, reference, *arguments, **named)
            return None
        if name == "partition":
            apart = functions.partition(reference.read(), *arguments, **named)
            writing.write(frame, node, reference, apart)
            return None
        shown = aliases.method(frame, node, reference, name, arguments, named)
        if shown is not None:
            return shown
    if isinstance(reference, Selection):
        axis = selection.axis_alone(arguments, named)
        if axis is not selection.OTHER and selection.is_of_masks(name):
            return selection.method(frame, node, reference, name, axis)
    array = selection.compacted(plain(reference))
    arguments = selection.compacted(arguments)
    if name == "copy":
        return Array(array._node)
    if name == "clip" and isinstance(array, Array):
        for bound in (*arguments, *named.values()):
            numbers.require_held(array.dtype, bound)
    if name in _AXIS_AND_MORE:
        given = dict(zip(_AXIS_AND_MORE[name], arguments, strict=False)) | named
        if len(arguments) > len(_AXIS_AND_MORE[name]):
            raise TypeError(f"{len(arguments)} arguments")
        arguments = []
        named = {key: value for key, value in given.items() if value is not None or key == "axis"}
        if "out" in named:
            target = named.pop("out")
            return writing.into(frame, node, target, lambda: call(frame, node, method, [], named))
    if name == "nonzero" and not arguments:
        return selection.positions(array)
    if name == "item":
        scalar = _item(array, *arguments)
        kind = {"f": DType.F64, "c": DType.C128}.get(scalar.dtype.kind, DType.I64)
        return weak(scalar, DType.BOOL if scalar.dtype == bool else kind)
    if not hasattr(array, name) or name.startswith("_"):
        frame.refuse(node, f"the method {name} of an array", "one that weft.Array has")
    return getattr(array, name)(*arguments, **plain_named(named))


def _item(array: Array, *index: Any) -> Array:
    """The element of an index; of one number, in row-major order."""
    if not index:
        return array.reshape(())
    found: Array = array[index] if len(index) > 1 else array.reshape(-1)[index[0]]
    return found


_WRITING = ("fill", "sort", "put", "partition")
_AXIS_AND_MORE = {
    **dict.fromkeys(("sum", "prod", "mean", "cumsum", "cumprod"), ("axis", "dtype", "out")),
    **dict.fromkeys(("std", "var"), ("axis", "dtype", "out", "ddof")),
    **dict.fromkeys(("min", "max", "argmin", "argmax", "all", "any"), ("axis", "out")),
    "argsort": ("axis", "kind", "order"),
}
"""What NumPy's methods take by position; None where that is the default."""


def _only(arguments: list[Any], named: dict[str, Any]) -> list[Any]:
    if named or len(arguments) != 1:
        raise TypeError("one argument is needed, and none by name")
    return arguments


def _sorted(
    array: Array, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Array:
    if order is not None:
        raise TypeError("an order is of arrays with fields")
    return functions.sort(array, axis=axis)
