"""round_products: products are rounded before one is subtracted beside another that is added.

    let t = x * y; p[i] = t - z; let u = v * w; p[i + 1] = u + z
 => let t = rounded(x * y); p[i] = t - z; let u = rounded(v * w); p[i + 1] = u + z

Removes: what gcc 12 makes one operation of one rounding, though told not to contract, where a
    product is subtracted in a vector's even lanes and added in its odd ones, or the other way
    round (`vfmaddsub`).
Requires: a checked program.
Ensures: the same values. A program is left alone unless it both adds and subtracts products.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from weft.imp import nodes as imp
from weft.imp.walk import mapped, walked

_SUMS = {"add", "subtract"}


def round_products(program: imp.Program) -> imp.Program:
    """The program with its float products rounded, if it both adds and subtracts some."""
    values: dict[str, imp.Expr] = {}
    sums: list[imp.Apply] = []
    negates = False
    for statement in walked(program.body):
        if not isinstance(statement, imp.Declare | imp.Assign | imp.Store):
            continue
        value = statement.value
        if isinstance(statement, imp.Declare) and value is not None:
            values[statement.var.name] = value
        for operation in _operations(value):
            if operation.operation in _SUMS and operation.dtype.kind == "f":
                sums.append(operation)
            negates |= operation.operation == "negative"
    if len({node.operation for node in sums}) < 2 and not negates:
        return program

    def resolved(expr: Any) -> Any:
        return values.get(expr.name, expr) if isinstance(expr, imp.Var) else expr

    def is_product(expr: imp.Expr) -> bool:
        match resolved(expr):
            case imp.Apply("multiply" | "square"):
                return True
            case imp.Apply("negative", (argument,)):
                return is_product(argument)
            case _:
                return False

    found = set()
    for node in sums:
        if any(map(is_product, node.arguments)):
            negates = any(_negates(resolved(argument)) for argument in node.arguments)
            found |= _SUMS if negates else {node.operation}
    if found != _SUMS:
        return program

    def rounded(expr: Any) -> Any:
        match expr:
            case imp.Apply("multiply" | "square", dtype=dtype) if dtype.kind == "f":
                return imp.Rounded(mapped(expr, rounded))
            case _:
                return mapped(expr, rounded)

    return replace(program, body=rounded(program.body))


def _operations(value: imp.Expr | None) -> Iterator[imp.Apply]:
    """The operations of the table in an expression, outermost first."""
    match value:
        case imp.Apply(_, arguments):
            yield value
            for argument in arguments:
                yield from _operations(argument)
        case imp.Select(_, then, otherwise):
            yield from _operations(then)
            yield from _operations(otherwise)
        case imp.Cast(_, argument):
            yield from _operations(argument)


def _negates(value: imp.Expr) -> bool:
    return isinstance(value, imp.Apply) and value.operation == "negative"
