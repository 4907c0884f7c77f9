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

from dataclasses import replace
from typing import Any

from weft.imp import nodes as imp
from weft.imp.walk import inside, mapped, walked

_SUMS = {"add", "subtract"}


def round_products(program: imp.Program) -> imp.Program:
    """The program with its float products rounded, if it both adds and subtracts some."""
    values: dict[str, imp.Expr] = {}
    sums: list[imp.Apply] = []
    for statement in walked(program.body):
        if not isinstance(statement, imp.Declare | imp.Assign | imp.Store):
            continue
        if isinstance(statement, imp.Declare) and statement.value is not None:
            values[statement.var.name] = statement.value
        sums += filter(_is_sum, inside(statement.value))

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


def _is_sum(node: Any) -> bool:
    return isinstance(node, imp.Apply) and node.operation in _SUMS and node.dtype.kind == "f"


def _negates(value: imp.Expr) -> bool:
    return isinstance(value, imp.Apply) and value.operation == "negative"
