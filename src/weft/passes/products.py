"""products: nests that multiply matrices, as the library's product.

    let c = kernel (i < n, j < m) {
      let r = reduce (; k < l) { let p = multiply(a[i, k], b[k, j]) in p } with add
      in r }
 => let c = matmul(a, b)

Removes: such kernels of floats among the statements of the program itself, which no loop holds;
    the operands may be transposed, slices, and added to 0.
Adds: library calls, and the views that they take.
Requires: a checked program.
Ensures: the same values within rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.fun import nodes as fun
from weft.fun.builder import Names
from weft.ops.dtypes import DType
from weft.passes.versions import bound_in
from weft.sizes import ZERO, Poly, Size


def products(program: fun.Program) -> fun.Program:
    """The program with its products of matrices as library calls."""
    names = Names.of(program)
    statements: list[fun.Let] = []
    for let in program.body.statements:
        found = _product(let)
        statements += [let] if found is None else found.calls(let, names)
    return replace(program, body=fun.Body(tuple(statements), program.body.results))


@dataclass(frozen=True, slots=True)
class _Operand:
    """A matrix with `rows` and `columns`, which may be read transposed."""

    array: fun.Var
    transposed: bool
    rows: Size
    columns: Size

    def view(self, names: Names, let: fun.Let, statements: list[fun.Let]) -> fun.Var:
        array = self.array
        shape = (self.columns, self.rows) if self.transposed else (self.rows, self.columns)
        assert isinstance(array.type, fun.Array)
        if shape != array.type.shape:
            part = fun.Var(names.fresh("part"), fun.Array(array.type.dtype, shape))
            spans = tuple(fun.Span(ZERO, extent) for extent in shape)
            statements.append(fun.Let((part,), fun.Slice(array, spans), let.place))
            array = part
        if self.transposed:
            type_ = fun.Array(self.array.type.dtype, shape[::-1])
            turned = fun.Var(names.fresh("turned"), type_)
            statements.append(fun.Let((turned,), fun.Permute(array, (1, 0)), let.place))
            array = turned
        return array


@dataclass(frozen=True, slots=True)
class _Product:
    left: _Operand
    right: _Operand

    def calls(self, let: fun.Let, names: Names) -> list[fun.Let]:
        statements: list[fun.Let] = []
        left = self.left.view(names, let, statements)
        right = self.right.view(names, let, statements)
        return [*statements, fun.Let(let.pattern, fun.Call("matmul", (left, right)), let.place)]


def _product(let: fun.Let) -> _Product | None:
    """The product that a statement computes; None where it is none."""
    space: list[fun.Range] = []
    expr = let.expr
    body: fun.Body | None = None
    while isinstance(expr, fun.Kernel):
        space += expr.space
        body = expr.body
        if len(body.statements) != 1 or len(body.results) != 1:
            break
        expr = body.statements[0].expr
    if body is None or len(space) != 2:
        return None
    return _of_elements(body, space)


def _of_elements(body: fun.Body, space: list[fun.Range]) -> _Product | None:
    """The product whose elements a body computes, which may add 0 to them."""
    reduce = body.statements[0].expr
    result = body.statements[0].pattern[0]
    if not isinstance(reduce, fun.Reduce) or len(reduce.space) != 1 or len(reduce.neutral) != 1:
        return None
    if len(body.statements) == 2:
        (last,) = body.statements[1:]
        if not isinstance(last.expr, fun.Apply) or last.expr.operation != "add":
            return None
        others = [atom for atom in last.expr.arguments if atom != result]
        if len(others) != 1 or not isinstance(others[0], fun.Const) or others[0].value != 0:
            return None
        result = last.pattern[0]
    if len(body.statements) > 2 or body.results != (result,) or not _is_sum(reduce):
        return None
    return _of_sum(reduce, space)


def _is_sum(reduce: fun.Reduce) -> bool:
    dtype = reduce.neutral[0].type.dtype
    operator = reduce.operator.body
    if dtype not in (DType.F32, DType.F64, DType.C64, DType.C128) or len(operator.statements) != 1:
        return False
    return operator.statements[0].expr == fun.Apply("add", reduce.operator.params)


def _of_sum(reduce: fun.Reduce, space: list[fun.Range]) -> _Product | None:
    bound = bound_in(reduce.body)
    (result,) = reduce.body.results
    let = bound.get(result.name) if isinstance(result, fun.Var) else None
    if let is None or not isinstance(let.expr, fun.Apply) or let.expr.operation != "multiply":
        return None
    if len(reduce.body.statements) != 3:
        return None
    rows, columns, inner = (*space, reduce.space[0])
    operands: dict[str, _Operand] = {}
    for atom in let.expr.arguments:
        read = bound.get(atom.name) if isinstance(atom, fun.Var) else None
        if read is None or not isinstance(read.expr, fun.Index) or any(read.expr.boundary):
            return None
        for dim in (rows, columns):
            found = _operand(read.expr, dim, inner)
            if found is not None:
                operands[dim.index.name] = found
    if len(operands) != 2:
        return None
    right = operands[columns.index.name]
    turned = _Operand(right.array, not right.transposed, right.columns, right.rows)
    return _Product(operands[rows.index.name], turned)


def _operand(read: fun.Index, own: fun.Range, inner: fun.Range) -> _Operand | None:
    """A read of a matrix whose rows are `own` and whose columns are `inner`."""
    wanted = (Poly.var(own.index.name), Poly.var(inner.index.name))
    if read.indices == wanted:
        return _Operand(read.array, False, own.extent, inner.extent)
    if read.indices == wanted[::-1]:
        return _Operand(read.array, True, own.extent, inner.extent)
    return None
