"""What a body is like: straight-line or not, how costly, whether libmvec is called in it."""

from __future__ import annotations

import math

from weft.fun import nodes as fun
from weft.fun import walk
from weft.ops import table
from weft.sizes import Poly, Size, as_poly, product

WEIGHT = {"cheap": 1, "moderate": 4, "expensive": 12}
UNROLLED = 128  # elements of a reduction that is written out
LINE = 64  # bytes of a cache line
ROUNDS = 64  # how many rounds a loop is guessed to take where nobody knows


def is_flat(body: fun.Body) -> bool:
    """Whether the body is scalar operations and branches alone: a simd loop may hold it."""
    for let in body.statements:
        match let.expr:
            case fun.Apply() | fun.Cast() | fun.SizeValue() | fun.Index():
                pass
            case fun.Slice() | fun.LmadSlice() | fun.Permute() | fun.Reshape():
                pass
            case fun.Broadcast(array):
                if not isinstance(array.type, fun.Array):
                    return False
            case fun.If(_, then, otherwise):
                if not (is_flat(then) and is_flat(otherwise)):
                    return False
                if not all(isinstance(var.type, fun.Scalar) for var in let.pattern):
                    return False
            case fun.Reduce() as reduce:
                if not is_unrolled(reduce):
                    return False
            case _:
                return False
    return True


def is_unrolled(reduce: fun.Reduce) -> bool:
    """Whether a reduction is over so few elements that it is straight-line code."""
    if reduce.reduced != len(reduce.space) or not all(r.extent.is_constant for r in reduce.space):
        return False
    extents = [r.extent.constant for r in reduce.space]
    if not (max(extents) <= 16 and 0 < math.prod(extents) <= UNROLLED):
        return False
    return is_flat(reduce.body) and is_flat(reduce.operator.body)


def widest_vector(body: fun.Body) -> int:
    """Lanes of a cache line of its smallest scalars: no processor's vectors have more."""
    sizes = [8]  # of indices
    sizes += [atom.type.dtype.itemsize for atom in body.results]  # which may be constants
    for let in walk.statements(body):
        sizes += [var.type.dtype.itemsize for var in let.pattern]
        if isinstance(let.expr, fun.Loop):
            sizes += [param.type.dtype.itemsize for param in let.expr.params]
    return LINE // min(sizes)


def cost(body: fun.Body) -> Size:
    """Rough operations of one evaluation, as a polynomial with non-negative coefficients."""
    total: Poly = as_poly(1)
    known: dict[str, Size] = {}  # int64 scalars, or what they are at most
    for let in body.statements:
        match let.expr:
            case fun.SizeValue(size):
                known[let.pattern[0].name] = size
            case fun.Apply("minimum", operands) if found := _known(operands, known):
                known[let.pattern[0].name] = min(found, key=_simplicity)
            case fun.Apply(operation, _):
                total = total + WEIGHT[table.lookup(operation).cost]
            case fun.Index() | fun.Cast():
                total = total + 1
            case fun.Kernel(space, inner):
                total = total + _points(space) * cost(inner)
            case fun.Reduce(space, _, inner, operator) | fun.Scan(space, inner, operator):
                total = total + _points(space) * (cost(inner) + cost(operator.body))
            case fun.Scatter(_, space, inner):
                total = total + _points(space) * (cost(inner) + 4)
            case fun.If(_, then, otherwise):
                total = total + cost(then) + cost(otherwise)
            case fun.Loop(_, _, fun.For(_, lower, upper), inner):
                rounds = upper - lower
                most = rounds if all(f >= 0 for f in rounds.terms.values()) else upper
                total = total + most * cost(inner)
            case fun.Loop(_, _, _, inner):
                total = total + cost(inner) * ROUNDS
            case fun.Copy(array) | fun.Reshape(array) | fun.Update(array):
                if not isinstance(let.expr, fun.Reshape):
                    total = total + product(walk.type_sizes(array.type))
            case _:
                pass
    return total.substitute(known)


def _known(operands: tuple[fun.Atom, ...], known: dict[str, Size]) -> list[Size]:
    """The int64 operands whose values are known as sizes."""
    found = []
    for atom in operands:
        if isinstance(atom, fun.Var) and atom.name in known:
            found.append(known[atom.name])
        elif isinstance(atom, fun.Const) and isinstance(atom.value, int):
            found.append(as_poly(atom.value))
    return found


def _simplicity(bound: Size) -> tuple[bool, int]:
    """Of two bounds, one without subtractions is simpler, and one of fewer variables."""
    return min(bound.terms.values(), default=0) < 0, len(bound.terms)


def _points(space: tuple[fun.Range, ...]) -> Size:
    return product(r.extent for r in space)
