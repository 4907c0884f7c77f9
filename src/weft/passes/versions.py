"""Chains of updates: the versions of an array in one body, and what is read of each.

let x1 = update x0[i] = a
let r = x1[i]                   r is a
let s = x1[j]                   s is x0[j], where i and j differ
let p = slice x1[0 for n]       p is let q = slice x0[0 for n] let p = update q[i] = a
let x2 = update x1[j] = b
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.passes.dependence import Access, Dims, Inner, elements_apart, indices_of, with_indices
from weft.passes.knowledge import Knowledge
from weft.records import dataclass
from weft.sizes import ZERO, Poly, Size


@dataclass(frozen=True, slots=True)
class Write:
    """An update of a chain: `let name = update ..[dims] = value`.

    Attributes
    ----------
    pairs : tuple of (Size, Size)
        Where not empty, the elements are those of an LMAD in an array of one dimension, of these
        extents and strides, and `dims` is the first of them.
    """

    let: fun.Let
    dims: Dims
    value: fun.Atom
    pairs: tuple[tuple[Size, Size], ...] = ()

    @property
    def name(self) -> str:
        return self.let.pattern[0].name

    @property
    def array(self) -> fun.Var:
        """The version that is updated."""
        assert isinstance(self.let.expr, fun.Update | fun.LmadUpdate)
        return self.let.expr.array

    def access(self, array: str = "", conditional: bool = False) -> Access:
        """The elements that are written."""
        dims, inner = self.dims, list[Inner]()
        for number, (extent, stride) in enumerate(self.pairs):
            (offset,) = dims
            assert isinstance(offset, Poly)
            inner.append(Inner(f"{self.name}.{number}", ZERO, extent))
            dims = (offset + Poly.var(inner[-1].name) * stride,)
        return Access(array, dims, tuple(inner), self.let.place, True, conditional)


@dataclass(frozen=True, slots=True)
class Chain:
    """The updates from an array to its last version, in order."""

    root: fun.Var
    writes: tuple[Write, ...]

    @property
    def versions(self) -> list[str]:
        return [self.root.name, *(write.name for write in self.writes)]


def chain_to(last: fun.Atom, bound: Mapping[str, fun.Let]) -> Chain | None:
    """The chain that ends with an array; `bound` are the statements of its body, by name."""
    if not isinstance(last, fun.Var) or not isinstance(last.type, fun.Array):
        return None
    writes: list[Write] = []
    while (let := bound.get(last.name)) is not None:
        match let.expr:
            case fun.Update(array, dims, value):
                writes.append(Write(let, dims, value))
            case fun.LmadUpdate(array, offset, pairs, value):
                writes.append(Write(let, (offset,), value, pairs))
            case _:
                return None
        last = array
    return Chain(last, tuple(reversed(writes)))


def bound_in(body: fun.Body) -> dict[str, fun.Let]:
    return {var.name: let for let in body.statements for var in let.pattern}


Found = fun.Atom | fun.Expr
"""What a read gives: a value that was written, or a read of something else."""


def resolved(
    expr: fun.Index | fun.Slice, chain: Chain, inner: Sequence[Inner], known: Knowledge
) -> Found | None:
    """What a read of a version gives, without that version; None where that is not known."""
    count = chain.versions.index(expr.array.name)
    dims: Dims = expr.indices if isinstance(expr, fun.Index) else expr.dims
    if isinstance(expr, fun.Index) and any(expr.boundary):
        return None if count else expr
    known = with_indices(inner, known)
    access = Access(expr.array.name, dims, (), None)
    for write in reversed(chain.writes[:count]):
        if write.dims == dims and not write.pairs:
            if isinstance(write.value, fun.Var) or isinstance(expr, fun.Index):
                return write.value if _fits(write) else None
            return None
        inside = _inside(expr, write, known)
        if inside is not None:
            return inside
        if not elements_apart(access, write.access(), known):
            return None
    if isinstance(expr, fun.Index):
        return fun.Index(chain.root, expr.indices, expr.boundary)
    return fun.Slice(chain.root, expr.dims)


def _fits(write: Write) -> bool:
    """Whether the value written has the shape of what is read: a scalar may fill a slice."""
    is_array = isinstance(write.value.type, fun.Array)
    return is_array == any(isinstance(dim, fun.Span) for dim in write.dims)


def _inside(expr: fun.Index | fun.Slice, write: Write, known: Knowledge) -> Found | None:
    """A read of one element inside of a slice that was written."""
    if not isinstance(expr, fun.Index) or write.pairs:
        return None
    indices: list[Size] = []
    for index, dim in zip(expr.indices, write.dims, strict=True):
        if not isinstance(dim, fun.Span):
            if index != dim:
                return None
            continue
        offset = index - dim.start
        if dim.step != 1 or not known.prover.nonnegative(offset):
            return None
        if not known.prover.less(offset, dim.extent):
            return None
        indices.append(offset)
    if not isinstance(write.value, fun.Var) or isinstance(write.value.type, fun.Scalar):
        return write.value
    return fun.Index(write.value, tuple(indices))


def _part_of(read: fun.Slice, written: Dims, known: Knowledge) -> Dims | None:
    """Where in a slice something was written, if it is all in there."""
    assert isinstance(read.array.type, fun.Array)
    found: list[fun.Span | Size] = []
    for dim, own, extent in zip(written, read.dims, read.array.type.shape, strict=True):
        if not isinstance(own, fun.Span):
            if isinstance(dim, fun.Span) or dim != own:
                return None
            continue
        if own.step != 1:
            return None
        here = dim - own.start if not isinstance(dim, fun.Span) else replace(
            dim, start=dim.start - own.start
        )  # fmt: skip
        whole = own.start == ZERO and own.extent == extent  # what is written is inside of an array
        if not whole and not _is_below(here, own.extent, known):
            return None
        found.append(here)
    return tuple(found)


def _is_below(dim: fun.Span | Size, extent: Size, known: Knowledge) -> bool:
    """Whether elements are from 0 on, and before an extent."""
    first = last = dim.start if isinstance(dim, fun.Span) else dim
    if isinstance(dim, fun.Span):
        if dim.step < 1:
            return False
        last = first + (dim.extent - 1) * dim.step
    return known.prover.nonnegative(first) and known.prover.less(last, extent)


class Resolver:
    """Rewrites a body so that it reads chains' roots and written values, not later versions."""

    def __init__(self, chains: Sequence[Chain], known: Knowledge, names: Names) -> None:
        self.names = names
        self.chains = {name: chain for chain in chains for name in chain.versions}
        self.updates = {write.name for chain in chains for write in chain.writes}
        self.known = known
        self.atoms: dict[str, fun.Atom] = {}

    def body(self, body: fun.Body) -> fun.Body | None:
        """The body without the chains' updates; None where a read is not understood.

        Its results that are later versions stay.
        """
        statements = self._statements(body, ())
        if statements is None:
            return None
        later = {name: self.atom(atom) for name, atom in self.atoms.items()}
        done = walk.Substitution(later).body(fun.Body(tuple(statements), ()))
        return fun.Body(done.statements, body.results)

    def atom(self, atom: fun.Atom) -> fun.Atom:
        """What stands for an atom."""
        while isinstance(atom, fun.Var) and atom.name in self.atoms:
            atom = self.atoms[atom.name]
        return atom

    def _statements(self, body: fun.Body, inner: tuple[Inner, ...]) -> list[fun.Let] | None:
        statements: list[fun.Let] = []
        for let in body.statements:
            if let.pattern[0].name in self.updates:
                continue
            expr = self._expr(let, inner)
            if expr is None:
                parts = self._in_parts(let, inner)
                if parts is None:
                    return None
                statements += parts
            elif isinstance(expr, fun.Var | fun.Const):
                self.atoms[let.pattern[0].name] = expr
            else:
                statements.append(fun.Let(let.pattern, expr, let.place))
        return statements

    def _expr(self, let: fun.Let, inner: tuple[Inner, ...]) -> Found | None:
        expr = let.expr
        if isinstance(expr, fun.Index | fun.Slice) and expr.array.name in self.chains:
            return resolved(expr, self.chains[expr.array.name], inner, self.known)
        atoms, _, _ = walk.operands(expr)
        nested = [self._nested(body, (*inner, *indices_of(expr))) for body in walk.bodies(expr)]
        if None in nested or any(map(self._is_later, atoms)):
            return None
        parts = iter(nested)

        def next_part(_: fun.Body) -> fun.Body:
            part = next(parts)
            assert part is not None
            return part

        return walk.map_bodies(expr, next_part)

    def _in_parts(self, let: fun.Let, inner: tuple[Inner, ...]) -> list[fun.Let] | None:
        """A slice of which parts were written: that of the root, with these parts."""
        read = let.expr
        chain = self.chains.get(read.array.name) if isinstance(read, fun.Slice) else None
        if chain is None or not isinstance(read, fun.Slice):
            return None
        known = with_indices(inner, self.known)
        writes = chain.writes[: chain.versions.index(read.array.name)]
        access = Access(read.array.name, read.dims, (), None)
        parts: list[tuple[Dims, fun.Atom]] = []
        for write in writes:
            if elements_apart(access, write.access(), known):
                continue
            dims = None if write.pairs else _part_of(read, write.dims, known)
            if dims is None:
                return None
            parts.append((dims, write.value))
        (var,) = let.pattern
        array = fun.Var(self.names.fresh(var.name), var.type)
        statements = [fun.Let((array,), fun.Slice(chain.root, read.dims), let.place)]
        for number, (dims, value) in enumerate(parts, 1):
            last = number == len(parts)
            part = var if last else fun.Var(self.names.fresh(var.name), var.type)
            statements.append(fun.Let((part,), fun.Update(array, dims, value), let.place))
            array = part
        return statements if parts else None

    def _nested(self, body: fun.Body, inner: tuple[Inner, ...]) -> fun.Body | None:
        statements = self._statements(body, inner)
        if statements is None or any(map(self._is_later, body.results)):
            return None
        return fun.Body(tuple(statements), body.results)

    def _is_later(self, atom: fun.Atom) -> bool:
        return isinstance(atom, fun.Var) and atom.name in self.updates
