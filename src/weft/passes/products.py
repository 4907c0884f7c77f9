"""products: nests that multiply matrices, as the library's products.

    let c = kernel (i < n, j < m) {
      let r = reduce (; k < l) { let p = multiply(a[i, k], b[k, j]) in p } with add
      in r }
 => let c = matmul(a, b)

    let c = kernel (i < n, j < n) {
      let w = if j <= i { let r = reduce (; k < l) { w * (a[i, k] * b[j, k] + b[i, k] * a[j, k]) }
                          in r + d[i, j] } else { d[i, j] }
      in w }
 => let s = matmul(a, permute b (1, 0))
    let c = kernel (i < n, j < n) {
      let w = if j <= i { let r = w * s[i, j] + w * s[j, i] in r + d[i, j] } else .. in w }

Removes: sums of products of matrices of floats from such kernels among the statements of the
    program itself, which no loop holds, and loops that fill a triangle with such sums, row by row
    (`weft.passes.triangles`). The operands may be transposed, and slices.
Adds: library calls, the views that they take, and where there is more to a kernel than its product
    a read of that. What is a product's transpose is read from it. A product of a matrix with its
    own transpose is one triangle's work for the library (NumPy calls syrk for it).
Requires: a checked program. A sum that is wanted in a triangle is computed for the whole square,
    so that it must be one, and have its diagonal: all rows of the operands are then read.
Ensures: the same values within rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import reduce as fold

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, Names
from weft.fun.contractions import Contraction, contraction, instead
from weft.ops.dtypes import DType
from weft.passes.flatten import joined
from weft.passes.knowledge import Knowledge
from weft.passes.terms import Term, terms
from weft.passes.triangles import triangle
from weft.passes.versions import bound_in
from weft.records import dataclass
from weft.sizes import ZERO, Fact, Poly, Size

_FLOATS = (DType.F32, DType.F64, DType.C64, DType.C128)


def products(
    program: fun.Program, values: Mapping[str, int] | None = None
) -> tuple[fun.Program, tuple[Fact, ...]]:
    """The program with its products of matrices as library calls, and what it assumes of sizes.

    Parameters
    ----------
    program : fun.Program
    values : mapping of str to int, optional
        The sizes of the call that the program is made for, from which facts may be assumed.
    """
    known = Knowledge.of(program, values)
    names = Names.of(program)
    statements: list[fun.Let] = []
    for let in program.body.statements:
        found = _triangle(let, names, known) or _products(let, names, known)
        statements += [let] if found is None else found
    assumed = tuple(known.assumed)
    facts = tuple(dict.fromkeys((*program.facts, *assumed)))
    body = fun.Body(tuple(statements), program.body.results)
    return replace(program, body=body, facts=facts), assumed


@dataclass(frozen=True, slots=True)
class _Operand:
    """A matrix with `rows` and `columns`, which may be read transposed, `place` being where."""

    array: fun.Var
    transposed: bool
    rows: Size
    columns: Size
    place: Place | None = field(default=None, compare=False)

    def view(self, builder: Builder) -> fun.Var:
        array, product = self.array, builder.place
        builder.place = self.place or product
        shape = (self.columns, self.rows) if self.transposed else (self.rows, self.columns)
        assert isinstance(array.type, fun.Array)
        if shape != array.type.shape:
            spans = tuple(fun.Span(ZERO, extent) for extent in shape)
            type_ = fun.Array(array.type.dtype, shape)
            array = builder.let(fun.Slice(array, spans), type_, "part")
        if self.transposed:
            turned = fun.Array(self.array.type.dtype, shape[::-1])
            array = builder.let(fun.Permute(array, (1, 0)), turned, "turned")
        builder.place = product
        return array


def _triangle(let: fun.Let, names: Names, known: Knowledge) -> list[fun.Let] | None:
    """A loop that fills a triangle by a product; None where it does not."""
    found = triangle(let, names, known)
    square = None if found is None else _products(found.square, names, known)
    if found is None or square is None:
        return None
    return [*square, found.filled(let.pattern[0], names, let.place)]


def _by_elements(let: fun.Let, names: Names) -> fun.Kernel | None:
    """A reduction of each element of an array, as a kernel of reductions to scalars."""
    expr = let.expr
    assert isinstance(expr, fun.Reduce)
    kept = walk.kept(expr)
    if not kept:
        return None
    totals = tuple(fun.Var(names.fresh("r"), atom.type) for atom in expr.body.results)
    own = replace(expr, space=expr.space[len(kept) :])
    return fun.Kernel(kept, fun.Body((fun.Let(totals, own, let.place),), totals))


def _products(let: fun.Let, names: Names, known: Knowledge) -> list[fun.Let] | None:
    """A statement's kernel by products; None where it has none."""
    expr = _by_elements(let, names) if isinstance(let.expr, fun.Reduce) else let.expr
    if not isinstance(expr, fun.Kernel):
        return None
    kernel = joined(expr)
    found = contraction(kernel) if len(kernel.space) == 2 else None
    if found is None or not _is_sum(found) or not _is_whole(found, known):
        return None
    if not all(known.is_size(r.extent) for r in (*kernel.space, *found.reduce.space)):
        return None  # the library takes arrays whose lengths are known before the program runs
    reads = {
        inner.pattern[0].name
        for inner in found.reduce.body.statements
        if isinstance(inner.expr, fun.Index)
    }
    made = terms(found, reads)
    operands = None if made is None else [_operands(term, found) for term in made]
    if made is None or operands is None:
        return None
    pairs = [pair for pair in operands if pair is not None]
    if len(pairs) != len(made):
        return None
    builder = Builder(names)
    builder.place = let.place
    inner = Builder(names)
    inner.place = found.let.place
    calls: dict[tuple[_Operand, _Operand], fun.Var] = {}
    values = [
        _value(builder, inner, term, pair, calls, found)
        for term, pair in zip(made, pairs, strict=True)
    ]
    total = fold(lambda a, b: inner.let(fun.Apply("add", (a, b)), a.type), values)
    if made == [_plain(made)] and _is_result(kernel.body, found):
        (product,) = calls.values()
        last = builder.statements.pop()
        assert last.pattern == (product,)
        return [*builder.statements, replace(last, pattern=let.pattern)]
    inner.statements.append(fun.Let(found.let.pattern, fun.Cast(total.type.dtype, total)))
    body = instead(kernel.body, found.let, tuple(inner.statements))
    return [*builder.statements, replace(let, expr=replace(kernel, body=body))]


