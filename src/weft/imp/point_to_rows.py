"""point_to_rows: a simd loop counts from 0, and its pointers point to where its rows begin.

    for simd j from a to b { let x = p[k + j - 1]; q[j] = x }
 => advance p_j = p + (a + k - 1); advance q_j = q + a
    for simd j_past from 0 to b - a { let x = p_j[j_past]; q_j[j_past] = x }

Removes: the additions that addresses otherwise take in each round, where a compiler does not see
    for itself that all rows of a loop go on together. (LLVM 14, of PoCL 3.1, adds `k` anew for each
    vector: the sum of two long vectors in boxes, of which one begins at `k`, took 1.2 times as
    long as at once. Nor does it leave a constant to the processor where it knows that the bits of
    both do not meet: three neighbours took 1.07 times as long by one pointer as by three.)
Requires: loops over int64 with no loop inside.
Ensures: the same elements are read and written, in the same order. What is read at another index
    than the loop's own, and a sum of what does not change, is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.imp.walk import holds, inside, mapped, mentions, walked
from weft.ops.dtypes import DType


def point_to_rows(statements: tuple[imp.Stmt, ...]) -> tuple[imp.Stmt, ...]:
    """The statements of a kernel, with the simd loops inside of them as above."""
    views = {s.pointer for s in walked(statements) if isinstance(s, imp.View) and not s.volatile}
    return _block(statements, views)


def _block(statements: tuple[imp.Stmt, ...], views: set[imp.Pointer]) -> tuple[imp.Stmt, ...]:
    found: list[imp.Stmt] = []
    for statement in statements:
        match statement:
            case imp.For(simd=True, step=1, body=body) if (
                statement.var.dtype is DType.I64 and not holds(body, imp.For | imp.While)
            ):
                found += _loop(statement, views)
            case imp.For(body=body) | imp.While(body=body) | imp.Parallel(body=body):
                found.append(replace(statement, body=_block(body, views)))
            case imp.If(_, then, otherwise):
                then, otherwise = _block(then, views), _block(otherwise, views)
                found.append(replace(statement, then=then, otherwise=otherwise))
            case _:
                found.append(statement)
    return tuple(found)


def _loop(loop: imp.For, views: set[imp.Pointer]) -> Iterator[imp.Stmt]:
    rows = _Rows(loop, views)
    body = tuple(map(rows, loop.body))
    if not rows.found:
        yield loop
        return
    if rows.begin != loop.lower:
        yield imp.Declare(rows.begin, loop.lower)
    for (base, start), row in rows.found.items():
        yield imp.Advance(row, base, machine("+", rows.begin, start))
    count = machine("-", loop.upper, rows.begin)
    yield replace(loop, var=rows.past, lower=imp.ZERO, upper=count, body=body)


_SETS = (imp.Declare, imp.Assign, imp.Ticket, imp.Receive)


class _Rows:
    """Rewrites the body of a loop, and notes the rows that it meets: a pointer and a start."""

    def __init__(self, loop: imp.For, views: set[imp.Pointer]) -> None:
        self.lane, self.views = loop.var, views
        self.past = replace(loop.var, name=f"{loop.var.name}_past")
        body = walked(loop.body)
        self.changing = {loop.var.name, *(s.var.name for s in body if isinstance(s, _SETS))}
        self.begin = replace(loop.var, name=f"{loop.var.name}_begin")
        if isinstance(loop.lower, imp.Var) and self.is_fixed(loop.lower):
            self.begin = loop.lower
        self.found: dict[tuple[imp.Pointer, imp.Expr], imp.Pointer] = {}

    def __call__(self, node: Any) -> Any:
        match node:
            case imp.Load(pointer, index) if place := self.place(pointer, index):
                return imp.Load(*place)
            case imp.Store(pointer, index, value) if place := self.place(pointer, index):
                return imp.Store(*place, self(value))
            case imp.Var() if node == self.lane:
                return machine("+", self.begin, self.past)
            case _:
                return mapped(node, self)

    def place(self, base: imp.Pointer, index: imp.Expr) -> tuple[imp.Pointer, imp.Expr] | None:
        """An element by the row that it is in; None where that is not known."""
        split = self.split(index) if base in self.views else None
        if split is None:
            return None
        start = machine("+", split[0], imp.integer(split[1]))
        new = replace(base, name=f"{base.name}_{self.lane.name}_{len(self.found)}")
        return self.found.setdefault((base, start), new), self.past

    def split(self, index: imp.Expr) -> tuple[imp.Expr, int] | None:
        """What an index is past the loop's own: something that does not change, and a constant."""
        match index:
            case imp.Var() if index == self.lane:
                return imp.ZERO, 0
            case imp.Machine("+", left, right) if self.is_fixed(left):
                return _moved(self.split(right), "+", left)
            case imp.Machine("+" | "-" as operator, left, right) if self.is_fixed(right):
                return _moved(self.split(left), operator, right)
            case _:
                return None

    def is_fixed(self, value: imp.Expr) -> bool:
        """Whether a value is the same in all rounds, without looking at memory."""
        loads = any(isinstance(node, imp.Load) for node in inside(value))
        return not loads and self.changing.isdisjoint(mentions(value))


def _moved(
    split: tuple[imp.Expr, int] | None, operator: Literal["+", "-"], by: imp.Expr
) -> tuple[imp.Expr, int] | None:
    if split is None:
        return None
    start, constant = split
    if not isinstance(by, imp.Const):
        return machine(operator, start, by), constant
    number = int(by.value.real)
    return start, constant + (number if operator == "+" else -number)
