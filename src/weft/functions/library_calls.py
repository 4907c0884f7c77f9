"""Calls of library routines on whole arrays, and what stands for them within loops."""

from __future__ import annotations

from typing import Any

from weft.errors import ShapeError, UnsupportedError, user_place
from weft.frontend import layout, operations, symbolic
from weft.frontend.graph import Node, Shape, make, scope_of
from weft.functions.arguments import one_axis
from weft.functions.written_out import written_out
from weft.ops.dtypes import DType


def rows_along(node: Node, axis: int, what: str) -> tuple[Node, list[int]]:
    """Rows along an axis, so that whatever it is boxes of them can be; the order of the axes."""
    if not node.shape:
        raise ShapeError(f"{what} of a scalar", "one dimension or more", place=user_place())
    along = one_axis(axis, len(node.shape))
    order = [k for k in range(len(node.shape)) if k != along] + [along]
    return layout.permute(node, order), order


def library_call(
    routine: str, options: Any, inputs: tuple[Node, ...], shape: Shape, dtype: DType,
    extents: Shape = (),
) -> Node:  # fmt: skip
    """A call of a library routine on whole arrays; elsewhere, what is written out in its place.

    That is within loops, branches and combinators, and for lengths that only the run knows.

    `extents`: what no input tells of the shape.

    Raises
    ------
    UnsupportedError
        Where it is not: compiled code does not call back.
    """
    node = make(operations.Call(routine, options), inputs, shape, dtype, sizes=extents)
    if node.scope is None and not symbolic.have_symbols(node, *inputs):
        return node
    return written_out(routine, dict(options), inputs) or _outside(node, routine)


def library_calls(
    routine: str, options: Any, inputs: tuple[Node, ...], types: tuple[tuple[Shape, DType], ...]
) -> Node:
    """A call of a library routine with several results, which are picked from the node.

    Raises
    ------
    UnsupportedError
        As `library_call`.
    """
    operation = operations.Call(routine, options)
    return _outside(make(operation, inputs, (), None, types=types), routine)


def is_within(*nodes: Node) -> bool:
    """Whether what is computed of nodes is within a loop, branch or combinator."""
    return scope_of(nodes) is not None


def _outside(node: Node, routine: str) -> Node:
    if node.scope is not None:
        raise UnsupportedError(
            f"{routine} inside a loop, branch or combinator",
            f"{routine} of whole arrays",
            "call it before or after",
            place=user_place(),
        )
    if symbolic.have_symbols(node, *node.inputs):
        raise UnsupportedError(
            f"{routine} of a part whose length only the run knows",
            f"{routine} of whole arrays, or of parts between sizes",
            "compute the length outside of the function, and pass it",
            place=user_place(),
        )
    return node
