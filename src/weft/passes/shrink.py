"""shrink: of what only a slice is used, only that slice is computed.

    let x = kernel (i < n) { .. a[i] .. }         let y = kernel (i < m) { .. a[2*i + 1] .. }
    let y = slice x[1 for m by 2]            =>

Removes: kernels with one result that nothing uses but one slice of it, in the same body.
Adds: kernels over the slice.
Requires: a checked program without dead statements; that fusion has inlined what it can.
Ensures: the same values; no element more is computed than before.

The case that Munksgaard's thesis leaves open (section 6.4.1): an array can then be made where
its slice is copied to.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.ops.dtypes import DType
from weft.sizes import ZERO, Poly, Size


def shrink(program: fun.Program) -> fun.Program:
    """The program with kernels over what is used of them."""
    if not any(isinstance(let.expr, fun.Slice) for let in walk.statements(program.body)):
        return program
    names = Names.of(program)
    uses = Counter(walk.uses(program.body))

    def shrunk(body: fun.Body) -> fun.Body:
        kernels: dict[str, fun.Let] = {}
        statements: dict[str, fun.Let] = {}
        for let in body.statements:
            let = replace(let, expr=walk.map_bodies(let.expr, shrunk))
            match let.expr:
                case fun.Kernel() if len(let.pattern) == 1 and uses[let.pattern[0].name] == 1:
                    kernels[let.pattern[0].name] = let
                case fun.Slice(array, dims) if array.name in kernels:
                    made = _over(kernels[array.name], let, dims, names)
                    if made is not None:
                        del statements[array.name]
                        let = made
                case _:
                    pass
            statements[let.pattern[0].name] = let
        return fun.Body(tuple(statements.values()), body.results)

    return replace(program, body=shrunk(program.body))


def _over(
    made: fun.Let, view: fun.Let, dims: tuple[fun.Span | Size, ...], names: Names
) -> fun.Let | None:
    """The kernel over a slice of its results, if that saves any of them."""
    kernel = made.expr
    assert isinstance(kernel, fun.Kernel)
    own, rest = dims[: len(kernel.space)], dims[len(kernel.space) :]
    shape = walk.type_sizes(made.pattern[0].type)[len(own) :]
    saves = any(
        not isinstance(dim, fun.Span) or dim.extent != r.extent
        for dim, r in zip(own, kernel.space, strict=True)
    )
    whole = all(dim == fun.Span(ZERO, extent) for dim, extent in zip(rest, shape, strict=True))
    if not (saves and whole and any(isinstance(dim, fun.Span) for dim in own)):
        return None
    space: list[fun.Range] = []
    values: dict[str, Size] = {}
    for dim, r in zip(own, kernel.space, strict=True):
        if isinstance(dim, fun.Span):
            space.append(fun.Range(r.index, dim.extent))
            values[r.index.name] = dim.start + dim.step * Poly.var(r.index.name)
        else:
            values[r.index.name] = dim
    return fun.Let(
        view.pattern, fun.Kernel(tuple(space), _at(kernel.body, values, names)), made.place
    )


def _at(body: fun.Body, values: dict[str, Size], names: Names) -> fun.Body:
    """The body with polynomials in the place of indices."""
    used = set(walk.uses(body))
    scalars: dict[str, fun.Atom] = {}
    lets: list[fun.Let] = []
    for name in sorted(values.keys() & used):
        scalars[name] = scalar = fun.Var(names.fresh("s"), fun.Scalar(DType.I64))
        lets.append(fun.Let((scalar,), fun.SizeValue(values[name])))
    new = walk.Substitution(scalars, values).body(body)
    return fun.Body((*lets, *new.statements), new.results)
