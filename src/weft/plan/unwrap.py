"""unwrap: reads that wrap around become three reads, each of a window of its own.

    x[i - 1: wrap(0, n)]
 => if i - 1 < 0 { x[i - 1 + n] } else { if i - 1 >= n { x[i - 1 - n] } else { x[i - 1] } }

Removes: wrap rules on one axis of the arrays named, where the index wraps once at most, and
such reads, and parts, of an array whose elements are shown in one row: they become reads of the
array itself (a box at both ends would make all of that row). Adds: conditions. Requires: nothing.
Ensures: the same values; the footprint of a box is two small intervals, where a rule would make it
the whole array.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, Names
from weft.ops.dtypes import DType
from weft.plan.footprint import Intervals, Reads
from weft.plan.materialise import place_in
from weft.sizes import Size

_BOOL = fun.Scalar(DType.BOOL)


def unwrap(
    let: fun.Let, arrays: Collection[str], sizes: Mapping[str, int], names: Names,
    rows: Mapping[str, fun.Var] | None = None, parts: bool = False, axis: int = 0,
) -> fun.Let:  # fmt: skip
    """The statement with its reads of `arrays` unwrapped, and those of `rows`: arrays in one row.

    `parts`: whether other reads of those are of the arrays themselves, too. `axis`: of the arrays,
    on which rules are removed.
    """
    rows = rows or {}
    arrays = {*arrays, *rows}

    def is_part(expr: fun.Expr) -> bool:
        return parts and isinstance(expr, fun.Index) and expr.array.name in rows

    if not any(_wraps(inner.expr, arrays, axis) or is_part(inner.expr) for inner in _inside(let)):
        return let
    intervals = Intervals(Reads(let, dict.fromkeys(arrays, 1)), sizes, {})

    def once(index: Size, rule: fun.Boundary) -> bool:
        found = intervals.size(index), intervals.size(rule.lower), intervals.size(rule.upper)
        if any(interval is None for interval in found):
            return False
        (low, high), (first, _), (end, _) = found  # type: ignore[misc]
        return bool(np.all(low >= 2 * first - end) and np.all(high < 2 * end - first))

    def body(inner: fun.Body) -> fun.Body:
        build = Builder(names)
        for statement in inner.statements:
            expr = statement.expr
            rule = _wraps(expr, arrays, axis)
            if isinstance(expr, fun.Index) and rule is not None and once(expr.indices[axis], rule):
                build.statements.extend(_unwrapped(statement, expr, rule, names, rows, axis))
            elif isinstance(expr, fun.Index) and is_part(expr) and not any(expr.boundary):
                there = _in_rows(expr, rows[expr.array.name], expr.indices, build)
                build.statements.append(replace(statement, expr=there))
            else:
                build.statements.append(replace(statement, expr=walk.map_bodies(expr, body)))
        return build.body(inner.results)

    return replace(let, expr=walk.map_bodies(let.expr, body))


def _in_rows(
    read: fun.Index, array: fun.Var, at: tuple[Size, ...], build: Builder
) -> fun.Index:
    """The read of the array that gives what a read of it in one row does."""
    assert isinstance(read.array.type, fun.Array)
    return place_in(array, read.array.type.shape, at, build)


def _inside(let: fun.Let) -> list[fun.Let]:
    return [inner for body in walk.bodies(let.expr) for inner in walk.statements(body)]


def _wraps(expr: fun.Expr, arrays: Collection[str], axis: int) -> fun.Boundary | None:
    """The rule of an axis, where it wraps."""
    if isinstance(expr, fun.Index) and expr.array.name in arrays and axis < len(expr.boundary):
        rule = expr.boundary[axis]
        if rule is not None and rule.kind == "wrap":
            return rule
    return None


def _unwrapped(
    let: fun.Let, read: fun.Index, rule: fun.Boundary, names: Names, rows: Mapping[str, fun.Var],
    axis: int,
) -> tuple[fun.Let, ...]:  # fmt: skip
    array, index = rows.get(read.array.name), read.indices[axis]
    extent = rule.upper - rule.lower
    build = Builder(names)
    build.place = let.place
    at = build.scalar(index)
    below = build.let(fun.Apply("less", (at, build.scalar(rule.lower))), _BOOL)
    inside, above = build.inner(), build.inner()
    beyond = inside.let(
        fun.Apply("greater_equal", (at, inside.scalar(rule.upper))), _BOOL
    )

    def shifted(builder: Builder, by: Size) -> fun.Body:
        if array is not None:
            place = (index + by,)
            there = _in_rows(read, array, place, builder)
            return builder.body([builder.let(there, let.pattern[0].type)])
        moved = replace(
            read,
            indices=(*read.indices[:axis], index + by, *read.indices[axis + 1 :]),
            boundary=(*read.boundary[:axis], None, *read.boundary[axis + 1 :]),
        )
        return builder.body([builder.let(moved, let.pattern[0].type)])

    rest = fun.If(beyond, shifted(inside.inner(), -extent), shifted(inside.inner(), extent * 0))
    inner = inside.body([inside.let(rest, let.pattern[0].type)])
    choice = fun.If(below, shifted(above, extent), inner)
    return (*build.statements, replace(let, expr=choice))