def _plain(made: list[Term]) -> Term:
    """The first term without scalars."""
    return replace(made[0], scalars=(), negative=False)


def _is_result(body: fun.Body, found: Contraction) -> bool:
    """Whether a kernel's one result is its sum, or 0 added to it."""
    (sum_,) = found.let.pattern
    first, *rest = body.statements
    if first is not found.let or len(rest) > 1:
        return False
    if not rest:
        return body.results == (sum_,)
    (last,) = rest
    if body.results != last.pattern or not isinstance(last.expr, fun.Apply):
        return False
    if last.expr.operation != "add":
        return False
    others = [atom for atom in last.expr.arguments if atom != sum_]
    return len(others) == 1 and isinstance(others[0], fun.Const) and others[0].value == 0


def _is_sum(found: Contraction) -> bool:
    (operator,) = found.reduce.operator.body.statements
    assert isinstance(operator.expr, fun.Apply)
    return operator.expr.operation == "add" and found.reduce.neutral[0].type.dtype in _FLOATS


def _is_whole(found: Contraction, known: Knowledge) -> bool:
    """Whether each row and each column has an element that wants its sum."""
    if found.fact is None:
        return True
    row, column = found.row, found.column
    diagonal = Poly.var(row.index.name) - Poly.var(column.index.name)
    offset = found.fact - diagonal
    if offset.variables():
        offset = found.fact + diagonal
    if not offset.is_constant or offset.constant < 0:
        return False
    return known.nonnegative(row.extent - column.extent) and known.nonnegative(
        column.extent - row.extent
    )


def _operands(term: Term, found: Contraction) -> tuple[_Operand, _Operand] | None:
    """The matrices whose product has a term as its element, but for scalars."""
    if len(term.left) != 1 or len(term.right) != 1:
        return None
    bound = bound_in(found.reduce.body)
    left, right = bound[term.left[0].name], bound[term.right[0].name]
    rows = _operand(left, found.row, found.reduce.space[0])
    columns = _operand(right, found.column, found.reduce.space[0])
    return None if rows is None or columns is None else (rows, columns)


def _operand(let: fun.Let, own: fun.Range, inner: fun.Range) -> _Operand | None:
    """A read of a matrix whose rows are `own` and whose columns are `inner`."""
    read = let.expr
    assert isinstance(read, fun.Index)
    wanted = (Poly.var(own.index.name), Poly.var(inner.index.name))
    if read.indices == wanted:
        return _Operand(read.array, False, own.extent, inner.extent, let.place)
    if read.indices == wanted[::-1]:
        return _Operand(read.array, True, own.extent, inner.extent, let.place)
    return None


def _value(
    builder: Builder,
    inner: Builder,
    term: Term,
    pair: tuple[_Operand, _Operand],
    calls: dict[tuple[_Operand, _Operand], fun.Var],
    found: Contraction,
) -> fun.Var:
    """A term's sum, by an element of a product that `builder` makes unless it is there."""
    rows, columns = pair
    at = (Poly.var(found.row.index.name), Poly.var(found.column.index.name))
    mirrored = (replace(columns, rows=rows.rows), replace(rows, rows=columns.rows))
    if mirrored in calls and pair not in calls and found.fact is not None:  # a square
        product, at = calls[mirrored], at[::-1]
    else:
        if pair not in calls:
            left = rows.view(builder)
            right = replace(
                columns, transposed=not columns.transposed, rows=columns.columns,
                columns=columns.rows,
            ).view(builder)  # fmt: skip
            shape = (found.row.extent, found.column.extent)
            calls[pair] = builder.let(
                fun.Call("matmul", (left, right)), fun.Array(left.type.dtype, shape), "product"
            )
        product = calls[pair]
    scalar = fun.Scalar(product.type.dtype)
    value = inner.let(fun.Index(product, at), scalar)
    for factor in term.scalars:
        value = inner.let(fun.Apply("multiply", (factor, value)), scalar)
    if term.negative:
        value = inner.let(fun.Apply("negative", (value,)), scalar)
    return value
