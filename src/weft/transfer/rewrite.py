"""A program on packed arrays in place of its parameters.

    program (x: f64[n, m]) { let y = kernel (i < n) { x[i, 3*i] } in y }
=>  program (packed_0: f64[box_0]) { let y = kernel (i < n) { packed_0[i] } in y }

where numbers that depend on sizes are size variables: one program serves many sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.ops.dtypes import DType
from weft.records import dataclass
from weft.sizes import ONE, ZERO, Poly, Size, as_poly
from weft.transfer.accesses import Affine
from weft.transfer.groups import Group
from weft.transfer.guarded import Guarded, folded
from weft.transfer.sites import Site

_LITERAL = 1  # numbers up to it are part of the program


@dataclass(frozen=True, slots=True)
class Packed:
    """A program on packed arrays.

    Attributes
    ----------
    program : fun.Program
    sizes : dict of str to int
        Its size variables.
    params : tuple of (str or int)
        What each of its parameters is: one of the original's, or the number of a group.
    """

    program: fun.Program
    sizes: dict[str, int]
    params: tuple[str | int, ...]


class _Numbers:
    """Size variables for the numbers of one launch."""

    def __init__(self, program: fun.Program, sizes: Mapping[str, int]) -> None:
        self.names = Names.of(program)
        self.sizes = {name: sizes[name] for name in program.sizes}
        self.added: list[str] = []

    def variable(self, value: int) -> Size:
        """A size variable of its own."""
        name = self.names.fresh("box_packed")
        self.sizes[name] = value
        self.added.append(name)
        return Poly.var(name)

    def number(self, value: int) -> Size:
        """A small number as it is, another as a size variable or its negative."""
        if abs(value) <= _LITERAL:
            return as_poly(value)
        return self.variable(value) if value > 0 else -self.variable(-value)

    def affine(self, index: Affine) -> Size:
        total = self.number(index.constant)
        for name, multiplier in index.terms:
            total = total + self.number(multiplier) * Poly.var(name)
        return total


def rewrite(
    program: fun.Program,
    sizes: Mapping[str, int],
    sites: Sequence[Site],
    groups: Sequence[tuple[Group, DType]],
    results: Sequence[fun.Atom],
    dropped: set[str],
    guards: Sequence[Guarded] = (),
) -> Packed:
    """The program that reads groups instead of the arrays of its sites.

    Parameters
    ----------
    sites : sequence of Site
        The members of groups are positions among them.
    groups : sequence of (Group, DType)
    results : sequence of Atom
        What it gives.
    dropped : set of str
        Statements that are left out, by a result.
    guards : sequence of Guarded
        Kernels that become kernels over their trapezoids.
    """
    numbers = _Numbers(program, sizes)
    numbers.names.taken.update(guard.position.name for guard in guards)
    folds = {
        guard.let.pattern[0].name: folded(guard, numbers.number, numbers.names) for guard in guards
    }
    renewed = {var.name: var for let in folds.values() for var in let.pattern}
    replaced: dict[tuple[str, fun.Index], fun.Index] = {}
    packed: list[fun.Var] = []
    for group, dtype in groups:
        shape = tuple(ONE if n == 1 else numbers.variable(n) for n in group.union.shape)
        var = fun.Var(numbers.names.fresh("packed"), fun.Array(dtype, shape))
        packed.append(var)
        for number, member in enumerate(group.members):
            site = sites[member]
            indices = group.union.indices(number, site.access)
            at = tuple(map(numbers.affine, indices)) if shape else (ZERO,)
            replaced[site.array, site.node] = fun.Index(var, at)

    def body(old: fun.Body) -> fun.Body:
        lets = tuple(let_(let) for let in old.statements)
        return replace(old, statements=lets)

    def let_(let: fun.Let) -> fun.Let:
        if isinstance(let.expr, fun.Index):
            new = replaced.get((let.expr.array.name, let.expr))
            return let if new is None else replace(let, expr=new)
        return walk.map_let(let, body)

    kept = [
        folds.get(let.pattern[0].name, let) for let in program.body.statements
        if let.pattern[0].name not in dropped
    ]  # fmt: skip
    given = [renewed.get(r.name, r) if isinstance(r, fun.Var) else r for r in results]
    new = body(fun.Body(tuple(kept), tuple(given)))
    used = walk.free_names(new)
    params: list[fun.Var] = []
    origins: list[str | int] = []
    for param in program.params:
        if param.name in used:
            params.append(param)
            origins.append(param.name)
    params += packed
    origins += range(len(packed))
    made = replace(
        program, params=tuple(params), body=new, sizes=(*program.sizes, *numbers.added)
    )
    return Packed(made, numbers.sizes, tuple(origins))
