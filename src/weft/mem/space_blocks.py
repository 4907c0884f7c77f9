"""Space blocks: the blocks that a tiled loop alternates between take whole pages.

    block mem_a 4*n             block mem_a 4*n + 4*rest_0
    block mem_b 4*n       =>    block mem_b 4*n + 4*rest_1

Where they begin within a page is then what `place_blocks` puts between them, whatever n is: a
loop that reads the one and writes the other has no load that looks like a store before it
(`weft.runtime.apart`): rounds of a stencil on PoCL took 1.15 to 1.3 times as long where one began
68 bytes behind the other within a page.

Removes: nothing. Adds: derived sizes "rest_k" = -n mod 1024.
Requires: loops that are marked as tiled, and blocks that all threads share.
Ensures: the same meaning; a block is larger by less than a page, and as aligned as it was.
"""

from __future__ import annotations

from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.mem.nodes import MemArray, Program
from weft.mem.place_blocks import alignment
from weft.sizes import Derived, Poly
from weft.sizes.division import divided

PAGE = 4096
"""Bytes, as of `weft.runtime.apart`."""


def space_blocks(program: Program) -> Program:
    """The program with larger blocks where a tiled loop has several."""
    alternatives = program.alternatives
    wanted = {
        block
        for let in walk.statements(program.program.body)
        if isinstance(let.expr, fun.Loop) and isinstance(let.expr.form, fun.For)
        if let.expr.form.tiled is not None
        for var in (*let.pattern, *let.expr.params)
        if isinstance(var.type, MemArray)
        for block in alternatives.get(var.type.block, (var.type.block,))
    }
    spaced = {
        block.name for block in program.blocks
        if block.name in wanted and not block.per_thread and not block.bytes.is_constant
    }  # fmt: skip
    if len(spaced) < 2:
        return program
    names, derived, blocks = Names.of(program.program), [], []
    for block in program.blocks:
        if block.name in spaced:
            # The rest of its last page: PoCL 3.1 makes no vectors where offsets are n * 4096. In
            # units that all of it is a multiple of, so that what comes behind it is aligned.
            unit = alignment(block)
            units = divided(-block.bytes, unit)
            rest = Derived(names.fresh("rest"), "mod", units, Poly.const(PAGE // unit))
            derived.append(rest)
            block = replace(block, bytes=block.bytes + Poly.var(rest.name) * unit)
        blocks.append(block)
    whole = replace(program.program, derived=(*program.program.derived, *derived))
    return replace(program, program=whole, blocks=tuple(blocks))
