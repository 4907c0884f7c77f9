"""write_out_products: matrix products as the sums that they are, where no library is better.

    let c = call matmul(a, b)
 => let s = reduce (i < n, j < m; k < l) { a[i, k] * b[k, j] } with add
    let c = kernel (i < n, j < m) { s[i, j] + 0.0 }      (of floats: NumPy begins with 0.0)

Removes: calls of `matmul` for numbers of some dtypes; of all, where a batch is of small matrices.
Adds: reductions, which are contractions (`weft.passes.raise_contractions`).
Requires: a checked program, before fusion.
Ensures: the same values, those of floats within rounding. NumPy's library multiplies floats and
    complex numbers alone: integers go element by element, at a thirtieth of the rate of tiles. And
    it is the host's: what a GPU computes would be copied there and back. Each small matrix would be
    a call of it. How it rounds follows shapes, and so does which products are written out.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, Names
from weft.fun.contractions import are_few
from weft.ops.dtypes import DType
from weft.sizes import ONE, ZERO, Poly, Size


def has_products(program: fun.Program, dtypes: Set[DType]) -> bool:
    """Whether there is anything to write out."""
    return any(_is_product(let, dtypes) for let in walk.statements(program.body))


def write_out_products(program: fun.Program, dtypes: Set[DType]) -> fun.Program:
    """The program with the products of these dtypes written out."""
    if not has_products(program, dtypes):
        return program
    names = Names.of(program)

    def written_out(body: fun.Body) -> fun.Body:
        builder = Builder(names)
        for let in body.statements:
            if _is_product(let, dtypes):
                _write_out(builder, let)
            else:
                builder.statements.append(walk.map_let(let, written_out))
        return walk.with_statements(body, builder.statements)

    return replace(program, body=written_out(program.body))


def _is_product(let: fun.Let, dtypes: Set[DType]) -> bool:
    return (
        isinstance(let.expr, fun.Call)
        and let.expr.routine == "matmul"
        and all(isinstance(atom, fun.Var) for atom in let.expr.arguments)
        and (let.pattern[0].type.dtype in dtypes or _is_batch_of_few(let))
    )


def _is_batch_of_few(let: fun.Let) -> bool:
    (result,), (left, _) = let.pattern, _operands(let)
    extents = _shape(result)
    return len(extents) > 2 and are_few((*extents[-2:], _shape(left)[-1]))


def _write_out(builder: Builder, let: fun.Let) -> None:
    (result,) = let.pattern
    left, right = _operands(let)
    dtype, extents = result.type.dtype, _shape(result)
    builder.place = let.place
    kept = tuple(fun.Range(builder.index(), extent) for extent in extents)
    summed = fun.Range(builder.index("k"), _shape(left)[-1])
    rows, columns = (len(_shape(side)) > 1 for side in (left, right))
    batch = kept[: len(kept) - rows - columns]
    row, column = kept[len(batch) : len(batch) + rows], kept[len(kept) - columns :]
    inner, scalar, k = builder.inner(), fun.Scalar(dtype), _places((summed,))
    reads = (
        fun.Index(left, (*_batch_of(left, batch), *_places(row), *k)),
        fun.Index(right, (*_batch_of(right, batch), *k, *_places(column if columns else ()))),
    )
    factors = tuple(inner.let(read, scalar) for read in reads)
    body = inner.body((inner.let(fun.Apply("multiply", factors), scalar),))
    reduce = fun.Reduce((*kept, summed), 1, body, _add(builder, dtype), (_nothing(dtype),))
    if dtype.is_integer:
        builder.statements.append(replace(let, expr=reduce))
        return
    total = builder.let(reduce, result.type)
    space = tuple(fun.Range(builder.index(), extent) for extent in extents)
    inner = builder.inner()
    value = inner.let(fun.Index(total, _places(space)), scalar)
    value = inner.let(fun.Apply("add", (value, fun.Const(0.0, dtype))), scalar)
    builder.statements.append(replace(let, expr=fun.Kernel(space, inner.body((value,)))))


def _operands(let: fun.Let) -> list[fun.Var]:
    assert isinstance(let.expr, fun.Call)
    return [atom for atom in let.expr.arguments if isinstance(atom, fun.Var)]


def _shape(array: fun.Var) -> tuple[Size, ...]:
    return walk.type_sizes(array.type)


def _places(ranges: tuple[fun.Range, ...]) -> tuple[Size, ...]:
    return tuple(Poly.var(r.index.name) for r in ranges)


def _batch_of(array: fun.Var, batch: tuple[fun.Range, ...]) -> tuple[Size, ...]:
    """Where in an operand a matrix of the batch is: the first along what is broadcast."""
    extents = _shape(array)[:-2]
    return tuple(
        ZERO if extent == ONE and r.extent != ONE else Poly.var(r.index.name)
        for extent, r in zip(extents, batch[len(batch) - len(extents) :], strict=True)
    )


def _add(builder: Builder, dtype: DType) -> fun.Lambda:
    scalar = fun.Scalar(dtype)
    inner = builder.inner()
    params = tuple(inner.var(name, scalar) for name in "ab")
    return fun.Lambda(params, inner.body((inner.let(fun.Apply("add", params), scalar),)))


def _nothing(dtype: DType) -> fun.Const:
    return fun.Const(0 if dtype.is_integer else -0.0, dtype)
