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
    less = apply("less", left, right)
    if not left.dtype.is_float:
        return less
    apart = apply("logical_and", apply("not_equal", right, right), apply("equal", left, left))
    return apply("logical_or", less, apart)


def follows(left: Node, right: Node) -> Node:
    """Whether one is greater."""
    return precedes(right, left)
