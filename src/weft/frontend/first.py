"""The first elements of an elementwise expression, from the first elements of its data."""

from __future__ import annotations

from collections.abc import Collection

from weft.frontend import layout, operations
from weft.frontend.elementwise import apply, as_dtype
from weft.frontend.graph import Node

_MOST = 64  # nodes of an expression that is written again


def first_elements(node: Node, axes: Collection[int]) -> Node | None:
    """The first element along some axes, these kept as dimensions of one.

    x + y => x[:1] + y[:1]

    None where the expression is not elementwise in arrays at hand, so that its first elements
    would need an array that is otherwise never made.
    """
    return _first(node, frozenset(axes), {})


def _first(node: Node, axes: frozenset[int], memo: dict[Node, Node | None]) -> Node | None:
    if not axes:
        return node
    if node not in memo:
        memo[node] = None if len(memo) > _MOST else _made(node, axes, memo)
    return memo[node]


def _made(node: Node, axes: frozenset[int], memo: dict[Node, Node | None]) -> Node | None:
    match node.operation:
        case operations.Leaf() | operations.Param():
            for axis in axes:
                if node.shape[axis].poly != 1:
                    node = layout.take_slice(node, axis, layout.ZERO, layout.ONE)
            return node
        case operations.Elementwise(operation):
            inputs = [_part(source, node, axes, memo) for source in node.inputs]
            return None if None in inputs else apply(operation, *[i for i in inputs if i])
        case operations.Cast(dtype):
            source = _part(node.inputs[0], node, axes, memo)
            return None if source is None else as_dtype(source, dtype)
        case operations.Broadcast():
            source = _part(node.inputs[0], node, axes, memo)
            if source is None:
                return None
            shape = tuple(layout.ONE if d in axes else e for d, e in enumerate(node.shape))
            return layout.broadcast(source, shape)
        case _:
            return None


def _part(
    source: Node, node: Node, axes: frozenset[int], memo: dict[Node, Node | None]
) -> Node | None:
    """The first elements of an input, whose dimensions are aligned with the last of the node."""
    missing = len(node.shape) - len(source.shape)
    return _first(source, frozenset(axis - missing for axis in axes if axis >= missing), memo)
