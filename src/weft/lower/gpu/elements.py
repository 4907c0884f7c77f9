"""An element of a contraction on a device: its sum, and what is made of it.

Sums are folded from left to right in blocks of `contractions.BLOCK`, which are combined in order,
whichever form computes them.
"""

from __future__ import annotations

from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun.contractions import BLOCK, Contraction, instead
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import kernels
from weft.lower.accumulation import Accumulation
from weft.lower.bodies import apply_lambda, lower_body
from weft.lower.emitter import Emitter
from weft.sizes import ZERO


def lower_element(k: Emitter, let: fun.Let, kernel: fun.Kernel, found: Contraction) -> None:
    """The kernel's body at one index, its reduction in the tree of tiles."""
    if found.fact is not None:
        kernels.lower_results(k, let, kernel)
        return
    r, dtype = found.reduce.space[0], found.reduce.neutral[0].type.dtype
    extent, neutral = k.named(r.extent), k.atom(found.reduce.neutral[0])
    total = k.mutable(dtype, neutral)
    start, var = k.unit.integer("g"), k.unit.integer("k")
    with k.loop(start, imp.ZERO, extent, step=BLOCK), k.index(r.index.name, start, ZERO, r.extent):
        end = k.declare(machine("+", start, imp.integer(BLOCK)))
        end = k.declare(machine("min", extent, end))
        fold = k.mutable(dtype, neutral)
        with k.loop(var, start, end):
            k.bind(r.index.name, var)
            for side in (found.left, found.right):
                lower_body(k, fun.Body(side.statements, ()))
            now = k.declare(fold, depth=k.depth)
            k.emit(imp.Assign(fold, Accumulation(k, found).of(k.declare_here(now))))
        k.emit(imp.Assign(total, combined(k, found, k.declare_here(total), k.declare_here(fold))))
    finish(k, let, kernel, found, k.declare_here(total))


def finish(
    k: Emitter, let: fun.Let, kernel: fun.Kernel, found: Contraction, total: imp.Expr
) -> None:
    """The rest of the kernel's body, of an element whose sum is known."""
    k.bind(found.let.pattern[0].name, total)
    body = instead(kernel.body, found.let, ())
    kernels.lower_results(k, let, replace(kernel, body=body))


def combined(k: Emitter, found: Contraction, left: imp.Expr, right: imp.Expr) -> imp.Expr:
    (value,) = apply_lambda(k, found.reduce.operator, [left, right])
    return value


def loaded(k: Emitter, pointer: imp.Pointer, at: imp.Expr) -> imp.Expr:
    """What an array of an item, or of its group, has at a place now."""
    return k.declare(imp.Load(pointer, at), depth=k.depth)
