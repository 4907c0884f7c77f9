"""What a scan carries from one box to the next: bits must not depend on boxes.

Compiled scans work in tiles of 65536 elements, cut into streams; the carry into a tile is a
left fold over the totals of all streams before it (`weft.lower.scans`). Where combining is
exact, that is the last element of an inclusive scan. Where it rounds, the totals of the
box's streams are computed once more and folded:

    let p = kernel (t < tiles, s < 8) { reduce (i < size of stream s) { body(t, s, i) } }
    let carry out = loop (c = carry in) for t, s { c . p[t, s] }

Only full tiles count: no box follows the one that ends in a ragged tile.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, Names
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
_NESTED = (fun.Kernel, fun.Scan, fun.Scatter, fun.Loop)


def streams() -> tuple[int, int]:
    """How many streams a full tile has, and the length of all but the last."""
    tile = draft.SCAN_TILE
    if tile < 4096:
        return 1, tile
    return 8, (((tile + 7) // 8 + 15) & -32) | 16


def rounds(scan: fun.Scan, pattern: tuple[fun.Var, ...]) -> bool:
    """Whether the order in which elements are combined may show in the results."""
    if not any(var.type.dtype.kind in "fc" for var in pattern):
        return False
    for let in walk.statements(scan.body):
        if isinstance(let.expr, _NESTED):
            return False  # such bodies are scanned one element after another
        if isinstance(let.expr, fun.Reduce):
            return all(r.extent.is_constant for r in let.expr.space)
    return any(
        not isinstance(let.expr, fun.Apply) or let.expr.operation not in _EXACT
        for let in scan.operator.body.statements
    )


def fold_totals(
    scan: fun.Scan, carries: tuple[fun.Var, ...], tiles: Size, names: Names
) -> tuple[list[fun.Let], tuple[fun.Var, ...]]:
    """Statements that fold the totals of streams into the carry, and the carry out.

    Parameters
    ----------
    scan : fun.Scan
        Over one dimension, in window coordinates.
    carries : tuple of Var
        The carry in.
    tiles : Size
        How many full tiles the box has.
    """
    build = Builder(names)
    totals = _totals(scan, carries, tiles, build)
    types = tuple(carry.type for carry in carries)

    def fresh(base: str) -> Callable[[fun.Type], fun.Var]:
        return lambda type_: fun.Var(names.fresh(base), type_)

    tile, stream = build.index("tile"), build.index("stream")
    outer = tuple(map(fresh("carry"), types))
    inner = tuple(map(fresh("carry"), types))
    step = build.inner()
    at = Poly.var(tile.name), Poly.var(stream.name)
    read = tuple(step.let(fun.Index(p, at), fun.Scalar(p.type.dtype)) for p in totals)
    operands = dict(zip((p.name for p in scan.operator.params), inner + read, strict=True))
    joined = walk.Substitution(operands, fresh=names.fresh).body(scan.operator.body)
    body = fun.Body((*step.statements, *joined.statements), joined.results)
    each = fun.For(stream, as_poly(0), as_poly(streams()[0]))
    round_ = build.inner()
    after = round_.bind(fun.Loop(inner, outer, each, body), types, "carry")
    loop = fun.Loop(outer, carries, fun.For(tile, as_poly(0), tiles), round_.body(after))
    out = build.bind(loop, types, "carry")
    return build.statements, out


def _totals(
    scan: fun.Scan, carries: tuple[fun.Var, ...], tiles: Size, build: Builder
) -> tuple[fun.Var, ...]:
    """The total of each stream of each tile."""
    names = build.names
    tile, stream, index = build.index("tile"), build.index("stream"), build.index()
    count, length = streams()
    first = Poly.var(stream.name) * length
    body = build.inner()
    rest = body.scalar(draft.SCAN_TILE - first)
    extent = body.let(fun.Apply("minimum", (body.scalar(as_poly(length)), rest)), _I64)
    element = Poly.var(tile.name) * draft.SCAN_TILE + first + Poly.var(index.name)
    old = scan.space[0].index.name
    shifted = build.index("at")
    copy = walk.Substitution({old: shifted}, {old: element}, names.fresh).body(scan.body)
    if shifted.name in walk.free_names(copy):
        bound = fun.Let((shifted,), fun.SizeValue(element))
        copy = fun.Body((bound, *copy.statements), copy.results)
    operator = walk.Substitution(fresh=names.fresh).function(scan.operator)
    reduce = fun.Reduce(
        (fun.Range(index, Poly.var(extent.name)),), 1, copy, operator,
        tuple(_neutral(scan.operator, k, c.type.dtype) for k, c in enumerate(carries)),
    )  # fmt: skip
    results = body.bind(reduce, tuple(carry.type for carry in carries), "total")
    space = (fun.Range(tile, tiles), fun.Range(stream, as_poly(count)))
    shape = (tiles, as_poly(count))
    types = tuple(fun.Array(carry.type.dtype, shape) for carry in carries)
    return build.bind(fun.Kernel(space, body.body(results)), types, "totals")


def _neutral(operator: fun.Lambda, component: int, dtype: DType) -> fun.Const:
    """What changes nothing, for operators whose lanes begin with it."""
    statements = operator.body.statements
    one = component < len(statements) and isinstance(
        expr := statements[component].expr, fun.Apply
    ) and expr.operation == "multiply"  # fmt: skip
    value = dtype.numpy.type(1 if one else 0).item()
    return fun.Const(value, dtype)


def last(
    scan: fun.Scan, pattern: tuple[fun.Var, ...], carries: tuple[fun.Var, ...],
    extent: Size, names: Names, place: Place | None,
) -> tuple[list[fun.Let], tuple[fun.Var, ...]]:  # fmt: skip
    """let carry out = if extent > 0 { what follows the last element } else { carry in }."""
    statements: list[fun.Let] = []
    types = tuple(carry.type for carry in carries)

    def fresh(type_: fun.Type) -> fun.Var:
        return fun.Var(names.fresh("last"), type_)

    last = tuple(map(fresh, types))
    lets = [
        fun.Let((to,), fun.Index(array, (extent - ONE,)))
        for to, array in zip(last, pattern, strict=True)
    ]
    results: tuple[fun.Atom, ...] = last
    if scan.exclusive:
        at = fun.Var(names.fresh("last"), _I64)
        index = scan.space[0].index.name
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
