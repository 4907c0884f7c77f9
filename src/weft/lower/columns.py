"""Copies of records of a few numbers to columns, by code that is compiled already.

    let t = kernel (c < 3, k < m) { let x = a[k, c] in x }    =>  columns t = a, 3 of m

A program that reads records along its lanes makes such a copy first (`passes/side_by_side.py`).
As a kernel it is all that a compiler needs to do for it, which first calls would wait for.
"""

from __future__ import annotations

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.lower import bounds
from weft.lower.emitter import Emitter
from weft.lower.spaces import describe
from weft.lower.unit import memory
from weft.sizes import ONE, ZERO, Poly, Size

FEW = 16  # numbers of a record


def lower_columns(e: Emitter, let: fun.Let) -> bool:
    """Lowers the kernel if it is such a copy; whether it is."""
    kernel = let.expr
    if e.in_tile or e.serial or not isinstance(kernel, fun.Kernel) or len(kernel.space) != 2:
        return False
    (columns, records), statements = kernel.space, kernel.body.statements
    if len(statements) != 1 or kernel.body.results != statements[0].pattern:
        return False
    read, few = statements[0].expr, columns.extent
    if not isinstance(read, fun.Index) or any(read.boundary):
        return False
    if not few.is_constant or not 1 < few.constant <= FEW:
        return False
    column, record = columns.index.name, records.index.name
    indices = (Poly.var(column), Poly.var(record))
    if set(read.indices) != set(indices) or len(read.indices) != len(indices):
        return False
    source, target = memory(read.array), memory(let.pattern[0])
    written, taken = target.index.apply(indices), source.index.apply(read.indices)
    if written.coefficient(record) != ONE or taken.coefficient(record) == ONE:
        return False  # which are columns already
    with e.index(column, imp.ZERO, ZERO, few), e.index(record, imp.ZERO, ZERO, records.extent):
        if not bounds.proved(e, read):
            return False

    def start(address: Size) -> imp.Expr:
        return e.named(address.without(column).without(record))

    e.emit(imp.Columns(
        e.pointer(target.block, target.dtype), start(written), e.named(written.coefficient(column)),
        e.pointer(source.block, source.dtype), start(taken), e.named(taken.coefficient(record)),
        e.named(taken.coefficient(column)), few.constant, e.named(records.extent),
    ))  # fmt: skip
    e.unit.kernels.append(describe("map", kernel.space, let.pattern))
    e.depths["@" + let.pattern[0].name] = e.depth
    return True
