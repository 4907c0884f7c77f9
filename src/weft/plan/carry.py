"""What a scan carries from one box to the next: bits must not depend on boxes.

Compiled scans work in tiles of 65536 elements, cut into streams; the carry into a tile is a
left fold over the totals of all streams before it (`weft.lower.scans`). Where combining is
exact, that is the last element of an inclusive scan. Where it rounds, the totals of the
box's streams are computed once more and folded:

    let p = kernel (t < tiles, s < 8) { reduce (i < size of stream s) { body(t, s, i) } }
    let carry out = loop (c = carry in) for t, s { c . p[t, s] }

Only full tiles count: no box follows the one that ends in a ragged tile. Of scans side by side,
boxes along what is scanned carry an array with what each hands on; those of columns are left
folds, which may be cut anywhere.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal, TypeAlias

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, Names
from weft.fun.columns import scans_columns
from weft.ops.dtypes import DType
from weft.plan import draft
from weft.sizes import ONE, Poly, Size, as_poly

_I64 = fun.Scalar(DType.I64)
_BOOL = fun.Scalar(DType.BOOL)
_EXACT = frozenset((
    "maximum", "minimum", "fmax", "fmin", "where", "less", "less_equal", "greater",
    "greater_equal", "equal", "not_equal", "logical_and", "logical_or", "logical_xor",
    "logical_not",
))  # fmt: skip
_IDEMPOTENT = frozenset((
    "maximum", "minimum", "fmax", "fmin", "logical_and", "logical_or", "bitwise_and", "bitwise_or",
))  # fmt: skip
_ZERO_IS_NEUTRAL = frozenset(("add", "logical_xor", "bitwise_xor"))
_OF_COMPONENTS = _IDEMPOTENT | _ZERO_IS_NEUTRAL | {"multiply"}
_NESTED = (fun.Kernel, fun.Scan, fun.Scatter, fun.Loop)


def streams() -> tuple[int, int]:
    """How many streams a full tile has, and the length of all but the last."""
    tile = draft.SCAN_TILE
    if tile < 4096:
        return 1, tile
    return 8, (((tile + 7) // 8 + 15) & -32) | 16


Order: TypeAlias = Literal["free", "streams", "elements"]


def order(scan: fun.Scan) -> Order:
    """What shows in the results of the order in which elements are combined.

    "free": nothing; "streams": the totals of which streams are; "elements": that each is, in turn.
    """
    if _is_free(scan):
        return "free"
    if scans_columns(scan):
        return "elements"
    for let in walk.statements(scan.body):
        if isinstance(let.expr, _NESTED):
            return "elements"
        if isinstance(let.expr, fun.Reduce):
            return "streams" if all(r.extent.is_constant for r in let.expr.space) else "elements"
    return "streams"


def _is_free(scan: fun.Scan) -> bool:
    """Whether combining is exact."""
    return not any(atom.type.dtype.kind in "fc" for atom in scan.initial) or all(
        isinstance(let.expr, fun.Apply) and let.expr.operation in _EXACT
        for let in scan.operator.body.statements
    )


def _is_of_components(operator: fun.Lambda) -> bool:
    """Whether it combines each component by an operation of which it is known what is neutral."""
    count, body = len(operator.params) // 2, operator.body
    pairs = zip(operator.params[:count], operator.params[count:], strict=True)
    return len(body.statements) == count and all(
        isinstance(let.expr, fun.Apply)
        and let.expr.operation in _OF_COMPONENTS
        and let.expr.arguments == pair
        and result == let.pattern[0]
        for let, result, pair in zip(body.statements, body.results, pairs, strict=True)
    )


def carry_out(
    scan: fun.Scan, pattern: tuple[fun.Var, ...], carries: tuple[fun.Var, ...], tiles: Size,
    names: Names, place: Place | None,
) -> tuple[list[fun.Let], tuple[fun.Var, ...]]:  # fmt: skip
    """Statements that compute what a box of a scan hands on, and that: scalars, or arrays of them.

    Parameters
    ----------
    scan : fun.Scan
        In window coordinates, from `carries` on.
    pattern : tuple of Var
        Its results.
    tiles : Size
        How many full tiles the box has.
    """

    def of_one(carries: tuple[fun.Var, ...]) -> tuple[list[fun.Let], tuple[fun.Var, ...]]:
        one = replace(scan, initial=carries)
        if order(scan) == "streams":
            return fold_totals(one, carries, tiles, names)
        return last(one, pattern, carries, scan.space[-1].extent, names, place)

    outer = scan.space[:-1]
    if not outer:
        return of_one(carries)
    build = Builder(names)
    build.place = place
    inside = build.inner()
    at = tuple(Poly.var(r.index.name) for r in outer)
    before = tuple(inside.let(fun.Index(c, at), fun.Scalar(c.type.dtype)) for c in carries)
    statements, results = of_one(before)
    inside.statements += statements
    kernel = fun.Kernel(outer, inside.body(results))
    copy = walk.Substitution(fresh=names.fresh).expr(kernel)
    out = build.bind(copy, tuple(carry.type for carry in carries), "carry")
    return build.statements, out


def fold_totals(
    scan: fun.Scan, carries: tuple[fun.Var, ...], tiles: Size, names: Names
) -> tuple[list[fun.Let], tuple[fun.Var, ...]]:
    """Statements that fold the totals of streams into the carry, and the carry out.

    Parameters
    ----------
    scan : fun.Scan
        In window coordinates; outer indices are free in what it gives.
    carries : tuple of Var
        The carry in.
    tiles : Size
        How many full tiles the box has.
    """
    build = Builder(names)
    totals = totals_of(scan, tiles, build)
    types = tuple(carry.type for carry in carries)
    tile = build.index("tile")
    outer = tuple(build.var("carry", type_) for type_ in types)
    round_ = build.inner()
    after = fold_tile(scan, outer, totals, Poly.var(tile.name), round_)
    loop = fun.Loop(outer, carries, fun.For(tile, as_poly(0), tiles), round_.body(after))
    out = build.bind(loop, types, "carry")
    return build.statements, out


def fold_tile(
    scan: fun.Scan, carries: tuple[fun.Var, ...], totals: tuple[fun.Var, ...], tile: Size,
    build: Builder,
) -> tuple[fun.Var, ...]:  # fmt: skip
    """The carry out of a tile, one stream after another: what is emitted computes it."""
    types = tuple(carry.type for carry in carries)
    stream = build.index("stream")
    inner = tuple(build.var("carry", type_) for type_ in types)
    step = build.inner()
    at = tile, Poly.var(stream.name)
    read = tuple(step.let(fun.Index(p, at), fun.Scalar(p.type.dtype)) for p in totals)
    results = _combined(scan, inner, read, step)
    each = fun.For(stream, as_poly(0), walk.type_sizes(totals[0].type)[1])
    return build.bind(fun.Loop(inner, carries, each, step.body(results)), types, "carry")


def totals_of(scan: fun.Scan, tiles: Size, build: Builder) -> tuple[fun.Var, ...]:
    """The total of each stream of each of so many full tiles."""
    tile, stream = build.index("tile"), build.index("stream")
    count, length = streams()
    first = Poly.var(stream.name) * length
    body = build.inner()
    rest = body.scalar(draft.SCAN_TILE - first)
    extent = body.let(fun.Apply("minimum", (body.scalar(as_poly(length)), rest)), _I64)
    begin = Poly.var(tile.name) * draft.SCAN_TILE + first
    scalars = tuple(fun.Scalar(atom.type.dtype) for atom in scan.initial)
    if _is_free(scan) and not _is_of_components(scan.operator):
        results = _total_in_turn(scan, begin, Poly.var(extent.name), scalars, body)
    else:
        index = build.index()
        element = _element(scan, begin + Poly.var(index.name), build.names)
        neutral = tuple(map(partial(_neutral, scan), range(len(scalars))))
        operator = walk.Substitution(fresh=build.names.fresh).function(scan.operator)
        reduced = (fun.Range(index, Poly.var(extent.name)),)
        reduce = fun.Reduce(reduced, 1, element, operator, neutral)
        results = body.bind(reduce, scalars, "total")
    space = (fun.Range(tile, tiles), fun.Range(stream, as_poly(count)))
    shape = (tiles, as_poly(count))
    types = tuple(fun.Array(scalar.dtype, shape) for scalar in scalars)
    return build.bind(fun.Kernel(space, body.body(results)), types, "totals")


def _total_in_turn(
    scan: fun.Scan, begin: Size, extent: Size, scalars: tuple[fun.Scalar, ...], build: Builder
) -> tuple[fun.Var, ...]:
    """The total of some elements from the first one on: nothing is known that changes nothing."""
    first = _element(scan, begin, build.names)
    build.statements += first.statements
    index = build.index()
    totals = tuple(build.var("total", scalar) for scalar in scalars)
    step = build.inner()
    element = _element(scan, begin + Poly.var(index.name), build.names)
    step.statements += element.statements
    results = _combined(scan, totals, element.results, step)
    others = fun.For(index, ONE, extent)
    return build.bind(fun.Loop(totals, first.results, others, step.body(results)), scalars, "total")


def _element(scan: fun.Scan, at: Size, names: Names) -> fun.Body:
    """What the scan combines at an index."""
    old = scan.space[-1].index.name
    index = fun.Var(names.fresh("at"), _I64)
    copy = walk.Substitution({old: index}, {old: at}, names.fresh).body(scan.body)
    if index.name in walk.free_names(copy):
        bound = fun.Let((index,), fun.SizeValue(at))
        copy = fun.Body((bound, *copy.statements), copy.results)
    return copy


def _combined(
    scan: fun.Scan, left: tuple[fun.Atom, ...], right: tuple[fun.Atom, ...], build: Builder
) -> tuple[fun.Atom, ...]:
    """The results of the operator: what is emitted computes them."""
    operands = dict(zip((p.name for p in scan.operator.params), left + right, strict=True))
    joined = walk.Substitution(operands, fresh=build.names.fresh).body(scan.operator.body)
    build.statements += joined.statements
    return joined.results


def _neutral(scan: fun.Scan, component: int) -> fun.Atom:
    """What changes nothing, for operators whose lanes begin with it: those of each component alone.

    Where combining something twice is combining it once, that is what the scan begins with.
    """
    initial, statements = scan.initial[component], scan.operator.body.statements
    expr = statements[component].expr if component < len(statements) else None
    operation = expr.operation if isinstance(expr, fun.Apply) else ""
    if operation in _IDEMPOTENT:
        return initial
    dtype = initial.type.dtype
    return fun.Const(dtype.numpy.type(operation == "multiply").item(), dtype)


def last(
    scan: fun.Scan, pattern: tuple[fun.Var, ...], carries: tuple[fun.Var, ...],
    extent: Size, names: Names, place: Place | None,
) -> tuple[list[fun.Let], tuple[fun.Var, ...]]:  # fmt: skip
    """let carry out = if extent > 0 { what follows the last element } else { carry in }.

    Outer indices are free in it.
    """
    outer = tuple(Poly.var(r.index.name) for r in scan.space[:-1])
    statements: list[fun.Let] = []
    types = tuple(carry.type for carry in carries)

    def fresh(type_: fun.Type) -> fun.Var:
        return fun.Var(names.fresh("last"), type_)

    last = tuple(map(fresh, types))
    lets = [
        fun.Let((to,), fun.Index(array, (*outer, extent - ONE)))
        for to, array in zip(last, pattern, strict=True)
    ]
    results: tuple[fun.Atom, ...] = last
    if scan.exclusive:
        at = fun.Var(names.fresh("last"), _I64)
        index = scan.space[-1].index.name
        copy = walk.Substitution({index: at}, {index: extent - ONE}, names.fresh)
        inside = copy.body(scan.body)
        params = [p.name for p in scan.operator.params]
        operands = dict(zip(params, last + inside.results, strict=True))
        joined = walk.Substitution(operands, fresh=names.fresh).body(scan.operator.body)
        lets = [fun.Let((at,), fun.SizeValue(extent - ONE)), *lets]
        lets += [*inside.statements, *joined.statements]
        results = joined.results
    size = fun.Var(names.fresh("size"), _I64)
    some = fun.Var(names.fresh("some"), _BOOL)
    statements.append(fun.Let((size,), fun.SizeValue(extent)))
    zero = fun.Const(0, DType.I64)
    statements.append(fun.Let((some,), fun.Apply("greater", (size, zero))))
    out = tuple(map(fresh, types))
    choice = fun.If(some, fun.Body(tuple(lets), results), fun.Body((), carries))
    statements.append(fun.Let(out, choice, place))
    return statements, out
