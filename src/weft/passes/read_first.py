"""read_first: what reads an array stands before the array's update.

    let y = update x[i] = v          let r = x[j]
    let r = x[j]                =>   let y = update x[i] = v

Removes: reads of an array, or of a view of it, after an update that they do not depend on.
Adds: nothing.
Requires: a checked program.
Ensures: the same values, since statements only change places. An update that is then the last
    use of its array can be done in place; the array no longer has to be copied.
"""

from __future__ import annotations

from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.passes.order import Node, depends, in_order, nodes_of


def read_first(program: fun.Program) -> fun.Program:
    """The program with reads before updates, in all of its bodies."""
    body = _body(program.body)
    return program if body is program.body else replace(program, body=body)


def _body(body: fun.Body) -> fun.Body:
    statements = [walk.map_let(let, _body) for let in body.statements]
    if any(_updated(let.expr) for let in statements):
        nodes = nodes_of(statements)
        for number, node in nodes.items():
            if names := _updated(node.let.expr):
                _delay(nodes, number, _aliases(statements[:number], names))
        statements = in_order(nodes)
    return walk.with_statements(body, statements)


def _updated(expr: fun.Expr) -> tuple[str, ...]:
    """The arrays whose memory a statement would like to write."""
    match expr:
        case fun.Update(array) | fun.LmadUpdate(array):
            return (array.name,)
        case fun.Scatter(destinations):
            return tuple(var.name for var in destinations)
        case _:
            return ()


def _viewed(let: fun.Let) -> str:
    """The array that a statement makes a view of; "" where it makes none."""
    if not isinstance(let.expr, fun.LAYOUT_CHANGES) or isinstance(let.expr.array, fun.Const):
        return ""
    return let.expr.array.name


def _aliases(before: list[fun.Let], names: tuple[str, ...]) -> set[str]:
    """The arrays, those that they are views of, and the other views of these."""
    found = set(names)
    for let in reversed(before):
        if let.pattern[0].name in found and _viewed(let):
            found.add(_viewed(let))
    for let in before:
        if _viewed(let) in found:
            found.add(let.pattern[0].name)
    return found


def _delay(nodes: dict[int, Node], update: int, names: set[str]) -> None:
    """The update needs what reads the arrays and does not itself need the update."""
    for number in range(update + 1, len(nodes)):
        let = nodes[number].let
        if walk.used_names(let.expr) & names and not depends(nodes, number, update):
            nodes[update].needs.add(number)
            if _viewed(let):
                names.add(let.pattern[0].name)
