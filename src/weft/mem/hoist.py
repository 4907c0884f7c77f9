"""Hoist: what index functions depend on is computed as early as it can be.

let x @ mem_x = kernel (i < n) { .. }          let at = floor_divide n 2
let at = floor_divide n 2                 =>   let x @ mem_x = kernel (i < n) { .. }
let y = update z[at for n] x                   let y = update z[at for n] x

So that `x` may be made at `z[at]` at once, `at` has to be known before `x` is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.mem.nodes import MemArray, Program
from weft.sizes import Size


def hoist(program: Program) -> Program:
    """Move scalars of which sizes or index functions are made up and out.

    Removes and adds nothing: statements change places. Requires nothing. Ensures that

    - scalar operations, casts and sizes on which a shape, an index function, or the place
      of a slice or an update depends (also through other scalars) stand right after the
      last statement that they depend on, in the outermost body that knows what they need:
      before kernels, loops and branches in which they do not vary. Scalar operations are
      total, so a branch or a loop that is not taken is no hindrance;
    - elements read for that purpose stand as early in their own body. They do not leave it:
      a body that does not run may be what keeps an index inside its array.

    Allocations need no hoisting: all blocks are allocated before the program starts, of
    sizes that `weft.mem.bound` finds for it (what the thesis, chapter 6, hoists before it
    short-circuits).
    """
    wanted = _wanted(program.program.body)
    if not wanted:
        return program
    body, _ = _Hoisting(wanted).body(program.program.body, None)
    return replace(program, program=replace(program.program, body=body))


# ---------------------------------------------------------------- what is moved


def _wanted(body: fun.Body) -> frozenset[str]:
    """The scalars on which places in memory depend."""
    definitions = {
        let.pattern[0].name: let.expr for let in walk.statements(body) if _moves(let.expr)
    }
    found: set[str] = set()
    waiting = [name for size in _places(body) for name in size.variables()]
    while waiting:
        name = waiting.pop()
        if name in definitions and name not in found:
            found.add(name)
            waiting += walk.used_names(definitions[name])
    return frozenset(found)


def _moves(expr: fun.Expr) -> bool:
    return isinstance(expr, walk.SCALARS)


def _places(body: fun.Body) -> Iterator[Size]:
    """The sizes of all array types, and of all layout changes and updates."""
    for let in walk.statements(body):
        _, sizes, binders = walk.operands(let.expr)
        for var in (*let.pattern, *binders):
            if isinstance(var.type, MemArray):
                yield from (*var.type.shape, var.type.index.offset, *var.type.index.strides)
        if isinstance(let.expr, (*fun.LAYOUT_CHANGES, fun.Update, fun.LmadUpdate)):
            yield from sizes


# ---------------------------------------------------------------- where to


class _Hoisting:
    def __init__(self, wanted: frozenset[str]) -> None:
        self.wanted = wanted

    def body(
        self, body: fun.Body, bound: Iterable[str] | None
    ) -> tuple[fun.Body, tuple[fun.Let, ...]]:
        """The body, and the statements that leave it.

        `bound` is what the expression around it binds; None for a body that nothing leaves.
        """
        local = None if bound is None else set(bound)
        done: list[fun.Let] = []
        moved: set[str] = set()
        leaving: list[fun.Let] = []

        def put(let: fun.Let) -> None:
            name = let.pattern[0].name if let.pattern else ""
            if name not in self.wanted:
                done.append(let)
            elif (
                local is not None
                and not isinstance(let.expr, fun.Index)
                and not local & walk.used_names(let.expr)
            ):
                leaving.append(let)
                return
            else:
                done.insert(_earliest(let, done, moved), let)
                moved.add(name)
            if local is not None:
                local.update(var.name for var in let.pattern)

        for let in body.statements:
            inner, outside = self.expression(let.expr)
            for earlier in outside:
                put(earlier)
            put(replace(let, expr=inner) if inner is not let.expr else let)
        return fun.Body(tuple(done), body.results), tuple(leaving)

    def expression(self, expr: fun.Expr) -> tuple[fun.Expr, list[fun.Let]]:
        """The expression, and the statements that leave its bodies."""
        if not walk.bodies(expr):
            return expr, []
        bound = {var.name for var in walk.operands(expr)[2]}
        outside: list[fun.Let] = []

        def inner(body: fun.Body) -> fun.Body:
            done, leaving = self.body(body, bound)
            outside.extend(leaving)
            return done

        return walk.map_bodies(expr, inner), outside


def _earliest(let: fun.Let, done: list[fun.Let], moved: set[str]) -> int:
    """Right after the last statement that it depends on, and what was put there before."""
    used = walk.used_names(let.expr)
    place = len(done)
    while place > 0 and not any(var.name in used for var in done[place - 1].pattern):
        place -= 1
    while place < len(done) and done[place].pattern[0].name in moved:
        place += 1
    return place
