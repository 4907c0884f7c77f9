"""Which elements of arrays the rounds of a loop access, and whether two rounds share one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun import walk
from weft.lmad import Lmad
from weft.lmad.overlap import overlap
from weft.ops.dtypes import DType
from weft.passes.knowledge import Knowledge
from weft.records import dataclass
from weft.sizes import ONE, ZERO, Fact, Poly, Size, as_poly

Dims = tuple[fun.Span | Size, ...]


@dataclass(frozen=True, slots=True)
class Inner:
    """An index inside of the loop's body: lower <= name < upper."""

    name: str
    lower: Size
    upper: Size


@dataclass(frozen=True, slots=True)
class Access:
    """Elements of an array, in one round of a loop.

    Attributes
    ----------
    array : str
    dims : tuple of (Span or Size)
    inner : tuple of Inner
        The indices in scope that belong to the round.
    place : Place or None
    written : bool
    conditional : bool
        It may not happen.
    """

    array: str
    dims: Dims
    inner: tuple[Inner, ...]
    place: Place | None
    written: bool = False
    conditional: bool = False


SHOWN = (fun.LmadSlice, fun.Permute, fun.Reshape)
"""What shows an array otherwise, of which others read some elements."""


def whole(var: fun.Var) -> Dims:
    assert isinstance(var.type, fun.Array)
    return tuple(fun.Span(ZERO, extent) for extent in var.type.shape)


def inside(dims: Dims, indices: Sequence[Size]) -> tuple[Size, ...]:
    """Where in an array an element of a part of it is."""
    rest = iter(indices)
    return tuple(
        dim.start + next(rest) * dim.step if isinstance(dim, fun.Span) else dim for dim in dims
    )


def composed(view: Dims, dims: Dims) -> Dims:
    """What part of an array a part of a part of it is."""
    rest, found = iter(dims), list[fun.Span | Size]()
    for own in view:
        if not isinstance(own, fun.Span):
            found.append(own)
            continue
        dim = next(rest)
        if not isinstance(dim, fun.Span):
            found.append(own.start + dim * own.step)
        else:
            start = own.start + dim.start * own.step
            found.append(fun.Span(start, dim.extent, dim.step * own.step))
    return tuple(found)


def reads(
    body: fun.Body, arrays: Collection[str], but: Collection[str], inner: tuple[Inner, ...] = ()
) -> Iterator[Access]:
    """What a body reads of some arrays, other than by the statements that bind `but`."""
    for let in body.statements:
        if let.pattern[0].name not in but:
            yield from _reads_of(let, arrays, but, inner)


def _reads_of(
    let: fun.Let, arrays: Collection[str], but: Collection[str], inner: tuple[Inner, ...]
) -> Iterator[Access]:
    expr, place = let.expr, let.place
    match expr:
        case fun.Index(array, indices, boundary) if array.name in arrays:
            rules = boundary or (None,) * len(indices)
            dims: Dims = tuple(
                index if rule is None else full
                for index, full, rule in zip(indices, whole(array), rules, strict=True)
            )
            yield Access(array.name, dims, inner, place)
            return
        case fun.Slice(array, dims) if array.name in arrays:
            yield Access(array.name, dims, inner, place)
            return
    atoms, _, _ = walk.operands(expr)
    own = (*inner, *indices_of(expr))
    for nested in walk.bodies(expr):
        for found in reads(nested, arrays, but, own):
            conditional = found.conditional or isinstance(expr, fun.If)
            yield replace(found, place=found.place or place, conditional=conditional)
        atoms += nested.results
    for atom in atoms:
        if isinstance(atom, fun.Var) and atom.name in arrays:
            unsure = isinstance(expr, SHOWN)  # who knows what is read of it
            yield Access(atom.name, whole(atom), own, place, conditional=unsure)


def indices_of(expr: fun.Expr) -> tuple[Inner, ...]:
    match expr:
        case fun.Kernel(space) | fun.Reduce(space) | fun.Scan(space):
            return tuple(Inner(r.index.name, ZERO, r.extent) for r in space)
        case fun.Scatter(_, space):
            return tuple(Inner(r.index.name, ZERO, r.extent) for r in space)
        case fun.Loop(_, _, fun.For(index, lower, upper)):
            return (Inner(index.name, lower, upper),)
        case _:
            return ()


# ---------------------------------------------------------------- two rounds


@dataclass(frozen=True, slots=True)
class Rounds:
    """The rounds of a loop: lower <= index < upper; `outside` are the names from before it."""

    index: str
    lower: Size
    upper: Size
    outside: frozenset[str]


def rounds_apart(left: Access, right: Access, rounds: Rounds, known: Knowledge) -> bool:
    """Whether it is proved that two different rounds access no element in common."""
    if not _apart_in_order(left, right, rounds, known):
        return False
    same = left.dims == right.dims and left.inner == right.inner
    return same or _apart_in_order(right, left, rounds, known)


def _apart_in_order(left: Access, right: Access, rounds: Rounds, known: Knowledge) -> bool:
    """The same, where the right one's round comes later."""
    index = Poly.var(rounds.index)
    later = f"{rounds.index}+"
    known = known.within(rounds.index, rounds.lower, rounds.upper - 2)
    known = known.within(later, ONE, rounds.upper - 1 - index)
    moved = _renamed(right, rounds, index + Poly.var(later))
    return elements_apart(left, moved, known)


