"""Few elements in order, by a network of exchanges of two: no branches, so vectors of networks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from weft.frontend import extent as extents
from weft.frontend import layout
from weft.frontend.elementwise import apply
from weft.frontend.graph import Node
from weft.functions.order import Order

Column: TypeAlias = tuple[Node, ...]
"""What is exchanged together: an element of each row, and what goes with it."""


def columns(arrays: tuple[Node, ...], length: int) -> list[Column]:
    """The elements along the last axis of arrays of one shape."""
    last = len(arrays[0].shape) - 1
    return [
        tuple(layout.point(node, last, extents.constant(k)) for node in arrays)
        for k in range(length)
    ]


def exchanged(given: list[Column], pairs: Iterator[tuple[int, int]], order: Order) -> list[Column]:
    """Columns of which pairs have been exchanged where they were not in order."""
    found = list(given)
    for i, j in pairs:
        both = tuple(zip(found[i], found[j], strict=True))
        (low, high), *_ = both
        back = order(high, low)
        found[i] = tuple(apply("where", back, b, a) for a, b in both)
        found[j] = tuple(apply("where", back, a, b) for a, b in both)
    return found


def neighbours(length: int) -> Iterator[tuple[int, int]]:
    """Exchanges of neighbours that sort: equal elements never pass each other."""
    for k in range(length):
        yield from ((i, i + 1) for i in range(k % 2, length - 1, 2))


def merges(length: int) -> Iterator[tuple[int, int]]:
    """Batcher's exchanges, about n (log2 n)^2 / 4 (Knuth, volume 3, algorithm 5.2.2 M)."""
    top = 1 << (length - 1).bit_length() >> 1
    step = top
    while step:
        apart, bit, reach = step, 0, top
        while True:
            yield from ((i, i + apart) for i in range(length - apart) if i & step == bit)
            if reach == step:
                break
            apart, bit, reach = reach - step, step, reach >> 1
        step >>= 1
