"""write_twice: what a round hands to the next one and keeps as a part of an array is made in both.

    let v = kernel .. in a                       let v, c = kernel .. in a, a
    let y2 = update y1[k, 0 for m] = v     =>    let y2 = update y1[k, 0 for m] = c
    in v, y2                                     in v, y2

Removes: copies of what a kernel in a loop has made, which would be kernels of their own.
Adds: a result of the kernel, which is made where it would be copied to (`weft.mem.short_circuit`).
Requires: a checked program, whose states are read in rows where they can be (`chain_rows`).
Ensures: the same values.
"""

from __future__ import annotations

from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names


def write_twice(program: fun.Program) -> fun.Program:
    """The program whose loops' kernels write what they keep themselves."""
    if not any(isinstance(let.expr, fun.Loop) for let in walk.statements(program.body)):
        return program
    names = Names.of(program)

    def body(old: fun.Body) -> fun.Body:
        statements = []
        for let in old.statements:
            new = walk.map_let(let, body)
            if isinstance(new.expr, fun.Loop):
                new = replace(new, expr=replace(new.expr, body=_twice(new.expr.body, names)))
            statements.append(new)
        return walk.with_statements(old, statements)

    changed = body(program.body)
    return program if changed is program.body else replace(program, body=changed)


def _twice(body: fun.Body, names: Names) -> fun.Body:
    """The body of a loop with a result more of each kernel whose result it carries and keeps."""
    carried = {atom.name for atom in body.results if isinstance(atom, fun.Var)}
    made = {var.name for let in body.statements if _is_kernel(let) for var in let.pattern}
    again: dict[str, fun.Var] = {}
    statements = []
    for let in body.statements:
        update = let.expr
        if isinstance(update, fun.Update) and isinstance(update.value, fun.Var):
            value = update.value
            if value.name in made & carried - again.keys() and let.pattern[0].name != value.name:
                again[value.name] = fun.Var(names.fresh(value.name), value.type)
                let = replace(let, expr=replace(update, value=again[value.name]))
        statements.append(let)
    if not again:
        return body
    return replace(body, statements=tuple(_with_results(let, again) for let in statements))


def _is_kernel(let: fun.Let) -> bool:
    return isinstance(let.expr, fun.Kernel) and all(
        isinstance(atom.type, fun.Scalar) for atom in let.expr.body.results
    )


def _with_results(let: fun.Let, again: dict[str, fun.Var]) -> fun.Let:
    """A statement that gives some of its results another time."""
    twice = [number for number, var in enumerate(let.pattern) if var.name in again]
    if not twice or not isinstance(let.expr, fun.Kernel):
        return let
    results = let.expr.body.results
    inner = replace(let.expr.body, results=(*results, *(results[number] for number in twice)))
    pattern = (*let.pattern, *(again[let.pattern[number].name] for number in twice))
    return replace(let, pattern=pattern, expr=replace(let.expr, body=inner))
