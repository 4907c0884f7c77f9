"""Lengths of a few elements that are reduced, as constants of the program.

    reduce (i < n; k < m) { x[i, k] * w[k] }  =>  reduce (i < n; k < 3) { x[i, k] * w[k] }

A reduction of a few elements, of a known number, is straight-line code, of which compilers make
vectors over rows. Rows of an unknown length are reduced one by one, in lanes few of which are used.
Of batches of products, rows and columns are constants as well: small matrices are then written out
(`weft.passes.write_out_products`), where each would be a call of a library, or a tile of its own.
What is written follows from the extents of whole arrays, never from boxes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.contractions import are_few, contraction
from weft.fun.vector_math import has_vector_math
from weft.ops.dtypes import DType
from weft.plan.work import work
from weft.records import dataclass
from weft.sizes import Size

_FEW = 16  # elements, of which straight-line code is made
_ENOUGH = 1 << 16  # scalar operations that are worth code of their own


@dataclass(frozen=True, slots=True)
class Extents:
    """What may become constant together: variables or constants.

    Attributes
    ----------
    sizes : tuple of Size
    product : bool
        Rows, columns and terms of a product, which are few together; else what is reduced.
    """

    sizes: tuple[Size, ...]
    product: bool

    @property
    def names(self) -> list[str]:
        """The variables."""
        return [size.variable for size in self.sizes if size.variable is not None]

    def are_short(self, values: Mapping[str, int]) -> bool:
        """Whether straight-line code is made of so many."""
        if self.product:
            return are_few(size.substitute(values) for size in self.sizes)
        return all(values[name] <= _FEW for name in self.names)


def reduced_extents(program: fun.Program) -> tuple[Extents, ...]:
    """The extents of what is reduced, and of products, that are size variables.

    Parameters
    ----------
    program : fun.Program
        As it was traced; fused, if it calls vector math.
    """
    if not _is_of_lanes(program.body, set()):
        return ()  # functions of numbers that lanes have in common have other bits
    known = set(program.sizes)
    found = dict.fromkeys(
        each for let in walk.statements(program.body) for each in _extents(let)
    )
    return tuple(
        each for each in found
        if each.names and known.issuperset(each.names)
        and all(size.is_constant or size.variable is not None for size in each.sizes)
    )  # fmt: skip


def _is_of_lanes(body: fun.Body, varying: set[str]) -> bool:
    """Whether the vector math of reductions is of numbers that differ between lanes.

    `varying`: the names around the body that do. What is read is known by indices, so that
    vectors of it are loaded before they are given to a function.
    """
    for let in body.statements:
        match let.expr:
            case fun.Reduce(space, reduced, inner, operator):
                kept = space[: len(space) - reduced]
                lanes = {kept[-1].index.name} if kept else varying
                if has_vector_math(operator.body) or not _calls_vary(inner, lanes):
                    return False
            case fun.Kernel(space, inner):
                if not _is_of_lanes(inner, {space[-1].index.name}):
                    return False
            case _:
                if not all(_is_of_lanes(inner, set()) for inner in walk.bodies(let.expr)):
                    return False
        if walk.used_names(let.expr) & varying:
            varying = varying.union(var.name for var in let.pattern)
    return True


def _calls_vary(body: fun.Body, varying: set[str]) -> bool:
    """Whether each call of vector math in a reduction's body is of what varies."""
    if not has_vector_math(body):
        return True
    made: set[str] = set()
    for let in body.statements:
        used = walk.used_names(let.expr)
        match let.expr:
            case fun.Index(indices=indices):
                if any(made & index.variables() for index in indices):
                    return False
            case fun.Apply() | fun.Cast() | fun.SizeValue():
                if has_vector_math(fun.Body((let,), ())) and not used & varying:
                    return False
            case _:
                return False
        names = {var.name for var in let.pattern}
        made |= names
        if used & varying:
            varying = varying | names
    return True


def constants(
    program: fun.Program, reduced: Sequence[Extents], sizes: Mapping[str, int]
) -> dict[str, int]:
    """The variables of `reduced_extents` that are constants of the program for these sizes."""
    found = {
        name: sizes[name] for each in reduced if each.are_short(sizes) for name in each.names
    }
    if found and sum(work(let, sizes) for let in program.body.statements) < _ENOUGH:
        return {}
    return found


def with_constants(program: fun.Program, values: Mapping[str, int]) -> fun.Program:
    """The program for sizes of these values, which are still given to it."""
    substitution = walk.Substitution(
        {name: fun.Const(value, DType.I64) for name, value in values.items()}
    )
    params = tuple(map(substitution.binder, program.params))
    return replace(program, params=params, body=substitution.body(program.body))


def _extents(let: fun.Let) -> Iterator[Extents]:
    match let.expr:
        case fun.Reduce(space, reduced):
            yield Extents(_sizes(space[len(space) - reduced :]), product=False)
            if reduced == 1 and len(space) > 2:  # what is reduced may be products
                yield Extents(_sizes(space[-3:]), product=True)
        case fun.Kernel(space):
            found = contraction(let.expr)
            if found is not None:
                yield Extents(_sizes((*space[-2:], *found.reduce.space)), product=True)
        case fun.Call("matmul", (left, right)):
            rows, columns = (walk.type_sizes(atom.type)[-2:] for atom in (left, right))
            if len(walk.type_sizes(let.pattern[0].type)) > 2:
                yield Extents((*rows, columns[-1]), product=True)


def _sizes(ranges: Sequence[fun.Range]) -> tuple[Size, ...]:
    return tuple(r.extent for r in ranges)
