"""What order is: NaN comes last."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from weft.frontend.elementwise import apply
from weft.frontend.graph import Node

Order: TypeAlias = Callable[[Node, Node], Node]
"""Whether one element has to come before another."""


def precedes(left: Node, right: Node) -> Node:
    """Whether one is less."""
    if not left.dtype.is_float:
        return apply("less", left, right)
    before = apply("logical_not", apply("less_equal", right, left))
    return apply("logical_and", before, apply("equal", left, left))


def follows(left: Node, right: Node) -> Node:
    """Whether one is greater."""
    return precedes(right, left)
