"""Lists that grow and that a branch chooses one of, or a loop binds anew: `frontier = nxt`.

All such lists have the same room, which a run that needs more is begun again with more of; so
arrays and counts of one are those of another. What is chosen is a copy: it can neither be changed
nor read once the list that it was is changed, where another name shows that still.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from weft.array import Array
from weft.frontend import extent as extents
from weft.frontend import graph
from weft.frontend.elementwise import as_dtype
from weft.frontend.graph import scalar_constant
from weft.functions.creation import filled
from weft.kernel.frame import Frame, cells
from weft.kernel.lists import Grown, Grows, Kind, joined
from weft.kernel.liveness import live
from weft.kernel.maybe import is_number
from weft.kernel.values import Cell
from weft.records import dataclass


def are_lists(values: Sequence[Any]) -> bool:
    """Whether one of two lists, of numbers, is chosen whose lengths only the run knows."""
    if not all(isinstance(value, Grown) or _is_of_numbers(value) for value in values):
        return False
    lengths = [len(value) for value in values if isinstance(value, list)]
    return len(lengths) < len(values) or len({*lengths}) > 1


def _is_of_numbers(value: Any) -> bool:
    return type(value) is list and all(
        is_number(part) or (type(part) is tuple and all(map(is_number, part))) for part in value
    )


def have_common_room(frame: Frame, values: Sequence[Any]) -> bool:
    """Whether lists are such that one of them may be chosen; if they can be, they are made so."""
    for value in values:
        place: Any
        if isinstance(value, Grown):
            place = None if any(value.shapes) else value.origin
            if value.is_common:
                continue
        else:
            _, place = frame.trace.literals.get(id(value), (None, None))
        if place is None:
            return False
        raise Grows(place, is_common=True)
    return True


def kinds_of(values: Sequence[Grown]) -> list[Kind] | None:
    """The kinds of the numbers of elements that any of some lists has; None: they are at odds."""
    of = [value for value in values if value.kinds]
    if len({(len(value.kinds), value.of_tuples) for value in of}) > 1:
        return None
    kinds = of[0].kinds if of else []
    for value in of[1:]:
        kinds = [joined(*pair) for pair in zip(kinds, value.kinds, strict=True)]
    return kinds


def arrays(
    frame: Frame, value: Grown, kinds: Sequence[Kind], now: dict[Cell, Array]
) -> list[Array]:
    """The arrays of a list, for elements of some kinds; `now` what cells hold in a branch."""
    found = []
    for k, (dtype, _) in enumerate(kinds):
        if k < len(value.parts):
            cell = value.parts[k]
            found.append(Array(as_dtype(now.get(cell, cell.array)._node, dtype)))
        else:
            room = extents.constant(frame.trace.room)
            found.append(Array(filled(scalar_constant(0, dtype), (room,))))
    return found


def made(
    frame: Frame, count: Array, first: Array, parts: Sequence[Array], kinds: Sequence[Kind],
    of_tuples: bool,
) -> Grown:  # fmt: skip
    """A list that is one of others."""
    depth = len(frame.memory.regions)
    return Grown(
        depth, len(graph._open.all), Cell(count, depth, name="count"),
        Cell(first, depth, name="first"), extents.constant(frame.trace.room), list(kinds),
        [() for _ in kinds], [Cell(part, depth, name="list") for part in parts], of_tuples,
        is_checked=True, is_common=True,
    )  # fmt: skip


def shown(value: Grown, holders: Sequence[Any]) -> bool:
    """Whether other variables hold a list."""
    return any(value.count in cells(held) for held in holders)


def require_sole(
    frame: Frame, node: ast.For | ast.While, name: str, variables: Mapping[str, Any]
) -> None:
    """Refuse to carry a list of which another variable would see what happens to it."""
    value = variables[name]
    others = [variables.get(other) for other in live(node) if other != name]
    if value.count.refusal or shown(value, others):
        frame.refuse(
            node, f"{name} is another list in each round of this loop, and another name shows that "
            "list, too", "lists of their own", f"{name} = x.copy() in place of {name} = x",
        )  # fmt: skip


@dataclass(slots=True)
class Carried:
    """A list that a loop binds anew: its parts, as variables of the loop by these names."""

    name: str
    kinds: list[Kind]
    of_tuples: bool

    @property
    def numbers(self) -> tuple[str, str]:
        return f"{self.name}.count", f"{self.name}.first"

    @property
    def arrays(self) -> list[str]:
        return [f"{self.name}.{k}" for k in range(len(self.kinds))]

    def value(self, frame: Frame) -> Grown:
        count, first = (frame.variables[name] for name in self.numbers)
        parts = [frame.variables[name].read() for name in self.arrays]
        return made(frame, count, first, parts, self.kinds, self.of_tuples)

    def take_apart(self, frame: Frame, node: ast.AST, value: Any) -> None:
        """Let the parts be variables of their own."""
        held = [Grown, list]
        if type(value) not in held or not have_common_room(frame, [value]):
            frame.refuse(node, f"{self.name} is a list in some rounds of this loop alone", "a list")
        kinds = joined_kinds(self, value)
        if kinds is None:
            frame.refuse(node, f"elements of {self.name} of several kinds", "elements of one kind")
        frame.variables |= zip(self.numbers, (value.count.array, value.first.array), strict=True)
        parts = arrays(frame, value, self.kinds, {})
        frame.variables |= zip(self.arrays, map(frame.memory.make, parts), strict=True)

    def differs(self, value: Any) -> bool:
        """Whether a round gives elements of other kinds; then these are carried."""
        kinds = joined_kinds(self, value) if isinstance(value, Grown) else None
        if kinds is None or kinds == self.kinds:
            return False
        self.kinds, self.of_tuples = kinds, self.of_tuples or value.of_tuples
        return True


def joined_kinds(carried: Carried, value: Grown) -> list[Kind] | None:
    if not carried.kinds or not value.kinds:
        return carried.kinds or value.kinds
    if len(carried.kinds) != len(value.kinds) or carried.of_tuples != value.of_tuples:
        return None
    return [joined(*pair) for pair in zip(carried.kinds, value.kinds, strict=True)]
