"""Lists that grow in loops and branches: arrays of as many elements as there may be, and a count.

How many there may be, the loops around each `append` say, that are in the loop or branch which
the list was made outside of: that has it enlarged before it begins, and is traced again. Where a
`while` is among them nothing says it, so there is some room, and a run that needs more is begun
again with more (`weft.kernel.function`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from weft import functions
from weft.array import Array, node_of
from weft.frontend import extent as extents
from weft.frontend import graph, layout, symbolic
from weft.frontend.elementwise import as_dtype
from weft.frontend.extent import Extent
from weft.frontend.graph import scalar_constant
from weft.kernel import tables
from weft.kernel.frame import Frame, Number, is_traced, plain
from weft.kernel.lists import (
    MOST_ROOM,
    Grown,
    Grows,
    Kind,
    ListFullError,
    NothingYet,
    Outgrown,
    joined,
    product,
)
from weft.kernel.values import Cell, KeyView, Reference, Region
from weft.ops.dtypes import DType


def begun(
    frame: Frame, elements: Sequence[Any], node: ast.expr, is_common: bool = False
) -> Grown:
    """A list that will grow, of some elements; with the room of others where it is one of them."""
    depth = len(frame.memory.regions)
    none = Array(scalar_constant(0, DType.I64))
    count, first = (Cell(none, depth, name=name) for name in ("count", "first"))
    made = Grown(depth, len(graph._open.all), count, first, origin=frame.place(node))
    if is_common:
        made.is_common = made.is_checked = True
        made.room = extents.constant(frame.trace.room)
    for element in elements:
        append(frame, node, made, element)
    return made


@contextmanager
def gone_over(lists: Sequence[Grown]) -> Iterator[None]:
    """While a loop goes over lists these do not change."""
    for grown in lists:
        grown.held += 1
    try:
        yield
    finally:
        for grown in lists:
            grown.held -= 1


# ---------------------------------------------------------------- changes


def append(frame: Frame, node: ast.AST, grown: Grown, value: Any) -> None:
    _require_free(frame, node, grown)
    numbers = _parts_of(frame, node, value)
    kinds, of_tuples = [_kind(number) for number in numbers], isinstance(value, tuple)
    if grown.kinds:
        if len(kinds) != len(grown.kinds) or of_tuples != grown.of_tuples:
            frame.refuse(node, "a list of numbers and tuples, or of tuples of several lengths",
                         "elements of one kind")  # fmt: skip
        kinds = [joined(*pair) for pair in zip(grown.kinds, kinds, strict=True)]
    _require_shapes(frame, node, grown, numbers)
    _require_room(frame, grown, kinds, of_tuples)
    count = grown.count.array
    place = grown.place(count)
    if grown.is_checked:
        room = Array(graph.size_scalar(grown.room))
        error = ListFullError(
            f"a list of more than {MOST_ROOM} elements, whose number no extent bounds",
            "fewer, or for loops alone around what appends", "an array of its own size",
        )  # fmt: skip
        frame.trace.assertions.note(frame.memory, place < room, error, frame.place(node))
        frame.trace.assertions.may_fill = True
        place = functions.minimum(place, room - 1)
    _put(frame, grown, place, numbers, value)
    frame.memory.write(grown.count, count + 1)


def _put(frame: Frame, grown: Grown, place: Array, numbers: list[Any], value: Any) -> None:
    """Let an element be of some numbers and arrays: a copy of what is seen by other names."""
    shown = value if isinstance(value, tuple) else (value,)
    for cell, own, number, (dtype, _) in zip(
        grown.parts, shown, numbers, grown.kinds, strict=True
    ):  # fmt: skip
        new = Array(as_dtype(node_of(number), dtype))
        frame.memory.write(cell, KeyView(place).put(cell.array, new))
        if isinstance(own, Reference):
            before = frame.trace.copies.get(cell, [])
            frame.trace.copies[cell] = [*before, (own.cell, own.cell.array)]


def _require_shapes(frame: Frame, node: ast.AST, grown: Grown, numbers: list[Any]) -> None:
    """Let arrays that are elements have one shape, that is known where the list is made."""
    shapes = [node_of(number).shape for number in numbers]
    grown.shapes = grown.shapes or shapes
    for own, given in zip(grown.shapes, shapes, strict=True):
        if layout.values(own) != layout.values(given):
            frame.refuse(node, f"a list of arrays of shapes {layout.values(own)} and "
                         f"{layout.values(given)}", "arrays of one shape")  # fmt: skip
        for one, other in zip(own, given, strict=True):
            extents.require_equal(one, other)
    for shape in shapes:
        if any(symbolic.at_most(e, grown.scopes or -1) is not e for e in shape):
            frame.refuse(
                node, "a list of arrays whose shape is not known where it is made",
                "arrays of one shape", "an array of the largest shape, of which a part is set",
            )  # fmt: skip


def pop(frame: Frame, node: ast.AST, grown: Grown, number: Any = -1) -> Any:
    _require_free(frame, node, grown)
    is_first, is_last = (type(number) is int and number == end for end in (0, -1))
    otherwise = "pop from empty list" if is_first or is_last else "pop index out of range"
    position = _position(frame, node, grown, number, otherwise)
    found = _shown(frame, grown.taken(position))
    frame.memory.write(grown.count, grown.count.array - 1)
    if is_first:
        frame.memory.write(grown.first, grown.first.array + 1)
    elif not is_last:
        _move(frame, grown, lambda place: functions.where(place < position, place, place + 1))
    return found


def insert(frame: Frame, node: ast.AST, grown: Grown, number: Any, value: Any) -> None:
    count = grown.count.array
    append(frame, node, grown, value)  # of its kind
    number = functions.asarray(Array(as_dtype(node_of(number), DType.I64)))
    number = functions.where(number < 0, number + count, number)
    number = functions.minimum(functions.maximum(number, 0), count)
    position, last = grown.place(number), grown.place(count)

    def source(place: Array) -> Array:
        before = functions.where(place == position, last, place - 1)
        return functions.where((place < position) | (place > last), place, before)

    _move(frame, grown, source)


def _move(frame: Frame, grown: Grown, source: Callable[[Array], Array]) -> None:
    """Let each element be what is at another place, of which those outside are not looked at."""
    last = Array(graph.size_scalar(grown.room)) - 1
    places = functions.clip(source(functions.arange(grown.room)), 0, last)
    for cell in grown.parts:
        frame.memory.write(cell, functions.take(cell.array, places, axis=0))


def copied(frame: Frame, grown: Grown) -> Grown:
    """A list of its own, of the same elements."""
    depth = len(frame.memory.regions)

    def own(cell: Cell) -> Cell:
        return Cell(cell.array, depth, name=cell.name)

    return Grown(
        depth, len(graph._open.all), own(grown.count), own(grown.first), grown.room,
        list(grown.kinds), list(grown.shapes), list(map(own, grown.parts)),
        grown.of_tuples, grown.is_checked, origin=grown.origin, is_common=grown.is_common,
    )  # fmt: skip


def _require_free(frame: Frame, node: ast.AST, grown: Grown) -> None:
    _require_own(frame, node, grown)
    if grown.held:
        frame.refuse(
            node, "a change of a list while a loop goes over it", "a loop over a list that stays",
            "while k < len(x): ..., k += 1",
        )  # fmt: skip


def _require_own(frame: Frame, node: ast.AST, grown: Grown) -> None:
    if grown.count.refusal:
        frame.refuse(node, f"a change of a list that cannot be changed: {grown.count.refusal}",
                     "a list of its own", "x = x.copy()")  # fmt: skip


def _require_room(frame: Frame, grown: Grown, wanted: list[Kind], of_tuples: bool) -> None:
    """Room for one element more here, of some kinds, in each round of the loops around."""
    regions = frame.memory.regions[grown.depth :]
    key = grown, frame.memory.visit()
    if regions and key in regions[0].granted and wanted == grown.kinds:
        return
    is_new = not regions or key not in regions[0].granted
    grown.kinds, grown.of_tuples = wanted, of_tuples
    more = _most(frame, grown, regions) if is_new else [layout.ZERO]
    if not regions:
        grown.enlarge(more)
        return
    raise Outgrown(regions[0], grown, key, more)


def _most(frame: Frame, grown: Grown, regions: Sequence[Region]) -> list[Extent]:
    """How many elements one `append` may add before a region, the first of some, ends: factors.

    Where loops that extents bound stand in one another, as around all pairs, hardly all that there
    may be are: then there is some room, as where no extent bounds them.
    """
    if grown.is_common:
        return [layout.ZERO]
    most: list[Extent] = []
    some = extents.constant(frame.trace.room)
    for region in regions:
        if not region.is_loop:
            continue
        rounds = None
        if region.rounds is not None:
            rounds = symbolic.at_most(region.rounds, grown.scopes or -1)
        if rounds is None:
            if grown.is_checked:
                return [layout.ZERO]
            grown.is_checked = True
            return [some]
        most.append(rounds)
    if sum(not rounds.is_constant for rounds in most) < 2:
        return most
    grown.is_checked = True
    if any(rounds.symbols for rounds in most):
        return [some]
    return [layout.limited("minimum", product(most), some)]


def _parts_of(frame: Frame, node: ast.AST, value: Any) -> list[Any]:
    numbers = [plain(n) for n in (value if type(value) is tuple and value else (value,))]
    if not all(isinstance(n, Number) for n in numbers):
        frame.refuse(
            node, "what is no number or array, in a list that a loop or branch changes",
            "numbers or arrays of one shape, or tuples of them",
            "an array for each part of what it holds, and a count of these",
        )  # fmt: skip
    return numbers


def _kind(value: Any) -> Kind:
    node = node_of(value)
    return node.dtype, node.weak


# ---------------------------------------------------------------- elements


def element(
    frame: Frame, node: ast.AST, grown: Grown, index: Any,
    otherwise: str = "list index out of range",
) -> Any:  # fmt: skip
    """`x[i]`, counted from the end where i is negative; `x[a:b]`, a list of its own."""
    if isinstance(index, slice) and (index.step is None or type(index.step) is int):
        return sliced(frame, grown, index.start, index.stop, index.step or 1)
    position = _position(frame, node, grown, index, otherwise)
    return _shown(frame, grown.taken(position))


def sliced(frame: Frame, grown: Grown, start: Any, stop: Any, step: int) -> Grown:
    """A list of the elements between two, from either end, as Python counts them."""
    made = copied(frame, grown)
    if not made.parts:
        return made
    count = grown.length()
    least, most = (0, count) if step > 0 else (-1, count - 1)

    def end(number: Any, default: Any) -> Any:
        if number is None:
            return default
        number = Array(as_dtype(node_of(number), DType.I64))
        number = functions.where(number < 0, number + count, number)
        return functions.clip(number, least, most)

    first, last = (least, most) if step > 0 else (most, least)
    first, last = end(start, first), end(stop, last)
    steps = last - first if step > 0 else first - last
    many = (steps + (abs(step) - 1)) // abs(step)
    made.count.array = functions.asarray(functions.maximum(many, 0))
    made.first.array = Array(scalar_constant(0, DType.I64))
    _move(frame, made, lambda place: grown.place(first + place * step))
    return made


def _shown(frame: Frame, found: Any) -> Any:
    """An element; one that is an array cannot be written, which the list would have to show."""
    if isinstance(found, tuple):
        return tuple(_shown(frame, part) for part in found)
    if not found.ndim:
        return found
    made = frame.memory.make(found)
    made.cell.refusal = "it is an element of a list; make it a copy: x = x.copy()"
    return made


def replace(frame: Frame, node: ast.AST, grown: Grown, index: Any, value: Any) -> None:
    """`x[i] = value`, of the kind that the elements have."""
    _require_own(frame, node, grown)
    position = _position(frame, node, grown, index, "list assignment index out of range")
    numbers = _parts_of(frame, node, value)
    kinds = [_kind(number) for number in numbers]
    if len(kinds) != len(grown.kinds):
        frame.refuse(node, "an element of another kind than the list's", "one of the same kind")
    kinds = [joined(*pair) for pair in zip(grown.kinds, kinds, strict=True)]
    if kinds != grown.kinds:
        _change_kinds(frame, grown, kinds)
    _require_shapes(frame, node, grown, numbers)
    _put(frame, grown, position, numbers, value)


def _change_kinds(frame: Frame, grown: Grown, kinds: list[Kind]) -> None:
    """Let elements be of other kinds, from before the loops and branches on that change them."""
    regions = frame.memory.regions[grown.depth :]
    grown.kinds = kinds
    if regions:
        raise Outgrown(regions[0], grown, None, [layout.ZERO])
    grown.enlarge([layout.ZERO])


def _position(frame: Frame, node: ast.AST, grown: Grown, index: Any, otherwise: str) -> Array:
    if not isinstance(index, Array | Extent | int | np.integer) or (
        isinstance(index, Array) and index.ndim
    ):
        frame.refuse(node, "a part of a list that grows", "one element, or a slice of a known step",
                     "np.array(x), or a loop over range(a, b)")  # fmt: skip
    if not grown.parts:
        if len(frame.memory.regions) > grown.depth:
            raise NothingYet(IndexError(otherwise))
        raise IndexError(otherwise)
    number = tables.from_first(frame, node, index, grown.count.array, otherwise)
    last = Array(graph.size_scalar(grown.room)) - 1
    return functions.minimum(functions.maximum(grown.place(number), 0), last)


# ---------------------------------------------------------------- methods


def method(frame: Frame, node: ast.AST, grown: Grown, name: str, arguments: list[Any]) -> Any:
    """A method of a list."""
    match name, arguments:
        case "append", [value]:
            append(frame, node, grown, value)
        case "pop", ([] | [_]):
            return pop(frame, node, grown, *arguments)
        case "copy", []:
            return copied(frame, grown)
        case "insert", [number, value]:
            insert(frame, node, grown, number, value)
        case "clear", []:
            _require_free(frame, node, grown)
            for cell in (grown.count, grown.first):
                frame.memory.write(cell, Array(scalar_constant(0, DType.I64)))
        case "extend", [tuple() | list() as values]:
            for value in values:
                append(frame, node, grown, value)
        case "reverse", []:
            _require_free(frame, node, grown)
            _reverse(frame, grown)
        case _:
            frame.refuse(
                node, f"the method {name} of a list that grows in a loop or branch",
                "append, pop, insert, copy, extend by a tuple, clear, reverse",
                "np.array(x) first",
            )  # fmt: skip
    return None


def _reverse(frame: Frame, grown: Grown) -> None:
    both = grown.place(grown.place(grown.count.array)) - 1
    _move(frame, grown, lambda place: both - place)


def require_known(frame: Frame, held: list[Any], index: Any) -> None:
    """Let a list grow that lacks an element here, in a loop that may append one."""
    if type(index) is int and not -len(held) <= index < len(held):
        let_grow(frame, held)


def require_growing(frame: Frame, node: ast.AST, held: list[Any]) -> None:
    """Let a list be an array, of which what is written only the run knows."""
    made = frame.trace.literals.get(id(held))
    if made is not None:
        raise Grows(made[1])
    frame.refuse(
        node, "a write to an element of a list whose number only the run knows",
        "a list made in the kernel, of numbers", "np.array([...]) in its place",
    )  # fmt: skip


def let_grow(frame: Frame, held: list[Any]) -> None:
    """Let a list be an array that may grow, which was made outside the loop or branch traced."""
    _, depth = frame.trace.lists.get(id(held), (held, len(frame.memory.regions)))
    made = frame.trace.literals.get(id(held))
    if 0 <= depth < len(frame.memory.regions) and made is not None:
        raise Grows(made[1])


def of_known(
    frame: Frame, node: ast.AST, held: list[Any], name: str, arguments: list[Any]
) -> Any:
    """A method of a list that is known while compiling, which a loop or branch may have grow."""
    if name in _CHANGES:
        let_grow(frame, held)
        frame.require_own(node, held)
    elif name not in ("copy", "index", "count"):
        frame.refuse(node, f"the method {name} of a list", ", ".join(_CHANGES))
    if name in ("pop", "insert"):
        arguments = [int(a) if isinstance(a, Extent) else a for a in arguments]
    if name in ("pop", "index", "count") and is_traced(arguments):
        frame.refuse(node, f"{name} of what only the run knows, in a list", "an array")
    return getattr(held, name)(*arguments)


_CHANGES = ("append", "pop", "extend", "clear", "reverse", "insert")
