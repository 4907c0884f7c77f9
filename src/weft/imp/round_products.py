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
from weft.imp.walk import inside, mapped

_SUMS = {"add", "subtract"}


def round_products(program: imp.Program) -> imp.Program:
    """The program with its float products rounded, if it both adds and subtracts some."""
    values: dict[str, imp.Expr | None] = {}
    sums = []
    for node in inside(program.body):
        if isinstance(node, imp.Declare):
            values[node.var.name] = node.value
        elif isinstance(node, imp.Apply) and node.operation in _SUMS and node.dtype.kind == "f":
            sums.append(node)
    if len({node.operation for node in sums}) < 2 and not any(map(_negates, values.values())):
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


def _negates(value: imp.Expr | None) -> bool:
    return isinstance(value, imp.Apply) and value.operation == "negative"
