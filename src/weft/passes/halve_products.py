"""halve_products: products of a matrix and its own transpose, of which the library does a half.

    let s = call matmul(permute a (1, 0), a)
 => let e = empty
    let h = call update(e, permute a (1, 0), a, 1.0, part="upper")
    let s = kernel (i < n, j < n) { if j < i { h[j, i] } else { h[i, j] } }

NumPy asks the library for a half, too (BLAS's syrk), but then copies it to the other one by itself,
element by element along columns, which took a sixth of the time. The kernel is the threads' work,
and fuses with what becomes of the product.

Removes: the products. Adds: calls of the library's `update`.
Requires: a fused program, whose matrices are still matrices (before `weft.passes.collapse`).
Ensures: the bits that NumPy gives.
"""

from __future__ import annotations

from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun.builder import Names
from weft.ops.dtypes import DType
from weft.passes.knowledge import Knowledge
from weft.passes.transposes import are_mirrored
from weft.passes.versions import bound_in
from weft.sizes import Poly


def halve_products(program: fun.Program) -> fun.Program:
    """The program with such products of its own statements, which no loop holds, in two steps."""
    bound, known, names = bound_in(program.body), Knowledge.of(program), Names.of(program)
    made: list[fun.Let] = []
    for let in program.body.statements:
        match let.expr:
            case fun.Call("matmul", (fun.Var() as left, fun.Var() as right)) if (
                let.pattern[0].type.dtype in (DType.F32, DType.F64)
                and are_mirrored(left, right, bound, known)
            ):
                made += _halved(let, left, right, names)
            case _:
                made.append(let)
    if len(made) == len(program.body.statements):
        return program
    return replace(program, body=fun.Body(tuple(made), program.body.results))


def _halved(let: fun.Let, left: fun.Var, right: fun.Var, names: Names) -> list[fun.Let]:
    (square,) = let.pattern
    assert isinstance(square.type, fun.Array)
    dtype, shape, scalar = square.type.dtype, square.type.shape, fun.Scalar(square.type.dtype)
    empty = fun.Var(names.fresh("empty"), square.type)
    half = fun.Var(names.fresh("half"), square.type)
    row, column = (fun.Var(names.fresh(base), fun.Scalar(DType.I64)) for base in "ij")
    below = fun.Var(names.fresh("below"), fun.Scalar(DType.BOOL))
    element = fun.Var(names.fresh(square.name), scalar)

    def read(*indices: fun.Var) -> fun.Body:
        value = fun.Var(names.fresh(square.name), scalar)
        at = tuple(Poly.var(index.name) for index in indices)
        return fun.Body((fun.Let((value,), fun.Index(half, at), let.place),), (value,))

    mirrored = fun.Body(
        (
            fun.Let((below,), fun.Apply("less", (column, row)), let.place),
            fun.Let((element,), fun.If(below, read(column, row), read(row, column)), let.place),
        ),
        (element,),
    )
    space = tuple(map(fun.Range, (row, column), shape))
    options = (("part", "upper"), ("twice", False))
    update = fun.Call("update", (empty, left, right, fun.Const(1.0, dtype)), options)
    return [
        fun.Let((empty,), fun.Empty(dtype, shape), let.place),
        fun.Let((half,), update, let.place),
        replace(let, expr=fun.Kernel(space, mirrored)),
    ]
