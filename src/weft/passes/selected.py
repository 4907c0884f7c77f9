"""What is known of the results of a reduction that selects an element: arg-min and its like.

let v, i = reduce (; k < n) { let x = a[k] in x, k } with selection
let y = a[i]                                                        -- y is v
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from weft.fun import nodes as fun
from weft.fun.choosing import chosen_by
from weft.records import dataclass
from weft.sizes import Poly, Size
from weft.sizes.prove import Prover


@dataclass(frozen=True, slots=True)
class Selected:
    """The results of a reduction of at least one element, all of them of one element's.

    Attributes
    ----------
    kept : tuple of str
        The indices that are not reduced.
    positions : dict of (str, (str, Size))
        By the name of a result: the reduced index that it is, and an offset.
    reads : dict of (fun.Var, fun.Index)
        By the result: what it was read from, at these indices.
    """

    kept: tuple[str, ...]
    positions: dict[str, tuple[str, Size]]
    reads: dict[fun.Var, fun.Index]

    def value(
        self, read: fun.Index, elements: Mapping[str, fun.Index]
    ) -> tuple[fun.Var, tuple[Size, ...]] | None:
        """The result, and which element of it, that is what a read gives.

        `elements` are the scalars in the read's indices that are elements of results.
        """
        places = {element.indices for element in elements.values()} or {()}
        if len(places) != 1 or any(read.boundary):
            return None
        (place,) = places
        kept = dict(zip(self.kept, place, strict=True))
        index = dict(kept)
        for name, element in elements.items():
            reduced, offset = self.positions[element.array.name]
            index[reduced] = Poly.var(name) - offset.substitute(kept)
        for result, known in self.reads.items():
            if known.array.name == read.array.name and read.indices == tuple(
                size.substitute(index) for size in known.indices
            ):
                return result, place
        return None


def selected(
    reduce: fun.Reduce, pattern: tuple[fun.Var, ...], prover: Callable[[], Prover]
) -> Selected | None:
    """What is known of a reduction's results; None where it may select nothing."""
    if reduce.counter or chosen_by(reduce.operator) is None:
        return None
    first = len(reduce.space) - reduce.reduced
    if not all(prover().positive(r.extent) for r in reduce.space[first:]):
        return None
    reduced = {r.index.name for r in reduce.space[first:]}
    made = {let.pattern[0].name: let.expr for let in reduce.body.statements}
    found = Selected(tuple(r.index.name for r in reduce.space[:first]), {}, {})
    for var, value in zip(pattern, reduce.body.results, strict=True):
        expr = made.get(value.name) if isinstance(value, fun.Var) else None
        if isinstance(expr, fun.Index):
            varies = {name for index in expr.indices for name in index.variables()}
            if not any(expr.boundary) and not varies & made.keys():
                found.reads[var] = expr
        elif position := _position(value, expr, reduced, made.keys()):
            found.positions[var.name] = position
    return found if found.positions else None


def _position(
    value: fun.Atom, expr: fun.Expr | None, reduced: Collection[str], made: Collection[str]
) -> tuple[str, Size] | None:
    """The reduced index that a value is, and an offset."""
    if expr is None and isinstance(value, fun.Var):
        size = Poly.var(value.name)
    elif isinstance(expr, fun.SizeValue):
        size = expr.size
    else:
        return None
    varies = [name for name in size.variables() if name in reduced or name in made]
    if len(varies) != 1 or varies[0] in made:
        return None
    offset = size - Poly.var(varies[0])
    return None if varies[0] in offset.variables() else (varies[0], offset)
