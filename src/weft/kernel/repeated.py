"""Lists as operands: a list times a number."""

from __future__ import annotations

import ast
from typing import Any

from weft import functions
from weft.array import Array, node_of
from weft.frontend import graph, indexing, layout, symbolic
from weft.frontend.elementwise import as_dtype
from weft.frontend.extent import Extent
from weft.kernel.frame import Frame
from weft.kernel.lists import Grown, Grows
from weft.kernel.maybe import is_number
from weft.kernel.values import Cell
from weft.ops.dtypes import DType


def of_list(frame: Frame, node: ast.AST, op: ast.operator, left: Any, right: Any) -> Any:
    """What an operator gives whose operands are lists; None where Python's own does."""
    held, other = (left, right) if isinstance(left, list | Grown) else (right, left)
    is_times = isinstance(op, ast.Mult) and is_number(other)
    if isinstance(held, Grown) and is_times:
        return _times(frame, node, held, other)
    if isinstance(left, Grown) or isinstance(right, Grown):
        if isinstance(op, ast.Mult | ast.Add) and not hasattr(other, "ndim"):
            frame.refuse(
                node, "an operator on a list that grows", "a list times a number",
                "np.array(x), or append",
            )  # fmt: skip
        return None
    made = frame.trace.literals.get(id(held))
    if isinstance(held, Grown) or not is_times or made is None:
        return None
    if isinstance(other, Array):
        raise Grows(made[1])
    product: list[Any] = held * int(other)
    frame.trace.literals[id(product)] = product, made[1]
    return product


def _times(frame: Frame, node: ast.AST, held: Grown, number: Any) -> Grown:
    many = indexing.index_node(node_of(number))
    rounds = layout.limited("maximum", symbolic.extent_of(many), layout.ZERO)
    depth = len(frame.memory.regions)
    times = functions.maximum(Array(as_dtype(node_of(number), DType.I64)), 0)
    count = held.count.array
    room: Extent = held.room * rounds + 1
    places = functions.arange(room) % functions.maximum(count, 1)
    first = Array(graph.scalar_constant(0, DType.I64))
    made = Grown(
        depth, len(graph._open.all), Cell(count * times, depth, name="count"),
        Cell(first, depth, name="first"), room, list(held.kinds), list(held.shapes),
        of_tuples=held.of_tuples,
    )  # fmt: skip
    for cell in held.parts:
        array = functions.take(cell.array, held.place(places), axis=0)
        made.parts.append(Cell(array, depth, name="list"))
    return made
