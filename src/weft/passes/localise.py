"""localise: a loop that keeps to one part of an array carries that part alone.

    let y = loop (x1 = x0) for k from 0 to n {       let p = x0[i]
      let r = x1[i]                                  let q = loop (p1 = p) for k from 0 to n {
      let s = add(r, a[k])                     =>      let s = add(p1, a[k])
      let x2 = update x1[i] = s                        in s }
      in x2 }                                        let y = update x0[i] = q

Removes: dimensions of arrays that a loop carries, at which all accesses have one index, which
    is bound outside of the loop. Where that are all dimensions, the loop carries a scalar.
Adds: a read before the loop, and an update after it.
Requires: that the part is inside of the array, and that what else the loop reads of the array
    is apart from it, which are proved.
Ensures: the same values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.passes.branch_writes import is_inside, read_of, slice_type
from weft.passes.dependence import Access, Dims, Inner, elements_apart, indices_of
from weft.passes.knowledge import Knowledge
from weft.records import dataclass
from weft.sizes import ZERO, Poly, Size, as_poly


def localise(let: fun.Let, names: Names, known: Knowledge, wholly: bool) -> list[fun.Let] | None:
    """The statements for a loop that keeps to a part of an array; None where none does.

    Parameters
    ----------
    wholly : bool
        Only where the part is one element.
    """
    assert isinstance(let.expr, fun.Loop)
    inside = set(_bound(let.expr))
    for number, param in enumerate(let.expr.params):
        if not isinstance(param.type, fun.Array):
            continue
        uses = _Uses({param.name})
        carried = [other is param for other in let.expr.params]
        if not uses.loop(let.expr, carried, indices_of(let.expr)) or not uses.accesses:
            continue
        written = [access.dims for access in uses.accesses if access.written]
        fixed = _fixed(written or [access.dims for access in uses.accesses], inside)
        if not fixed or (wholly and len(fixed) < len(param.type.shape)):
            continue
        dims: Dims = tuple(
            fixed.get(axis, fun.Span(ZERO, extent)) for axis, extent in enumerate(param.type.shape)
        )
        array = let.expr.initial[number]
        assert isinstance(array, fun.Var)
        if is_inside(dims, array, known) and uses.are_in_or_apart(dims, fixed, known):
            return _localised(let, number, uses.versions, dims, names)
    return None


def _bound(expr: fun.Expr) -> Iterator[str]:
    """Every name that is bound inside of an expression."""
    yield from (var.name for var in walk.operands(expr)[2])
    for body in walk.bodies(expr):
        for let in body.statements:
            yield from (var.name for var in let.pattern)
            yield from _bound(let.expr)


def _fixed(accesses: list[Dims], inside: set[str]) -> dict[int, Size]:
    """The axes at which all accesses have one index from outside, and that index."""
    found: dict[int, Size] = {}
    for axis, dim in enumerate(accesses[0]):
        if (
            not isinstance(dim, fun.Span)
            and not dim.variables() & inside
            and all(access[axis] == dim for access in accesses)
        ):
            found[axis] = dim
    return found


def _is_at(dims: Dims, fixed: Mapping[int, Size]) -> bool:
    return all(dims[axis] == index for axis, index in fixed.items())


@dataclass(slots=True)
class _Uses:
    """The versions of an array in a loop's body, and how they are accessed."""

    versions: set[str]
    accesses: list[Access] = field(default_factory=list)

    def are_in_or_apart(self, part: Dims, fixed: Mapping[int, Size], known: Knowledge) -> bool:
        """Whether each access is to the part, or proved to be to other elements."""
        whole = Access("", part, (), None)
        return all(
            _is_at(access.dims, fixed) or elements_apart(access, whole, known)
            for access in self.accesses
        )

    def of(self, body: fun.Body, inner: tuple[Inner, ...]) -> bool:
        """Take in a body; False where a version is used in another way."""
        return all(self._let(let, inner) for let in body.statements)

    def loop(self, loop: fun.Loop, carried: list[bool], inner: tuple[Inner, ...]) -> bool:
        """Take in a loop; False also where a version is carried on as what is none, or back."""
        if isinstance(loop.form, fun.While) and not self.of(loop.form.condition, inner):
            return False
        if not self.of(loop.body, inner):
            return False
        return carried == [self._is_version(result) for result in loop.body.results]

    def _is_version(self, atom: fun.Atom) -> bool:
        return isinstance(atom, fun.Var) and atom.name in self.versions

    def _add(self, dims: Dims, inner: tuple[Inner, ...], written: bool = False) -> None:
        self.accesses.append(Access("", dims, inner, None, written))

    def _let(self, let: fun.Let, inner: tuple[Inner, ...]) -> bool:
        expr = let.expr
        own = (*inner, *indices_of(expr))
        match expr:
            case fun.Index(array, indices, boundary) if self._is_version(array):
                self._add(indices, inner)
                return not any(boundary)
            case fun.Slice(array, dims) if self._is_version(array):
                self._add(dims, inner)
                return True
            case fun.Update(array, dims, value) if self._is_version(array):
                self._add(dims, inner, written=True)
                self.versions.add(let.pattern[0].name)
                return not self._is_version(value)
            case fun.Loop(params, initial):
                carried = [self._is_version(atom) for atom in initial]
                for param, var, is_one in zip(params, let.pattern, carried, strict=True):
                    if is_one:
                        self.versions |= {param.name, var.name}
                return self.loop(expr, carried, own)
            case fun.If(_, then, otherwise):
                if not (self.of(then, inner) and self.of(otherwise, inner)):
                    return False
                return all(
                    self._same_side(var, results)
                    for var, *results in zip(
                        let.pattern, then.results, otherwise.results, strict=True
                    )
                )
        if any(map(self._is_version, walk.operands(expr)[0])):
            return False
        return all(
            self.of(body, own) and not any(map(self._is_version, body.results))
            for body in walk.bodies(expr)
        )

    def _same_side(self, var: fun.Var, results: list[fun.Atom]) -> bool:
        """Whether both or none of a conditional's results are versions."""
        both = [self._is_version(result) for result in results]
        if any(both):
            self.versions.add(var.name)
        return all(both) or not any(both)


