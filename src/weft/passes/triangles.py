"""triangles: loops that fill a triangle of a square, and its mirror image, as one kernel.

    let y = loop (x1 = x) for k from 0 to n - 1 {       let s = kernel (i < n, j < n) { f(i, j) }
      let v = reduce (j < n - k - 1; l < m) {           let y = kernel (i < n, j < n) {
        f(k, k + 1 + j) } with add                        let old = x[i, j]
      let x2 = update x1[k, k + 1 : n] = v           =>   let a = where(i + 1 <= j, s[i, j], old)
      let x3 = update x2[k + 1 : n, k] = v                in where(j + 1 <= i, s[j, i], a) }
      in x3 }

The square `s` is twice the work of its triangle: it is for `products`, which takes it where it is
a product of the library's. Rounds write rows and columns, of which no two but of one round have
an element in common, since both begin at the diagonal or beyond it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, Names
from weft.ops.dtypes import DType
from weft.passes.knowledge import Knowledge
from weft.passes.versions import bound_in, chain_to
from weft.records import dataclass
from weft.sizes import ZERO, Poly, Size

_SCALARS = (fun.Apply, fun.Cast, fun.SizeValue)


@dataclass(frozen=True, slots=True)
class Triangle:
    """What a loop fills.

    Attributes
    ----------
    square : fun.Let
        The values, for all rows and columns.
    old : fun.Var
        The array before the loop.
    offset : int
        The first column of row k is k + offset.
    mirrored : tuple of bool
        For each update of a round, in order, whether it is of a column.
    """

    square: fun.Let
    old: fun.Var
    offset: int
    mirrored: tuple[bool, ...]

    def filled(self, result: fun.Var, names: Names, place: Place | None) -> fun.Let:
        """The array after the loop."""
        (square,) = self.square.pattern
        assert isinstance(self.square.expr, fun.Kernel)
        builder = Builder(names)
        row, column = builder.index(), builder.index()
        extents = [r.extent for r in self.square.expr.space]
        space = tuple(fun.Range(i, e) for i, e in zip((row, column), extents, strict=True))
        scalar, truth = fun.Scalar(square.type.dtype), fun.Scalar(DType.BOOL)
        i, j = Poly.var(row.name), Poly.var(column.name)
        value: fun.Atom = builder.let(fun.Index(self.old, (i, j)), scalar)
        for mirrored in self.mirrored:
            first, last = (j, i) if mirrored else (i, j)
            new = builder.let(fun.Index(square, (first, last)), scalar)
            ends = builder.scalar(first + self.offset), builder.scalar(last)
            inside = builder.let(fun.Apply("less_equal", ends), truth)
            value = builder.let(fun.Apply("where", (inside, new, value)), scalar)
        return fun.Let((result,), fun.Kernel(space, builder.body([value])), place)


def triangle(let: fun.Let, names: Names, known: Knowledge) -> Triangle | None:
    """What a statement fills, where it is such a loop."""
    loop = let.expr
    if not isinstance(loop, fun.Loop) or not isinstance(loop.form, fun.For):
        return None
    chain = chain_to(loop.body.results[0], bound_in(loop.body)) if len(loop.params) == 1 else None
    if chain is None or chain.root != loop.params[0] or not 1 <= len(chain.writes) <= 2:
        return None
    assert isinstance(chain.root.type, fun.Array)
    if len(chain.root.type.shape) != 2 or loop.form.lower != ZERO:
        return None
    extent, other = chain.root.type.shape
    found = _Rounds(loop.form.index, extent)
    offsets = {found.offset(write.dims) for write in chain.writes}
    offset = offsets.pop()
    left = loop.form.upper - extent
    if offset is None or offsets or len({write.value for write in chain.writes}) > 1:
        return None
    if not (known.equal(extent, other) and known.nonnegative(left + offset)):
        return None
    versions = set(chain.versions)
    statements = [s for s in loop.body.statements if s.pattern[0].name not in versions]
    if any(versions & walk.used_names(s.expr) for s in statements):
        return None
    square = found.square(statements, chain.writes[0].value, offset, names, known)
    (old,) = loop.initial
    if square is None or not known.nonnegative(-left) or not isinstance(old, fun.Var):
        return None
    mirrored = tuple(isinstance(write.dims[0], fun.Span) for write in chain.writes)
    return Triangle(replace(square, place=let.place), old, offset, mirrored)


@dataclass(frozen=True, slots=True)
class _Rounds:
    """The rounds of a loop over the rows of a square of an extent."""

    index: fun.Var
    extent: Size

    def offset(self, dims: Sequence[fun.Span | Size]) -> int | None:
        """How far beyond the diagonal a part of a row, or of a column, begins; it ends the line."""
        row = Poly.var(self.index.name)
        spans = [dim for dim in dims if isinstance(dim, fun.Span)]
        if len(spans) != 1 or not any(dim == row for dim in dims):
            return None
        (span,) = spans
        offset = span.start - row
        if span.step != 1 or not offset.is_constant or offset.constant < 0:
            return None
        return offset.constant if span.extent == self.extent - span.start else None

    def square(
        self, statements: Sequence[fun.Let], value: fun.Atom, offset: int, names: Names,
        known: Knowledge,
    ) -> fun.Let | None:  # fmt: skip
        """The values of all rounds, one scalar at a row and a column."""
        if not isinstance(value, fun.Var):
            return None
        row, column = (fun.Var(names.fresh("i"), self.index.type) for _ in range(2))
        i, j = Poly.var(row.name), Poly.var(column.name)
        known = known.index(row.name, self.extent).index(column.name, self.extent)
        made = walk.Substitution({self.index.name: row})
        inside: list[fun.Let] = []
        for let in statements:
            if isinstance(let.expr, _SCALARS):
                inside.append(made.let(let))
                continue
            found = _element(let, j - i - offset, made)
            if found is None or not _within(found, known):
                return None
            inside += found
        scalar = made.atom(value)
        if not isinstance(scalar.type, fun.Scalar):
            return None
        space = (fun.Range(row, self.extent), fun.Range(column, self.extent))
        type_ = fun.Array(scalar.type.dtype, (self.extent, self.extent))
        kernel = fun.Kernel(space, fun.Body(tuple(inside), (scalar,)))
        return fun.Let((fun.Var(names.fresh("square"), type_),), kernel)


def _element(let: fun.Let, at: Size, made: walk.Substitution) -> list[fun.Let] | None:
    """One element of a vector that a round makes, which `made` then puts in its place."""
    expr = let.expr
    if not isinstance(expr, fun.Kernel | fun.Reduce):
        return None
    kept = expr.space if isinstance(expr, fun.Kernel) else expr.space[: -expr.reduced]
    if len(kept) != 1 or kept[0].index.name in _atoms(expr.body):
        return None
    made.sizes[kept[0].index.name] = at
    elements = [fun.Var(v.name, fun.Scalar(v.type.dtype)) for v in let.pattern]
    if isinstance(expr, fun.Reduce):
        reduced = replace(expr, space=expr.space[-expr.reduced :])
        done = [fun.Let(tuple(elements), made.expr(reduced), let.place)]
        results: Sequence[fun.Atom] = elements
    else:
        done = []
        for inner in expr.body.statements:
            read = inner.expr
            if isinstance(read, fun.Index) and read.array.name in made.atoms:
                if read.indices != (Poly.var(kept[0].index.name),):
                    return None
                made.bind(inner.pattern[0].name, made.atoms[read.array.name])
            else:
                done.append(made.let(inner))
        results = [made.atom(atom) for atom in expr.body.results]
    for var, result in zip(let.pattern, results, strict=True):
        made.bind(var.name, result)
    return done


def _atoms(body: fun.Body) -> set[str]:
    """The variables that are operands, not only parts of indices."""
    found = {atom.name for atom in body.results if isinstance(atom, fun.Var)}
    for let in walk.statements(body):
        atoms, _, _ = walk.operands(let.expr)
        found |= {atom.name for atom in atoms if isinstance(atom, fun.Var)}
    return found


def _within(statements: Sequence[fun.Let], known: Knowledge) -> bool:
    """Whether what is read of arrays is there in all of the square."""
    for let in statements:
        if isinstance(let.expr, fun.Reduce):
            for r in let.expr.space:
                known = known.index(r.index.name, r.extent)
        for inner in (let, *(s for body in walk.bodies(let.expr) for s in walk.statements(body))):
            if not isinstance(inner.expr, fun.Index):
                continue
            assert isinstance(inner.expr.array.type, fun.Array)
            for index, extent in zip(inner.expr.indices, inner.expr.array.type.shape, strict=True):
                if not (known.nonnegative(index) and known.nonnegative(extent - 1 - index)):
                    return False
    return True
