"""fuse_horizontal: statements over one index space, made one statement with several results.

    let s = reduce[add] (i < n) { let a = x[i]; in a }
    let m = reduce[maximum] (i < n) { let b = x[i]; in b }
 => let s, m = reduce[(add, maximum)] (i < n) { let a = x[i]; let b = x[i]; in a, b }

Kernels are joined with kernels, reductions with reductions that reduce as many dimensions,
scans with scans, of the same extents, where they read an array in common. A kernel is joined
also with one that it reads at its own index only, whose scalar it then takes:

    let t = kernel(i < n) { let a = exp(x[i]); in a }       (t is a result too)
    let u = kernel(j < n) { let b = t[j]; let c = b + 1; in c }
 => let t, u = kernel(i < n) { let a = exp(x[i]); let c = a + 1; in a, c }

Removes: kernels, reductions and scans, joined to others.
Adds: results to those.
Requires: nothing (after `fuse_vertical` more is alike).
Ensures: the same operations. A joined statement stands where the last of them stood;
    statements between that need it stand after it. Loops are not joined to plain bodies,
    which vectorise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from weft.fun import nodes as fun
from weft.fun import walk
from weft.passes.order import Node, depends, in_order, nodes_of
from weft.passes.reads import Reads, covers, is_own_index
from weft.records import dataclass
from weft.sizes import Poly

Joinable: TypeAlias = fun.Kernel | fun.Reduce | fun.Scan


def fuse_horizontal(program: fun.Program) -> fun.Program:
    """The program with statements over one space joined, in all its bodies."""
    body = _level(program.body)
    return program if body is program.body else replace(program, body=body)


def _level(body: fun.Body) -> fun.Body:
    statements = _join_statements(list(body.statements))
    inner = [
        replace(let, expr=walk.map_bodies(let.expr, _level)) if walk.bodies(let.expr) else let
        for let in statements
    ]
    if len(inner) == len(body.statements) and all(
        a is b or a == b for a, b in zip(inner, body.statements, strict=True)
    ):
        return body
    return fun.Body(tuple(inner), body.results)


@dataclass(slots=True)
class _Alike:
    """What decides whether a statement can be joined with another."""

    key: object  # equal for alike statements; None where there is nothing to join
    shared: frozenset[str]  # arrays read at every index


def _join_statements(statements: list[fun.Let]) -> list[fun.Let]:
    keys = [_key(let.expr) for let in statements]
    known = [key for key in keys if key is not None]
    if len(known) == len(set(known)):
        return statements
    nodes = nodes_of(statements)
    alike = {
        number: _Alike(key, _shared(let.expr))
        for number, (let, key) in enumerate(zip(statements, keys, strict=True))
        if key is not None
    }
    for number in list(alike):
        first = _partner(nodes, alike, number)
        if first is not None:
            _join(nodes, alike, first, number)
    return in_order(nodes) if len(nodes) < len(statements) else statements


def _key(expr: fun.Expr) -> object:
    match expr:
        case fun.Kernel(space, body):
            return "kernel", tuple(r.extent for r in space), _has_loop(body)
        case fun.Reduce(space, reduced, body, _, _, counter):
            extents = tuple(r.extent for r in space)
            return "reduce", extents, reduced, counter, _has_loop(body)
        case fun.Scan(space, body, _, _, exclusive):
            return "scan", tuple(r.extent for r in space), exclusive, _has_loop(body)
        case _:
            return None


def _has_loop(body: fun.Body) -> bool:
    return any(
        isinstance(let.expr, fun.Loop | fun.Kernel | fun.Reduce | fun.Scan | fun.Scatter)
        for let in walk.statements(body)
    )


def _shared(expr: fun.Expr) -> frozenset[str]:
    if not isinstance(expr, fun.Kernel | fun.Reduce | fun.Scan):
        return frozenset()
    return frozenset(
        site.array.name for site in Reads.of(expr).sites if covers(site.indices, expr.space)
    )


def _partner(nodes: dict[int, Node], alike: dict[int, _Alike], number: int) -> int | None:
    """An earlier node to join with: alike, reading an array in common, independent."""
    node, mine = nodes[number], alike[number]
    for first, other in alike.items():
        if first == number:
            break
        if other.key != mine.key:
            continue
        if first in node.needs and not _feeds(nodes[first].let, node.let):
            continue
        results = {var.name for var in nodes[first].let.pattern}
        if not mine.shared & (other.shared | results):
            continue
        if not any(depends(nodes, need, first) for need in node.needs if need != first):
            return first
    return None


def _feeds(first: fun.Let, second: fun.Let) -> bool:
    """Whether all that the second kernel uses of the first are elements at its own index."""
    if not (isinstance(first.expr, fun.Kernel) and isinstance(second.expr, fun.Kernel)):
        return False
    if any(not isinstance(r.type, fun.Scalar) for r in first.expr.body.results):
        return False
    names = {var.name for var in first.pattern}
    reads = Reads.of(second.expr)
    space = second.expr.space
    return not (reads.whole & names) and all(
        is_own_index(site.indices, space) and not any(site.boundary)
        for site in reads.sites
        if site.array.name in names
    )


def _join(nodes: dict[int, Node], alike: dict[int, _Alike], first: int, second: int) -> None:
    """Replace two nodes by one, which takes the number of the first."""
    a, b = nodes[first], nodes.pop(second)
    pattern = a.let.pattern + b.let.pattern
    let = fun.Let(pattern, _joined(a.let, b.let), a.let.place or b.let.place)
    nodes[first] = Node(let, (a.needs | b.needs) - {first, second})
    shared = alike[first].shared | alike.pop(second).shared
    alike[first].shared = shared - {var.name for var in a.let.pattern}
    for node in nodes.values():
        if second in node.needs:
            node.needs.remove(second)
            node.needs.add(first)


def _joined(first: fun.Let, second: fun.Let) -> Joinable:
    a, b = first.expr, second.expr
    assert isinstance(a, fun.Kernel | fun.Reduce | fun.Scan)
    assert isinstance(b, fun.Kernel | fun.Reduce | fun.Scan)
    # The second body in terms of the first one's indices and scalars.
    renamed = _Renamed(
        {o.index.name: n.index for o, n in zip(b.space, a.space, strict=True)},
        dict(zip((v.name for v in first.pattern), a.body.results, strict=True)),
    )
    other = renamed.body(b.body)
    body = fun.Body(a.body.statements + other.statements, a.body.results + other.results)
    match a, b:
        case fun.Kernel(), fun.Kernel():
            return fun.Kernel(a.space, body)
        case fun.Reduce(), fun.Reduce():
            operator = _both(a.operator, b.operator)
            neutral = a.neutral + b.neutral
            return replace(a, body=body, operator=operator, neutral=neutral)
        case fun.Scan(), fun.Scan():
            operator = _both(a.operator, b.operator)
            return replace(a, body=body, operator=operator, initial=a.initial + b.initial)
        case _:
            raise AssertionError("only statements of one kind are joined")


def _both(a: fun.Lambda, b: fun.Lambda) -> fun.Lambda:
    """The operator on pairs: left operands of both, then right operands of both."""
    m, n = len(a.body.results), len(b.body.results)
    params = a.params[:m] + b.params[:n] + a.params[m:] + b.params[n:]
    body = fun.Body(a.body.statements + b.body.statements, a.body.results + b.body.results)
    return fun.Lambda(params, body)


class _Renamed(walk.Substitution):
    """Indices renamed; reads of the kernel joined with replaced by its scalars."""

    def __init__(self, indices: dict[str, fun.Var], scalars: dict[str, fun.Atom]) -> None:
        super().__init__(dict(indices), {n: Poly.var(v.name) for n, v in indices.items()})
        self.scalars = scalars

    def body(self, body: fun.Body) -> fun.Body:
        statements = []
        for let in body.statements:
            if isinstance(let.expr, fun.Index) and let.expr.array.name in self.scalars:
                self.bind(let.pattern[0].name, self.scalars[let.expr.array.name])
            else:
                statements.append(self.let(let))
        return fun.Body(tuple(statements), tuple(map(self.atom, body.results)))
