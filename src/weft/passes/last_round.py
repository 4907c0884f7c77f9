"""What the last round of a loop leaves in variables that no other round looks at.

    let t = loop (t1 = t0) for i from 0 to n {     let t = if 0 < n {
      let v = f(a[i])                          =>    let v = f(a[n - 1])
      .. in v }                                      in v } else { in t0 }

It is computed once more, by what is there before the loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.ops.dtypes import DType
from weft.passes.accumulation import neutral
from weft.passes.knowledge import Knowledge
from weft.passes.meetings import called
from weft.sizes import ONE


def is_of_last_round(param: fun.Var, result: fun.Atom, body: fun.Body) -> bool:
    """Whether rounds bind a variable anew, and none looks at what another one has bound."""
    of_round = {var.name for let in body.statements for var in let.pattern}
    used = walk.free_names(body) | set(walk.uses(body))
    is_new = isinstance(result, fun.Const) or result.name in of_round
    return is_new and param.name not in used


def last_values(
    range_: fun.Range, body: fun.Body, initial: Sequence[fun.Atom], pattern: Sequence[fun.Var],
    place: Place | None, known: Knowledge, names: Names,
) -> list[fun.Let]:  # fmt: skip
    """Statements that bind what a body gives for the last index of a range.

    Where there is none, it is what was there before the loop.
    """
    i64, index = fun.Scalar(DType.I64), range_.index
    number = fun.Let((index,), fun.SizeValue(range_.extent - ONE), place)
    moved = walk.Substitution(sizes={index.name: range_.extent - ONE}).body(body)
    last = fun.Body((number, *moved.statements), moved.results)
    count, some = fun.Var(names.fresh("s"), i64), fun.Var(names.fresh("c"), fun.Scalar(DType.BOOL))
    test = fun.Apply("less", (fun.Const(0, DType.I64), count))
    none: list[fun.Let] = []
    if known.prover.positive(range_.extent):  # then nothing is said of what was there before
        initial = [_some(var, none, names) for var in pattern]
    chosen = fun.If(some, last, fun.Body(tuple(none), tuple(initial)))
    return [
        fun.Let((count,), fun.SizeValue(range_.extent), place),
        fun.Let((some,), test, place),
        fun.Let(tuple(pattern), chosen, place),
    ]


def _some(var: fun.Var, statements: list[fun.Let], names: Names) -> fun.Atom:
    """Something of a variable's type."""
    zero = neutral("add", var.type.dtype)
    if isinstance(var.type, fun.Scalar):
        return zero
    made = fun.Var(names.fresh(called(var)), var.type)
    statements.append(fun.Let((made,), fun.Broadcast(zero, var.type.shape)))
    return made
