"""What a `for` goes over: ranges, arrays, lists, what masks select; `zip` and its kin of them."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, ItemsView, KeysView, ValuesView
from functools import reduce
from typing import Any

import numpy as np

from weft.array import Array
from weft.errors import ArgumentTypeError, ShapeError
from weft.frontend import extent as extents
from weft.frontend import lengths
from weft.frontend.extent import Extent
from weft.kernel import grown, loops, selection
from weft.kernel.advice import to_go_over
from weft.kernel.branches import kind
from weft.kernel.decorator import prange
from weft.kernel.expressions import evaluate
from weft.kernel.frame import Frame, all_plain
from weft.kernel.lists import Grown
from weft.kernel.parts import attribute, subscript, unpacked
from weft.kernel.values import Reference, Selection
from weft.records import dataclass

Bounds = tuple[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class Items:
    """What a loop goes over, each when a round asks for it: an array may be written before.

    Attributes
    ----------
    count : int or Extent
    item : callable
        Gives the one of a number, which is an int or traced.
    is_known : bool
        Whether they are Python's values, of which no traced number chooses one.
    lists : tuple of Grown
        Which must stay as they are.
    """

    count: int | Extent
    item: Callable[[Any], Any]
    is_known: bool = False
    lists: tuple[Grown, ...] = ()


def items_of(frame: Frame, node: ast.expr) -> Items:
    """What an expression gives a loop to go over."""
    bounds, parallel = range_of(frame, node)
    if bounds is not None and not parallel:
        start, _, step = bounds
        count = loops.count_of(frame, node, bounds)
        return Items(count, lambda number: start + number * step, loops.is_small(bounds))
    made = _of_call(frame, node) if isinstance(node, ast.Call) else None
    if made is not None:
        return made
    return _items_in(frame, node, evaluate(frame, node))


def _items_in(frame: Frame, node: ast.expr, over: Any) -> Items:
    """What a value holds for a loop to go over."""
    if isinstance(over, Selection):
        return Items(loops.bound(selection.count(over)), selection.one_by_one(over))
    if isinstance(over, Array) and over.ndim:
        over = frame.memory.make(over)
    if isinstance(over, Reference):
        held = over
        return Items(held.read().shape[0], lambda number: subscript(frame, node, held, number))
    if isinstance(over, Grown):
        many = over
        count = extents.as_extent(loops.bound(many.length()))
        return Items(count, lambda number: grown.element(frame, node, many, number), lists=(many,))
    if isinstance(over, dict | KeysView | ValuesView | ItemsView):
        over = [*over]
    if not isinstance(over, tuple | list | range):
        frame.refuse(
            node, f"a loop over {kind(over)}", "range, prange, an array, a tuple or list",
            to_go_over(over),
        )  # fmt: skip
    return Items(len(over), over.__getitem__, is_known=True)


def _of_call(frame: Frame, node: ast.Call) -> Items | None:
    """Of Python's and NumPy's iterators; None of other calls, and of what is not understood."""
    function = evaluate(frame, node.func)
    if function in (np.ndindex, np.ndenumerate) and node.args and not node.keywords:
        return _over_indices(frame, node, function)
    option = _OPTIONS.get(function) if isinstance(function, type) else None
    named = {keyword.arg: keyword.value for keyword in node.keywords}
    if option is None or named.keys() - {option} or not node.args:
        return None
    parts, more = node.args, [*named.values()]
    if function is not builtins.zip:
        parts, more = parts[:1], [*parts[1:], *more]
    if len(more) > (function is not builtins.reversed):
        return None
    if any(isinstance(part, ast.Starred) for part in more):
        return None
    items = []
    for part in parts:
        if not isinstance(part, ast.Starred):
            items.append(items_of(frame, part))
            continue
        if function is not builtins.zip:
            return None
        rows = unpacked(frame, part, evaluate(frame, part.value))
        items += [_items_in(frame, part.value, row) for row in rows]
    if not items:
        return None
    values = all_plain([evaluate(frame, value) for value in more])
    if function is builtins.zip:
        return _side_by_side(frame, node, items, *values)
    (of,) = items
    if function is builtins.reversed:
        return Items(
            of.count, lambda number: of.item(of.count - 1 - number), of.is_known, of.lists
        )
    (first,) = values or [0]
    return Items(
        of.count, lambda number: (first + number, of.item(number)), of.is_known, of.lists
    )


def _over_indices(frame: Frame, node: ast.Call, function: Any) -> Items:
    """The indices of a shape, in row-major order; with the elements of an array there."""
    given = [evaluate(frame, argument) for argument in node.args]
    array = given[0] if function is np.ndenumerate else None
    shape = given if len(given) > 1 else all_plain(given)[0]
    if array is not None:
        shape = attribute(frame, node, array, "shape")
    extent = [loops.bound(n) for n in (shape if isinstance(shape, tuple | list) else [shape])]

    def indices(number: Any) -> tuple[Any, ...]:
        found: list[Any] = []
        for length in reversed(extent[1:]):
            found.append(number % length)
            number = number // length
        return (number, *reversed(found))[: len(extent)]

    def item(number: Any) -> Any:
        where = indices(number)
        return where if array is None else (where, subscript(frame, node, array, where))

    return Items(extents.product(tuple(extent)), item)


_OPTIONS: dict[type, str] = {builtins.enumerate: "start", builtins.zip: "strict",
                             builtins.reversed: ""}  # fmt: skip


def _side_by_side(
    frame: Frame, node: ast.Call, parts: list[Items], is_strict: Any = False
) -> Items:
    counts = [extents.as_extent(part.count) for part in parts]
    if is_strict and not all(lengths.agree(counts[0], other) for other in counts[1:]):
        raise ShapeError(
            f"zip of {' and '.join(map(str, counts))} items, strict", "as many of each",
            place=frame.place(node),
        )  # fmt: skip
    is_known = any(part.is_known for part in parts)
    least = reduce(extents.smaller, counts)
    return Items(
        int(least) if is_known else least,
        lambda number: tuple(part.item(number) for part in parts), is_known,
        tuple(grown for part in parts for grown in part.lists),
    )  # fmt: skip


def range_of(frame: Frame, node: ast.expr) -> tuple[Bounds | None, bool]:
    """The bounds of a `range` or `prange`, and whether it is the second."""
    if not isinstance(node, ast.Call) or node.keywords:
        return None, False
    function = evaluate(frame, node.func)
    parallel = function is prange or getattr(function, "__name__", "") == "prange"
    if function is not range and not parallel:
        return None, False
    given = all_plain([evaluate(frame, argument) for argument in node.args])
    if not 1 <= len(given) <= 3:
        frame.refuse(node, f"a range of {len(given)} arguments", "one, two or three")
    for bound in given:
        if getattr(getattr(bound, "dtype", None), "kind", "i") not in "iu" or isinstance(
            bound, float
        ):
            raise ArgumentTypeError(
                "a range whose bound is no integer", "integers", "int(x), or x // y",
                place=frame.place(node),
            )  # fmt: skip
    start, stop = (0, given[0]) if len(given) == 1 else given[:2]
    return (start, stop, given[2] if len(given) == 3 else 1), parallel
