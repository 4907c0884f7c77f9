"""How much a statement computes: scalar operations, roughly, for actual sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from operator import add, mul, sub
from typing import TypeAlias

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.contractions import contraction
from weft.sizes import Size

_ROUNDS = 16  # of a while loop, of which nothing is known
_UNKNOWN = 64  # an extent that only running the program tells
_NARROW = 4  # bytes of a sum, of which wide ones take so many times as long
_OF_INTEGERS: Mapping[str, Callable[..., int]] = {
    "add": add, "subtract": sub, "multiply": mul, "minimum": min, "maximum": max,
}  # fmt: skip
_SHORT = 64  # elements of a row of which a reduction does not take a vector's worth at a time


Weigh: TypeAlias = Callable[[str], float]


def _alike(operation: str) -> float:
    return 1.0


def work(let: fun.Let, sizes: Mapping[str, int], weigh: Weigh = _alike) -> float:
    """The scalar operations of a statement; extents that depend on indices count halfway.

    `weigh`: as how many an operation of the table counts.
    """
    return _expr(let.expr, dict(sizes), weigh)


def is_contraction(let: fun.Let) -> bool:
    """Whether a statement is a contraction, such as a matrix product."""
    return isinstance(let.expr, fun.Kernel) and contraction(let.expr) is not None


def has_short_rows(body: fun.Body, sizes: Mapping[str, int]) -> bool:
    """Whether a reduction's rows may be so short that code of their own is worth its time."""
    for let in body.statements:
        if isinstance(let.expr, fun.Reduce):
            extent = let.expr.space[-1].extent
            try:  # a few constants are written out
                if not extent.is_constant and extent.evaluate(sizes) < _SHORT:
                    return True
            except KeyError:  # differs from row to row, or only running the program tells
                return True
        if any(has_short_rows(inner, sizes) for inner in walk.bodies(let.expr)):
            return True
    return False


def _expr(expr: fun.Expr, known: dict[str, int], weigh: Weigh) -> float:
    match expr:
        case fun.Kernel(space, body) if (found := contraction(expr)) is not None:
            # What a row or a column gives is computed once for many elements.
            elements = _times(space, known)
            each = max(found.reduce.neutral[0].type.dtype.itemsize / _NARROW, 1)
            terms = each * _times(found.reduce.space, known) * len(found.joint)
            return float(elements * (terms + len(body.statements)))
        case fun.Kernel(space) | fun.Reduce(space) | fun.Scan(space) | fun.Scatter(_, space):
            times = _times(space, known)
        case fun.Loop(_, _, fun.For(index, lower, upper)):
            first, last = _number(lower, known), _number(upper, known)
            known[index.name] = (first + last) // 2
            times = max(last - first, 0)
        case fun.Loop():
            times = _ROUNDS
        case fun.If():  # as if it were always the longer branch
            return 1 + max(_body(body, known, weigh) for body in walk.bodies(expr))
        case fun.Call(routine, arguments):
            return _call(routine, arguments, known)
        case fun.Apply(operation):
            return weigh(operation)
        case _:
            times = 1
    return times * sum((_body(body, known, weigh) for body in walk.bodies(expr)), 1.0)


def _body(body: fun.Body, known: dict[str, int], weigh: Weigh) -> float:
    total = 0.0
    for let in body.statements:
        total += _expr(let.expr, known, weigh)
        value = _integer(let.expr, known)
        if value is not None:
            known[let.pattern[0].name] = value
    return total


def _integer(expr: fun.Expr, known: Mapping[str, int]) -> int | None:
    """What is made of known integers, such as the length of a tile: minimum(65536, n - first)."""
    match expr:
        case fun.SizeValue(size) if size.variables() <= known.keys():
            return int(size.evaluate(known))
        case fun.Apply(operation, arguments) if operation in _OF_INTEGERS:
            values = [_known(argument, known) for argument in arguments]
            return None if None in values else _OF_INTEGERS[operation](*values)
        case fun.Cast(dtype, argument) if dtype.kind in "iu":
            return _known(argument, known)
        case _:
            return None


def _known(atom: fun.Atom, known: Mapping[str, int]) -> int | None:
    if isinstance(atom, fun.Const):
        return atom.value if isinstance(atom.value, int) else None
    return known.get(atom.name)


def _times(space: tuple[fun.Range, ...], known: dict[str, int]) -> int:
    times = 1
    for dim in space:
        extent = max(_number(dim.extent, known), 0)
        known[dim.index.name] = extent // 2
        times *= extent
    return times


def _number(size: Size, known: Mapping[str, int]) -> int:
    try:
        return int(size.evaluate(known))
    except KeyError:
        return _UNKNOWN


def _call(routine: str, arguments: tuple[fun.Atom, ...], known: Mapping[str, int]) -> float:
    """Every element of the arguments; in a product each meets the others of its row or column."""
    counts = [
        math.prod(_number(extent, known) for extent in walk.type_sizes(atom.type))
        for atom in arguments
    ]
    if routine != "matmul":
        return float(sum(counts))
    (left, right) = (walk.type_sizes(atom.type) for atom in arguments)
    columns = _number(right[-1], known) if len(right) > 1 else 1
    return float(max(counts[0] * columns, 1)) if left else 1.0
