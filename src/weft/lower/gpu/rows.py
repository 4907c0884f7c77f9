"""Straight-line kernels on a device that is a processor: an item does a run of neighbours.

Its compiler vectorises innermost loops alone, and those of work items hold what a GPU does for
each of them: indices from the item's number, and the boundary rules of reads. So an item has a
loop of its own over a part of a row, and a loop without rules where none applies
(`weft.lower.rows`). Elements are computed by the same operations as by an item each.

    kernel (i < n, j < m) { f(x[i - 1, j], x[i, j + 1]) }
    =>  an item for each part of a row:  for lower <= j < upper { f(x[i - 1, j], x[i, j + 1]) }
"""

from __future__ import annotations

from contextlib import ExitStack

from weft.fun import nodes as fun
from weft.fun.vector_math import has_vector_math
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import kernels, shapes, spaces
from weft.lower.emitter import Emitter
from weft.lower.gpu import versions
from weft.lower.gpu.host import Host
from weft.sizes import ONE, ZERO, as_poly, product

RUN = 4096
"""Elements that an item computes: a part of one row, or several short rows."""


def by_rows(host: Host, let: fun.Let, kernel: fun.Kernel) -> bool:
    """Launch a kernel by rows, if its body is straight-line code that vectors can do.

    Returns
    -------
    bool
        Whether it is launched: not one that calls mathematical functions, which no loop is
        vectorised with, or of which no launch knows the size.
    """
    scalars = all(isinstance(atom.type, fun.Scalar) for atom in kernel.body.results)
    flat = scalars and shapes.is_flat(kernel.body) and not has_vector_math(kernel.body)
    if not flat or not host.is_sized(product(r.extent for r in kernel.space)):
        return False
    space = kernels.fused(host.e, let, kernel)
    *outer, last = space
    # Where rows of one array are columns of another, an item has part of many rows.
    across = kernels.crosses(let, space)
    run = kernels.BLOCK if across else RUN
    parts, count = versions.ceil(host, last.extent, run), product(r.extent for r in outer)
    several = as_poly(RUN // run)
    if not across:
        several = versions.divide(host, as_poly(RUN), versions.maximum(host, last.extent, ONE))
        several = versions.maximum(host, several, ONE)
    units = count * parts
    items = versions.ceil(host, units, several) if outer else parts
    k, item = host.kernel_emitter(), host.unit.integer("item")
    with ExitStack() as scopes:
        for r in kernel.space:
            scopes.enter_context(k.index(r.index.name, imp.ZERO, ZERO, r.extent))
        if outer:
            first = k.declare(machine("*", item, k.named(several)))
            after = k.declare(machine("+", first, k.named(several)))
            unit = k.unit.integer("unit")
            end = k.declare(machine("min", k.named(units), after))
            scopes.enter_context(k.loop(unit, first, end, hoist=True))
            turn = k.named(count if across else parts)
            row, part = machine("/", unit, turn), machine("%", unit, turn)
            if across:
                row, part = part, row
            spaces.decode(k, tuple(outer), k.declare(row))
            _part(k, let, last, k.declare(part), run)
        else:
            _part(k, let, last, item, run)
    host.unit.kernels.append(spaces.describe("map by rows", kernel.space, let.pattern))
    host.add(k, "rows", item, items, 1)
    return True


def _part(k: Emitter, let: fun.Let, last: fun.Range, part: imp.Expr, run: int) -> None:
    """The part of a row with a number, of so many elements; its other indices are known."""
    lower = k.declare(machine("*", part, imp.integer(run)), "lower")
    upper = k.declare(machine("+", lower, imp.integer(run)))
    upper = k.declare(machine("min", k.named(last.extent), upper), "upper")
    kernels.lower_part(k, let, last.index.name, (lower, upper))
