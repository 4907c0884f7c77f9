"""Writes to arrays, by assignments and by NumPy's functions that write an argument."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np

from weft import functions
from weft.array import Array
from weft.frontend import lengths
from weft.frontend.extent import product
from weft.kernel import numbers, one_of, selection
from weft.kernel.asked import asked
from weft.kernel.branches import kind
from weft.kernel.frame import Frame, plain
from weft.kernel.keys import is_view
from weft.kernel.values import KeyView, OneOf, Reference, ReshapedView, Selection, replaced

_WRITING = (np.copyto, np.fill_diagonal, np.put, np.putmask)


def write(
    frame: Frame, node: ast.AST, target: Any, value: Any, key: Any = None,
    combine: str | None = None,
) -> None:  # fmt: skip
    """`target[key] = value`, in place; without a key all of the target.

    With `combine`, a scalar operation, of what is there and each value that comes, in order.
    """
    if isinstance(target, Selection):
        selection.require_separate(frame, node, target)
    if not isinstance(target, Reference):
        frame.refuse(node, f"a write to {kind(target)}", "a write to an array")
    if isinstance(target, OneOf):
        value = plain(value)
        one_of.write(frame, node, target,
                     lambda option: write(frame, node, option, value, key, combine))  # fmt: skip
        return
    cell = target.cell
    if cell.source is not None:
        selection.require_separate(frame, node, cell.source)
    if cell.refusal:
        frame.refuse(
            node, f"a write to an array that cannot be written: {cell.refusal}",
            "an argument, or an array made in the kernel",
        )  # fmt: skip
    if selection.is_where_read(target.read(), key, value):
        part = selection.written(target.read(), key, value)
    else:
        key, value = selection.apart(target.read(), key, value)
        if key is not None and target.shows_part and is_view(key) and combine is None:
            target, key = target.through(KeyView(key)), None
        key = Ellipsis if key is None else key
        numbers.require_held(target.read().dtype, value)
        with asked(frame, node):
            part = KeyView(key).put(target.read(), plain(value), combine)
    frame.memory.write(cell, replaced(cell.array, target.views, part))


def by_function(
    frame: Frame, node: ast.Call, function: Any, arguments: list[Any], named: dict[str, Any]
) -> tuple[Any] | None:
    """NumPy's functions that write one of their arguments; a result in a tuple."""
    if arguments and isinstance(arguments[0], Selection) and function in _WRITING:
        selection.require_separate(frame, node, arguments[0])
    if function is np.copyto:
        _copy_to(frame, node, *arguments, **named)
        return (None,)
    if function is np.fill_diagonal:
        _fill_diagonal(frame, node, *arguments, **named)
        return (None,)
    if function is np.put:
        put(frame, node, *arguments, **named)
        return (None,)
    if function is np.putmask:
        _put_mask(frame, node, *arguments, **named)
        return (None,)
    accumulated = getattr(function, "__self__", None)  # np.add, of np.add.at
    if isinstance(accumulated, np.ufunc) and function.__name__ == "at" and len(arguments) == 3:
        target, key, value = arguments
        write(frame, node, target, value, plain(key), accumulated.__name__)
        return (None,)
    return None


def _copy_to(
    frame: Frame, node: ast.Call, dst: Any, src: Any, casting: str = "same_kind", where: Any = True
) -> None:  # fmt: skip
    new, mask = plain(src), plain(where)
    if isinstance(new, Array) and isinstance(dst, Reference):
        own = dst.read().dtype
        if not new._node.weak and not np.can_cast(new.dtype, own, casting):  # type: ignore[arg-type]
            frame.refuse(
                node, f"a copy of {new.dtype} to {own}, casting={casting!r}",
                "a dtype that can be cast so", "src.astype(dtype)",
            )  # fmt: skip
    if mask is not True:
        new = functions.where(mask, new, plain(dst))
    write(frame, node, dst, new)


def into(frame: Frame, node: ast.Call, target: Any, compute: Callable[[], Any]) -> Any:
    """`out=target`: what is computed, written there."""
    if isinstance(target, tuple) and len(target) == 1:
        (target,) = target
    if target is None:
        return compute()
    write(frame, node, target, compute())
    return target


def put(frame: Frame, node: ast.Call, a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """Write to the elements, in row-major order, of some numbers."""
    if mode != "raise":
        frame.refuse(node, f"put with mode={mode!r}", "indices that are inside")
    if not isinstance(a, Reference):
        frame.refuse(node, f"a write to {kind(a)}", "a write to an array")
    elements = a.through(ReshapedView((product(a.read()._node.shape),)))
    write(frame, node, elements, v, plain(ind))


def _put_mask(frame: Frame, node: ast.Call, a: Any, mask: Any, values: Any) -> None:
    given = functions.asarray(plain(values))
    if given.ndim and not lengths.agree_all(given._node.shape, plain(a)._node.shape):
        frame.refuse(
            node, "putmask with fewer or more values than elements", "one value, or as many",
            "a[mask] = value",
        )  # fmt: skip
    _copy_to(frame, node, a, values, where=mask)


def _fill_diagonal(frame: Frame, node: ast.Call, a: Any, val: Any, wrap: Any = False) -> None:
    if wrap is not False:
        frame.refuse(node, "fill_diagonal with wrap", "a diagonal that ends with the columns")
    array = plain(a)
    count = functions.arange(min(array.shape))
    write(frame, node, a, plain(val), (count,) * array.ndim)
