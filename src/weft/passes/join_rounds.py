"""join_rounds: rounds that put their arrays together from pieces, as kernels over the arrays.

    loop (v = x) for k from 0 to t {
      let a = kernel (i < n - 2) { f(v[i], v[i + 2]) }
      let y = update v[1 for n - 2] = a
      in y }
 => loop (v = x) for k from 0 to t {
      let y = kernel (i < n) { .. f(v[i - 1], v[i + 1]), or v[i] at the ends .. }
      in y }

where that makes the loop an iterated stencil (`weft.fun.stencils`): what then runs many rounds on
a part of the arrays knows none of pieces.

Removes: concatenations and updates in such loops (`weft.passes.join_pieces`). Adds: kernels with
branches. Requires a fused program. Ensures the same bits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.fun import nodes as fun
from weft.fun.builder import Names
from weft.passes.remove_dead import remove_dead_in
from weft.sizes.prove import Prover

if TYPE_CHECKING:
    from weft.fun.stencils import Stencil

_PIECES = (fun.Concat, fun.Update)


def join_rounds(program: fun.Program) -> fun.Program:
    """The program in which the pieces of such loops are joined."""
    names = Names.of(program)
    statements = []
    for let in program.body.statements:
        if isinstance(let.expr, fun.Loop):
            found = joined_rounds(program, let.expr, names)
            let = let if found is None else replace(let, expr=found[0])
        statements.append(let)
    return replace(program, body=fun.Body(tuple(statements), program.body.results))


def joined_rounds(
    program: fun.Program, loop: fun.Loop, names: Names
) -> tuple[fun.Loop, Stencil] | None:
    """A loop of the program with its pieces joined, and what it then repeats.

    None where it has none, or is no stencil even so.
    """
    if not any(isinstance(let.expr, _PIECES) for let in loop.body.statements):
        return None
    from weft.fun.stencils import stencil_of
    from weft.passes.join_pieces import join_pieces

    prover = Prover(program.facts, sizes=program.sizes, derived=program.derived)
    joined = join_pieces(loop.body, names, prover)
    loop = replace(loop, body=remove_dead_in(joined))
    stencil = stencil_of(loop)
    return None if stencil is None else (loop, stencil)
