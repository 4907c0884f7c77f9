"""Arrays of which a number that only the run knows chooses one, as `buffers[k % 2]` does.

What is read is read of each, of which one is taken; what is written is written to each, in the
branch where it is that. So views of one show the arrays themselves, as Python's do.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from weft import functions
from weft.array import Array
from weft.frontend import extent as extents
from weft.frontend import layout
from weft.kernel.frame import Frame
from weft.kernel.values import Cell, OneOf, Reference


def of(frame: Frame, node: ast.AST, values: Sequence[Reference], place: Array) -> Reference:
    """The one of a place, which is inside."""
    first, *rest = (value.read()._node for value in values)
    for other in rest:
        shapes = [layout.values(node.shape) for node in (first, other)]
        if first.dtype is not other.dtype or shapes[0] != shapes[1]:
            one, two = (
                f"{n.dtype.numpy}{list(s)}" for n, s in zip((first, other), shapes, strict=True)
            )
            frame.refuse(
                node, f"one of arrays of two kinds, {one} and {two}, by an index that only the run "
                "knows", "arrays of one shape and dtype",
                "an index that is known while compiling, or if and else",
            )  # fmt: skip
        for own, given in zip(first.shape, other.shape, strict=True):
            extents.require_equal(own, given)
    if all(value.same(values[0]) for value in values):
        return values[0]
    options: list[Reference] = []
    number: Any = 0
    for k, value in enumerate(values):  # each of which may be one of several
        inner = value.place if isinstance(value, OneOf) else 0
        number = functions.where(place == k, len(options) + inner, number)
        options.extend(value.options if isinstance(value, OneOf) else (value,))
    if len(options) == len(values):
        number = place
    cell = Cell(Array(first), values[0].cell.depth)
    return OneOf(cell, (), tuple(options), number)


def write(
    frame: Frame, node: ast.AST, target: OneOf, write_to: Callable[[Reference], None]
) -> None:
    """Write to the array that it is, and to no other."""
    from weft.kernel import branches

    last = len(target.options) - 1

    def from_option(number: int) -> None:
        option = target.options[number]
        if number == last:
            write_to(option)
            return
        branches.branch(
            frame, node, target.place == number,
            lambda: write_to(option), lambda: from_option(number + 1),
        )  # fmt: skip

    from_option(0)
