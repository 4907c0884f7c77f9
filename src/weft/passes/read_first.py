"""read_first: what reads an array stands before the array's update.

    let y = update x[i] = v          let r = x[j]
    let r = x[j]                =>   let y = update x[i] = v

    let s = slice x[j]               let t = slice x[j]
    let y = update x[i] = v     =>   let s = copy t
    let z = update y[j] = s          let y = update x[i] = v
                                     let z = update y[j] = s

Removes: reads of an array, or of a view of it, after an update that they do not depend on.
Adds: copies of slices that are used at an update of their array, or after it.
Requires: a checked program.
Ensures: the same values, since statements only change places. An update that is then the last
    use of its array can be done in place; the array no longer has to be copied.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.passes.order import Node, depends, in_order, nodes_of
from weft.records import dataclass


def read_first(program: fun.Program) -> fun.Program:
    """The program with reads before updates, in all of its bodies."""
    bounded = {*program.sizes, *(derived.name for derived in program.derived)}
    for let in walk.statements(program.body):
        bounded |= _indices(let.expr)
    body = _body(program.body, _Program(Names.of(program), frozenset(bounded)))
    return program if body is program.body else replace(program, body=body)


def replace_last(program: fun.Program, replaced: Mapping[str, int]) -> fun.Program:
    """The program with reads of parameters before the results that come to lie in their memory.

    let y = kernel f(x)  =>  let r = reduce x
    let r = reduce x         let y = kernel f(x)   # in x's memory
    """
    statements = list(program.body.statements)
    made = {var.name: number for number, let in enumerate(statements) for var in let.pattern}
    nodes = nodes_of(statements)
    for name, number in replaced.items():
        result = program.body.results[number]
        root = _root(result.name, statements, made) if isinstance(result, fun.Var) else name
        if root in made:
            _delay(nodes, made[root], _aliases(statements[: made[root]], (name,)))
    ordered = in_order(nodes)
    if ordered == statements:
        return program
    return replace(program, body=walk.with_statements(program.body, ordered))


@dataclass(frozen=True, slots=True)
class _Program:
    """What all bodies of a program share: fresh names, and what bounds the extents of copies."""

    names: Names
    bounded: frozenset[str]


def _indices(expr: fun.Expr) -> set[str]:
    """The index variables of loops and kernels, whose ranges are known."""
    match expr:
        case fun.Kernel(space) | fun.Reduce(space) | fun.Scan(space) | fun.Scatter(space=space):
            return {dimension.index.name for dimension in space}
        case fun.Loop(form=fun.For(index)):
            return {index.name}
        case _:
            return set()


def _body(body: fun.Body, whole: _Program, given: Collection[str] = ()) -> fun.Body:
    """A body; it may overwrite what it is `given`."""
    statements = [_inside(let, whole) for let in body.statements]
    if any(_updated(let.expr) for let in statements):
        nodes = nodes_of(statements)
        for number, node in nodes.items():
            if written := _updated(node.let.expr):
                _delay(nodes, number, _aliases(statements[:number], written))
        statements = in_order(nodes)
        while copied := _copied(statements, body.results, whole, given):
            statements = copied
    return walk.with_statements(body, statements)


def _inside(let: fun.Let, whole: _Program) -> fun.Let:
    given = [param.name for param in let.expr.params] if isinstance(let.expr, fun.Loop) else ()
    return walk.map_let(let, lambda body: _body(body, whole, given))


def _copied(
    statements: list[fun.Let], results: Sequence[fun.Atom], whole: _Program,
    given: Collection[str],
) -> list[fun.Let] | None:  # fmt: skip
    """The statements with a slice copied that would keep an update from being in place."""
    made = {var.name: n for n, let in enumerate(statements) for var in let.pattern}
    for position, let in enumerate(statements):
        for array in _updated(let.expr):
            own = _root(array, statements, made)
            if own not in made and own not in given:
                continue  # it is copied, whatever reads it
            used = _used_from(statements, position, array, results)
            shown = [name for name in used if _root(name, statements, made) == own]
            slices = [_slice_of(name, statements, made) for name in sorted(shown)]
            if not slices or None in slices:
                continue
            (number, *_) = [n for n in slices if n is not None]
            sliced = statements[number]
            (var,) = sliced.pattern
            if any(size.variables() - whole.bounded for size in walk.type_sizes(var.type)):
                continue
            view = replace(var, name=whole.names.fresh(var.name))
            both = [replace(sliced, pattern=(view,)), replace(sliced, expr=fun.Copy(view))]
            return [*statements[:number], *both, *statements[number + 1 :]]
    return None


def _used_from(
    statements: list[fun.Let], position: int, array: str, results: Sequence[fun.Atom]
) -> set[str]:
    """Names that an update of an array uses besides it, and those that are used after it."""
    update = statements[position].expr
    used = set(walk.used_names(update)) - {array}
    if isinstance(update, fun.Update | fun.LmadUpdate) and isinstance(update.value, fun.Var):
        used.add(update.value.name)
    for let in statements[position + 1 :]:
        used |= walk.used_names(let.expr)
    return used | {atom.name for atom in results if isinstance(atom, fun.Var)}


def _root(name: str, statements: list[fun.Let], made: Mapping[str, int]) -> str:
    """The array that a view is one of."""
    while name in made and (viewed := _viewed(statements[made[name]])):
        name = viewed
    return name


def _slice_of(name: str, statements: list[fun.Let], made: Mapping[str, int]) -> int | None:
    """The slice through which an array is seen; None where all of it is."""
    while name in made:
        let = statements[made[name]]
        if isinstance(let.expr, fun.Slice):
            return made[name]
        name = _viewed(let)
    return None


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
