"""branch_writes: what branches write, written after them.

    let y = if c { let x1 = update x[i] = v in x1 } else { in x }
 => let w = if c { in v } else { let o = x[i] in o }
    let y = update x[i] = w

Removes: arrays from the results of branches, where each branch gives the same array with
    updates at elements of which it is proved that they are inside of it, and the same or apart.
Adds: reads of what is there already, and updates by it.
Requires: updates whose indices are bound outside of the branch.
Ensures: the same values.
"""

from __future__ import annotations

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.passes.dependence import Access, Dims, elements_apart
from weft.passes.knowledge import Knowledge
from weft.passes.versions import Chain, Resolver, bound_in, chain_to
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class _Place:
    """Elements that a branch writes, and the value of each branch (None: what is there)."""

    dims: Dims
    values: tuple[fun.Atom | None, fun.Atom | None]
    place: Place | None


def branch_writes(let: fun.Let, names: Names, known: Knowledge) -> list[fun.Let] | None:
    """The statements for a conditional that writes; None where the rule does not apply."""
    assert isinstance(let.expr, fun.If)
    sides = (let.expr.then, let.expr.otherwise)
    lifted: dict[int, tuple[fun.Var, list[_Place]]] = {}
    chains: tuple[list[Chain], list[Chain]] = ([], [])
    for number, var in enumerate(let.pattern):
        if not isinstance(var.type, fun.Array):
            continue
        both = [chain_to(side.results[number], bound_in(side)) for side in sides]
        if both[0] is None or both[1] is None or both[0].root.name != both[1].root.name:
            return None
        bound = {name for side in sides for name in bound_in(side)}
        places = _places(both[0], both[1], bound, known)
        if not places:
            return None
        lifted[number] = (both[0].root, places)
        for own, chain in zip(chains, both, strict=True):
            assert chain is not None
            own.append(chain)
    if not lifted:
        return None
    bodies = []
    for number, (side, own) in enumerate(zip(sides, chains, strict=True)):
        made = _side(side, own, number, lifted, names, known)
        if made is None:
            return None
        bodies.append(made)
    return _rebuilt(let, bodies, lifted, names)


def _places(
    then: Chain, otherwise: Chain, bound: set[str], known: Knowledge
) -> list[_Place] | None:
    places: list[_Place] = []
    for number, chain in enumerate((then, otherwise)):
        for write in chain.writes:
            if write.pairs or walk.used_names(write.let.expr) & bound & _names_of(write.dims):
                return None
            values: list[fun.Atom | None] = [None, None]
            values[number] = write.value
            same = next((k for k, p in enumerate(places) if p.dims == write.dims), None)
            if same is not None:
                old = places[same].values
                merged = (values[0] or old[0], values[1] or old[1])
                places[same] = _Place(write.dims, merged, write.let.place)
                continue
            if not is_inside(write.dims, chain.root, known):
                return None
            access = Access("", write.dims, (), None)
            if not all(elements_apart(access, Access("", p.dims, (), None), known) for p in places):
                return None
            places.append(_Place(write.dims, (values[0], values[1]), write.let.place))
    return places


def _names_of(dims: Dims) -> frozenset[str]:
    found: set[str] = set()
    for dim in dims:
        for size in (dim.start, dim.extent) if isinstance(dim, fun.Span) else (dim,):
            found |= size.variables()
    return frozenset(found)


def is_inside(dims: Dims, array: fun.Var, known: Knowledge) -> bool:
    """Whether elements are in an array whatever the condition is."""
    assert isinstance(array.type, fun.Array)
    for dim, extent in zip(dims, array.type.shape, strict=True):
        first = last = dim.start if isinstance(dim, fun.Span) else dim
        if isinstance(dim, fun.Span):
            if dim.step < 1 or not known.nonnegative(dim.extent):
                return False
            last = dim.start + (dim.extent - 1) * dim.step
        if not known.nonnegative(first) or not known.nonnegative(extent - 1 - last):
            return False
    return True


def slice_type(array: fun.Var, dims: Dims) -> fun.Type:
    """The type of what dims select of an array."""
    shape = tuple(dim.extent for dim in dims if isinstance(dim, fun.Span))
    assert isinstance(array.type, fun.Array)
    return fun.Array(array.type.dtype, shape) if shape else fun.Scalar(array.type.dtype)


def read_of(array: fun.Var, dims: Dims) -> fun.Expr:
    points = tuple(dim for dim in dims if not isinstance(dim, fun.Span))
    return fun.Index(array, points) if len(points) == len(dims) else fun.Slice(array, dims)


def _side(
    side: fun.Body, chains: list[Chain], number: int,
    lifted: dict[int, tuple[fun.Var, list[_Place]]], names: Names, known: Knowledge,
) -> fun.Body | None:  # fmt: skip
    """A branch that gives the values to be written, in the place of arrays."""
    resolver = Resolver([chain for chain in chains if chain.writes], known, names)
    body = resolver.body(side)
    if body is None:
        return None
    statements = list(body.statements)
    results = [resolver.atom(r) for k, r in enumerate(side.results) if k not in lifted]
    for root, places in lifted.values():
        for place in places:
            type_ = slice_type(root, place.dims)
            value = place.values[number]
            if value is None:
                var = fun.Var(names.fresh("o"), type_)
                statements.append(fun.Let((var,), read_of(root, place.dims)))
                value = var
            elif isinstance(type_, fun.Array) and isinstance(value.type, fun.Scalar):
                var = fun.Var(names.fresh("o"), type_)
                filled = fun.Broadcast(resolver.atom(value), type_.shape)
                statements.append(fun.Let((var,), filled))
                value = var
            results.append(resolver.atom(value))
    return fun.Body(tuple(statements), tuple(results))


def _rebuilt(
    let: fun.Let, bodies: list[fun.Body], lifted: dict[int, tuple[fun.Var, list[_Place]]],
    names: Names,
) -> list[fun.Let]:  # fmt: skip
    assert isinstance(let.expr, fun.If)
    pattern = [var for number, var in enumerate(let.pattern) if number not in lifted]
    updates: list[fun.Let] = []
    for number, (root, places) in lifted.items():
        array = root
        for position, place in enumerate(places):
            value = fun.Var(names.fresh("w"), slice_type(root, place.dims))
            pattern.append(value)
            is_last = position == len(places) - 1
            var = let.pattern[number] if is_last else fun.Var(names.fresh("u"), root.type)
            update = fun.Update(array, place.dims, value)
            updates.append(fun.Let((var,), update, place.place))
            array = var
    chosen = fun.If(let.expr.condition, bodies[0], bodies[1])
    return [fun.Let(tuple(pattern), chosen, let.place), *updates]