def rounds_apart_but(
    left: Access, right: Access, spared: Size, rounds: Rounds, known: Knowledge
) -> bool:
    """Whether no round but one accesses, on the left, what any does on the right."""
    other = f"{rounds.index}'"
    moved = _renamed(right, rounds, Poly.var(other))
    known = known.within(other, rounds.lower, rounds.upper - 1)
    parts = (rounds.lower, spared - 1), (spared + 1, rounds.upper - 1)
    return all(
        elements_apart(left, moved, known.within(rounds.index, *part)) for part in parts
    )


def integers_of(program: fun.Program) -> dict[str, Size]:
    """What integers of a program are, by name."""
    return {
        let.pattern[0].name: let.expr.size
        for let in walk.statements(program.body)
        if isinstance(let.expr, fun.SizeValue)
    }


def spared_round(
    branch: fun.Expr, there: fun.Expr, rounds: Rounds, bound: Mapping[str, fun.Let],
    sizes: Mapping[str, Size],
) -> Size | None:  # fmt: skip
    """The one round in which a branch gives what `there` reads; None where it is not known.

    Parameters
    ----------
    bound : mapping of str to fun.Let
        The statements of the loop.
    sizes : mapping of str to Size
        What integers of the program are.
    """
    if not isinstance(branch, fun.If):
        return None
    condition = branch.condition
    let = bound.get(condition.name) if isinstance(condition, fun.Var) else None
    match let.expr if let is not None else None:
        case fun.Apply("not_equal", operands) if operands[0].type == fun.Scalar(DType.I64):
            this, other = (
                sizes.get(atom.name, Poly.var(atom.name)) if isinstance(atom, fun.Var)
                else as_poly(int(atom.value.real))
                for atom in operands
            )  # fmt: skip
        case _:
            return None
    match branch.otherwise:
        case fun.Body((fun.Let((read,), expr),), (result,)) if read == result and expr == there:
            for one, number in ((this, other), (other, this)):
                if one == Poly.var(rounds.index) and number.variables() <= rounds.outside:
                    return number
    return None


def _renamed(access: Access, rounds: Rounds, index: Size) -> Access:
    """The access in another round, whose own names are others."""
    names = {rounds.index: index}

    def size(poly: Size) -> Size:
        for name in poly.variables():
            if name not in rounds.outside and name not in names:
                names[name] = Poly.var(f"{name}'")
        return poly.substitute(names)

    dims = tuple(
        fun.Span(size(d.start), size(d.extent), d.step) if isinstance(d, fun.Span) else size(d)
        for d in access.dims
    )
    inner = tuple(Inner(f"{i.name}'", size(i.lower), size(i.upper)) for i in access.inner)
    return replace(access, dims=dims, inner=inner)


def with_indices(inner: Sequence[Inner], known: Knowledge) -> Knowledge:
    """What is known where these indices are."""
    for index in inner:
        known = known.within(index.name, index.lower, index.upper - 1)
    return known


def elements_apart(left: Access, right: Access, known: Knowledge) -> bool:
    """Whether it is proved that two accesses have no element in common."""
    known = with_indices((*left.inner, *right.inner), known)
    differences: list[Size] = []
    for number, (a, b) in enumerate(zip(left.dims, right.dims, strict=True)):
        one_position, known = _position(a, known, f"{number}<")
        other_position, known = _position(b, known, f"{number}>")
        differences.append(one_position - other_position)
        if _is_not_zero(differences[-1], known):
            return True
    if len(left.dims) > 1:
        return any(_contradicts(differences, number, known) for number in range(len(left.dims)))
    if len(left.dims) == 1:
        one, other = _lmad(left), _lmad(right)
        if one is not None and other is not None:
            return overlap(one, other, known.prover).answer == "no"
    return False


def _is_not_zero(difference: Size, known: Knowledge) -> bool:
    return known.nonzero(difference) or known.negative(difference) or known.negative(-difference)


def _contradicts(differences: Sequence[Size], number: int, known: Knowledge) -> bool:
    """Whether elements differ in one dimension where they do not in all others, as those of a row
    and a column that end at the diagonal."""
    rest = (Fact("==0", d) for n, d in enumerate(differences) if n != number)
    prover = known.prover.assuming(*rest)
    difference = differences[number]
    return prover.nonzero(difference) or prover.less(difference, 0) or prover.less(0, difference)


def _position(dim: fun.Span | Size, known: Knowledge, name: str) -> tuple[Size, Knowledge]:
    if not isinstance(dim, fun.Span):
        return dim, known
    return dim.start + Poly.var(name) * dim.step, known.index(name, dim.extent)


def _lmad(access: Access) -> Lmad | None:
    """An access of one dimension, over all of its own indices; None where it is none."""
    (dim,) = access.dims
    dims: list[tuple[Size, Size]] = []
    offset = dim
    if isinstance(dim, fun.Span):
        offset = dim.start
        dims.append((dim.extent, ONE * dim.step))
    assert isinstance(offset, Poly)
    for inner in reversed(access.inner):
        if any(inner.name in size.variables() for pair in dims for size in pair):
            return None
        if offset.degree(inner.name) > 1:
            return None
        stride = offset.coefficient(inner.name)
        offset = offset.substitute({inner.name: inner.lower})
        dims.append((inner.upper - inner.lower, stride))
    return Lmad(offset, tuple(dims))
