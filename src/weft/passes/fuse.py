"""fuse: producers into consumers, and what reads the same arrays into one pass over them.

    let d = kernel(i < n) { x[i] - y[i] }; let e = kernel(i < n) { d[i] * d[i] }
    let s = reduce[add] (i < n) { e[i] }; let m = reduce[maximum] (i < n) { e[i] }
 => let s, m = reduce[(add, maximum)] (i < n) { let d = x[i] - y[i]; let e = d * d; in e, e }

Removes, adds, ensures: what `fuse_vertical` and `fuse_horizontal` do, by turns, since a
    producer of two consumers has one after they are joined.
Requires: a simplified program.
"""

from __future__ import annotations

from weft.fun import nodes as fun
from weft.passes.fuse_horizontal import fuse_horizontal
from weft.passes.fuse_vertical import fuse_vertical
from weft.passes.remove_dead import remove_dead
from weft.passes.share import share
from weft.passes.simplify import simplify

_ROUNDS = 4


def fuse(program: fun.Program) -> fun.Program:
    """The program fused, simplified, and without what fusion left unused."""
    for _ in range(_ROUNDS):
        before = program
        program = fuse_vertical(program)
        if program is not before:
            program = remove_dead(share(simplify(program)))
        vertical = program
        program = fuse_horizontal(program)
        if program is vertical:
            return program
        program = remove_dead(share(simplify(program)))
    return program