def _localised(
    let: fun.Let, number: int, versions: set[str], dims: Dims, names: Names
) -> list[fun.Let]:
    assert isinstance(let.expr, fun.Loop)
    array, result = let.expr.initial[number], let.pattern[number]
    assert isinstance(array, fun.Var)
    part_type = slice_type(array, dims)
    part, after = (fun.Var(names.fresh("p"), part_type) for _ in range(2))
    rewrite = _Rewrite(versions, dims, part_type, array)
    initial = (*let.expr.initial[:number], part, *let.expr.initial[number + 1 :])
    expr = walk.map_expr(replace(let.expr, initial=initial), rewrite.mapper)
    pattern = (*let.pattern[:number], after, *let.pattern[number + 1 :])
    return [
        fun.Let((part,), read_of(array, dims), let.place),
        fun.Let(pattern, expr, let.place),
        fun.Let((result,), fun.Update(array, dims, after), let.place),
    ]


def _dims_of(expr: fun.Index | fun.Slice | fun.Update) -> Dims:
    return expr.indices if isinstance(expr, fun.Index) else expr.dims


class _Rewrite:
    """Accesses to an array as accesses to its part."""

    def __init__(self, versions: set[str], dims: Dims, type_: fun.Type, array: fun.Var) -> None:
        self.versions = versions
        self.fixed = {a: dim for a, dim in enumerate(dims) if not isinstance(dim, fun.Span)}
        self.array = array  # before the loop: what else is read, is read of it
        self.kept = [axis for axis, dim in enumerate(dims) if isinstance(dim, fun.Span)]
        self.type = type_
        self.atoms: dict[str, fun.Atom] = {}
        self.sizes: dict[str, Size] = {}
        self.mapper = walk.Mapper(self.atom, self.size, self.body, self.binder)

    def atom(self, atom: fun.Atom) -> fun.Atom:
        if isinstance(atom, fun.Const):
            return atom
        if atom.name in self.atoms:
            return self.atoms[atom.name]
        return fun.Var(atom.name, self.type) if atom.name in self.versions else atom

    def size(self, size: Size) -> Size:
        return size.substitute(self.sizes) if self.sizes else size

    def binder(self, var: fun.Var) -> fun.Var:
        return fun.Var(var.name, self.type) if var.name in self.versions else var

    def body(self, body: fun.Body) -> fun.Body:
        statements: list[fun.Let] = []
        for let in body.statements:
            expr = self._expr(let.expr)
            if isinstance(expr, fun.Var | fun.Const):
                self._alias(let.pattern[0], expr)
            else:
                pattern = tuple(map(self.binder, let.pattern))
                statements.append(fun.Let(pattern, expr, let.place))
        return fun.Body(tuple(statements), tuple(map(self.atom, body.results)))

    def _expr(self, expr: fun.Expr) -> fun.Expr | fun.Atom:
        if isinstance(expr, fun.Index | fun.Slice | fun.Update) and (
            expr.array.name in self.versions
        ):
            if not _is_at(_dims_of(expr), self.fixed):
                return walk.map_expr(replace(expr, array=self.array), self.mapper)
            array = self.atom(expr.array)
            value = self.atom(expr.value) if isinstance(expr, fun.Update) else array
            if not self.kept:
                return value
            assert isinstance(array, fun.Var)
            if isinstance(expr, fun.Index):
                return fun.Index(array, tuple(self.size(expr.indices[a]) for a in self.kept))
            dims = tuple(self._dim(expr.dims[axis]) for axis in self.kept)
            if isinstance(expr, fun.Update):
                return fun.Update(array, dims, value)
            return fun.Slice(array, dims)
        return walk.map_expr(expr, self.mapper)

    def _dim(self, dim: fun.Span | Size) -> fun.Span | Size:
        if isinstance(dim, fun.Span):
            return fun.Span(self.size(dim.start), self.size(dim.extent), dim.step)
        return self.size(dim)

    def _alias(self, var: fun.Var, atom: fun.Atom) -> None:
        self.atoms[var.name] = atom
        if isinstance(atom, fun.Var):
            self.sizes[var.name] = self.size(Poly.var(atom.name))
        elif isinstance(atom.value, int):
            self.sizes[var.name] = as_poly(atom.value)
