"""Strips of lanes along another dimension, where the kernel's last one has few elements.

    for i { for o { y[i, o] = reduce (k) x[s * i + k] * w[k, o] } }
        =>  if o is short and s is small { for o { for i { y[i, o] = .. } } } else { as it was }

A layer of a network has a few channels for each of many pixels: a register holds more pixels
than there are channels. Each lane still folds its own rows in their order, so bits are the same.
How long the dimensions are is known at launch.
"""

from __future__ import annotations

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import merging, strip_bodies
from weft.lower.emitter import Emitter
from weft.records import dataclass
from weft.sizes import ZERO, Size

FEW = 8  # columns: not more than a register has
APART = 16  # elements between the reads of neighbouring lanes: at most so many


@dataclass(frozen=True, slots=True)
class Turn:
    """The dimension that lanes may be taken from, and how far apart its reads are."""

    space: tuple[fun.Range, ...]  # with that dimension last
    distances: tuple[Size, ...]


def turned(e: Emitter, kernel: fun.Kernel) -> Turn | None:
    """The innermost dimension but the last whose reads are a simple size apart."""
    columns = kernel.space[-1].extent
    if columns.is_constant and columns.constant > FEW:
        return None
    indices = {r.index.name for r in kernel.space}
    addresses = merging.reads(kernel.body)
    for place in reversed(range(len(kernel.space) - 1)):
        lane = kernel.space[place]
        name = lane.index.name
        if any(address.degree(name) > 1 for address in addresses):
            continue
        distances = {address.coefficient(name) for address in addresses} - {ZERO}
        if (
            distances
            and all(map(_is_simple, distances))
            and all(d.variables() <= e.unit.sizes - indices for d in distances)
            and lane.extent.variables() <= e.unit.sizes
            and strip_bodies.possible(kernel.body, name)
        ):
            space = (*kernel.space[:place], *kernel.space[place + 1 :], lane)
            return Turn(space, tuple(sorted(distances, key=str)))
    return None


def _is_simple(distance: Size) -> bool:
    """A number or a size, not a product of sizes: rows of arrays are long."""
    return all(len(monomial) <= 1 for monomial in distance.terms)


def is_worth(e: Emitter, kernel: fun.Kernel, turn: Turn) -> imp.Expr:
    """Whether to take it: few columns, more lanes than these, and reads near each other."""
    columns, lanes = e.named(kernel.space[-1].extent), e.named(turn.space[-1].extent)
    worth = machine("&&", machine("<=", columns, imp.integer(FEW)), machine(">=", lanes, columns))
    for distance in turn.distances:
        apart = e.named(distance)
        near = machine(
            "&&",
            machine("<=", apart, imp.integer(APART)),
            machine(">=", apart, imp.integer(-APART)),
        )
        worth = machine("&&", worth, near)
    return e.declare(worth)
