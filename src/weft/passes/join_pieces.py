"""join_pieces: an array put together from pieces, as one kernel over it.

    let a = kernel (i < 1) { f(v[0]) }
    let b = kernel (i < n - 1) { g(v[i], v[i + 1]) }
    let y = concat 0 (a, b)
 => let y = kernel (i < n) {
      let c = greater_equal(i, 1)
      let r = if c { g(v[i - 1], v[i]) } else { f(v[i]) }
      in r }

    let a = kernel (i < n - 2) { f(v[i], v[i + 2]) }
    let y = update v[1 for n - 2] = a
 => let y = kernel (i < n) {
      let c = greater_equal(i, 1)
      let r = if c { let d = less(i, n - 1)
                     let q = if d { f(v[i - 1], v[i + 1]) } else { v[i] } in q } else { v[i] }
      in r }

What a piece of one index reads at a fixed place is a read at a constant offset from that index.

Removes: concatenations of kernels, updates by kernels, slices and scalars, and what only they use.
Adds: kernels with branches.
Requires: bodies whose arrays are kernels of scalars. Ensures: the same bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, Names
from weft.fun.shift import shift
from weft.ops.dtypes import DType
from weft.sizes import ONE, ZERO, Poly, Size
from weft.sizes.prove import Prover

_BOOL = fun.Scalar(DType.BOOL)


def join_pieces(body: fun.Body, names: Names, prover: Prover) -> fun.Body:
    """The body with what is put together from kernels, which nothing else uses, joined.

    `prover` knows the sizes of the program: an update stays that may reach beyond its array.
    """
    made = {var.name: let for let in body.statements for var in let.pattern}
    uses = Counter(walk.uses(body))
    inner = {
        array.name for let in body.statements for array in _parts(let.expr) if uses[array.name] == 1
    }
    made |= {name: _as_kernel(made[name], made, names) for name in inner & made.keys()}
    gone: set[str] = set()
    statements: list[fun.Let] = []
    for let in body.statements:
        (name, *others) = [var.name for var in let.pattern] or [""]
        if isinstance(let.expr, fun.Concat | fun.Update) and not others and name not in inner:
            joining = _Joining(let, made, inner, names, prover)
            if joining.pieces is not None:
                statements.append(joining.joined())
                gone |= joining.pieces
                continue
        statements.append(let)
    kept = [let for let in statements if not {var.name for var in let.pattern} <= gone]
    return fun.Body(tuple(kept), body.results)


def _parts(expr: fun.Expr) -> Sequence[fun.Var]:
    """The pieces that an expression puts together, or puts into another array."""
    if isinstance(expr, fun.Concat):
        return expr.arrays
    if isinstance(expr, fun.Update) and isinstance(expr.value, fun.Var):
        return (expr.value,)
    return ()


def _as_kernel(let: fun.Let, made: Mapping[str, fun.Let], names: Names) -> fun.Let:
    """let p = copy v[0 for n, 1] => let p = kernel (i < n) { v[i, 1] }"""
    view = let.expr
    if isinstance(view, fun.Copy) and view.array.name in made:
        view = made[view.array.name].expr
    if not isinstance(view, fun.Slice):
        return let
    builder = Builder(names)
    space = tuple(
        fun.Range(builder.index(), extent) for extent in walk.type_sizes(let.pattern[0].type)
    )
    own = iter(space)
    at = tuple(
        dim.start + Poly.var(next(own).index.name) * dim.step if isinstance(dim, fun.Span) else dim
        for dim in view.dims
    )
    element = builder.let(fun.Index(view.array, at), fun.Scalar(view.array.type.dtype))
    return replace(let, expr=fun.Kernel(space, builder.body([element])))


class _Joining:
    """One concatenation, or update, that becomes a kernel."""

    def __init__(
        self, let: fun.Let, made: dict[str, fun.Let], inner: set[str], names: Names,
        prover: Prover,
    ) -> None:  # fmt: skip
        self.let, self.made, self.inner, self.names = let, made, inner, names
        self.prover = prover
        assert isinstance(let.expr, fun.Concat | fun.Update)
        self.pieces = self._pieces(let.expr)
        self.top = Builder(names)
        shape = walk.type_sizes(let.pattern[0].type)
        self.space = tuple(fun.Range(self.top.index("i"), extent) for extent in shape)
        self.conditions: dict[tuple[str, int, Size], fun.Var] = {}

    def _pieces(self, whole: fun.Concat | fun.Update) -> set[str] | None:
        """All that is joined; None where that is more than kernels of scalars."""
        found: set[str] = set()
        if isinstance(whole, fun.Update):
            if not self._is_inside(whole):
                return None
            if isinstance(whole.value.type, fun.Scalar):
                return found
        for array in _parts(whole):
            let = self.made.get(array.name)
            if let is None or array.name not in self.inner:
                return None
            found.add(array.name)
            if isinstance(let.expr, fun.Concat) and isinstance(whole, fun.Concat):
                inside = self._pieces(let.expr)
                if inside is None:
                    return None
                found |= inside
            elif not isinstance(let.expr, fun.Kernel) or not all(
                isinstance(result.type, fun.Scalar) for result in let.expr.body.results
            ):
                return None
        return found

    def _is_inside(self, update: fun.Update) -> bool:
        """Whether a part without gaps is proved to lie in its array: no check of it is lost."""
        assert isinstance(update.array.type, fun.Array)
        for dim, extent in zip(update.dims, update.array.type.shape, strict=True):
            start, end = _ends(dim)
            if isinstance(dim, fun.Span) and dim.step != 1:
                return False
            if not (self.prover.nonnegative(start) and self.prover.nonnegative(extent - end)):
                return False
        return True

    def joined(self) -> fun.Let:
        starts = (ZERO,) * len(self.space)
        body = self.top.inner()
        if isinstance(self.let.expr, fun.Update):
            result = self.update(body, self.let.expr)
        else:
            assert isinstance(self.let.expr, fun.Concat)
            result = self.concat(body, self.let.expr, starts)
        # Conditions stand first: rows are split where they change.
        statements = (*self.top.statements, *body.statements)
        kernel = fun.Kernel(self.space, fun.Body(statements, (result,)))
        return fun.Let(self.let.pattern, kernel, self.let.place)

    def concat(self, builder: Builder, concat: fun.Concat, starts: tuple[Size, ...]) -> fun.Atom:
        """The element of a concatenation that begins at `starts`."""
        first, *rest = concat.arrays
        axis = concat.axis
        if not rest:
            return self.element(builder, first, starts)
        extent = walk.type_sizes(first.type)[axis]
        bound = starts[axis] + extent
        after = (*starts[:axis], bound, *starts[axis + 1 :])
        near, far = builder.inner(), builder.inner()
        here = near.body((self.element(near, first, starts),))
        there = far.body((self.concat(far, fun.Concat(tuple(rest), axis), after),))
        # The longer side stands where the condition holds.
        if extent.is_constant:
            condition, then, otherwise = self.condition("greater_equal", axis, bound), there, here
        else:
            condition, then, otherwise = self.condition("less", axis, bound), here, there
        dtype = self.let.pattern[0].type.dtype
        return builder.let(fun.If(condition, then, otherwise), fun.Scalar(dtype), "r")

    def update(self, builder: Builder, update: fun.Update) -> fun.Atom:
        """The element of an array of which a part is written."""
        assert isinstance(update.array.type, fun.Array)
        tests: list[tuple[str, int, Size]] = []
        for axis, (dim, extent) in enumerate(
            zip(update.dims, update.array.type.shape, strict=True)
        ):
            start, end = _ends(dim)
            tests += [("greater_equal", axis, start)] if start != ZERO else []
            tests += [("less", axis, end)] if end != extent else []
        return self.tested(builder, update, tests)

    def tested(
        self, builder: Builder, update: fun.Update, tests: Sequence[tuple[str, int, Size]]
    ) -> fun.Atom:
        """What is written where the tests hold, and elsewhere what there is."""
        if not tests:
            return self.written(builder, update)
        near, far = builder.inner(), builder.inner()
        scalar = fun.Scalar(update.array.type.dtype)
        then = near.body((self.tested(near, update, tests[1:]),))
        at = tuple(Poly.var(r.index.name) for r in self.space)
        otherwise = far.body((far.let(fun.Index(update.array, at), scalar),))
        condition = self.condition(*tests[0])
        return builder.let(fun.If(condition, then, otherwise), scalar, "r")

    def written(self, builder: Builder, update: fun.Update) -> fun.Atom:
        """What an update puts at an index of its part; a scalar that is read is read there."""
        value = update.value
        if isinstance(value, fun.Var) and isinstance(value.type, fun.Array):
            points = [axis for axis, d in enumerate(update.dims) if not isinstance(d, fun.Span)]
            starts = tuple(_ends(dim)[0] for dim in update.dims)
            return self.element(builder, value, starts, points)
        let = self.made.get(value.name) if isinstance(value, fun.Var) else None
        if let is not None and isinstance(let.expr, fun.Index):
            return builder.let(let.expr, value.type)
        return value

    def condition(self, operation: str, axis: int, bound: Size) -> fun.Var:
        key = (operation, axis, bound)
        if key not in self.conditions:
            operands = (self.space[axis].index, self.top.scalar(bound))
            self.conditions[key] = self.top.let(fun.Apply(operation, operands), _BOOL, "c")
        return self.conditions[key]

    def element(
        self, builder: Builder, array: fun.Var, starts: tuple[Size, ...],
        points: Sequence[int] = (),
    ) -> fun.Atom:  # fmt: skip
        """The element of a piece that begins at `starts`, and has no dimensions for `points`."""
        let = self.made[array.name]
        if isinstance(let.expr, fun.Concat):
            return self.concat(builder, let.expr, starts)
        kernel = let.expr
        assert isinstance(kernel, fun.Kernel)
        places = [
            (Poly.var(r.index.name), start) for r, start in zip(self.space, starts, strict=True)
        ]
        own = [place for axis, place in enumerate(places) if axis not in points]
        to = {
            r.index.name: here - start for r, (here, start) in zip(kernel.space, own, strict=True)
        }
        number = [var.name for var in let.pattern].index(array.name)
        one = fun.Body(kernel.body.statements, (kernel.body.results[number],))
        single = [place for r, place in zip(kernel.space, own, strict=True) if r.extent == ONE]
        single += [places[axis] for axis in points]
        fixed = [place if place in single else None for place in places]
        body = _relative(shift(one, to, self.names, self.names.fresh), fixed)
        builder.statements += body.statements
        return body.results[0]


def _ends(dim: fun.Span | Size) -> tuple[Size, Size]:
    """The first index of a part, and the one after its last."""
    if isinstance(dim, fun.Span):
        return dim.start, dim.start + dim.extent
    return dim, dim + 1


def _relative(body: fun.Body, fixed: list[tuple[Poly, Size] | None]) -> fun.Body:
    """Reads with an index that is known to be `start` in terms of that index.

    v[0, j]  =>  v[i, j]    (where i is 0)
    """

    def read(expr: fun.Index) -> fun.Index:
        if len(expr.indices) != len(fixed):
            return expr
        indices = []
        for index, known in zip(expr.indices, fixed, strict=True):
            offset = None if known is None else index - known[1]
            near = known is not None and offset is not None and offset.is_constant
            indices.append(known[0] + offset if near and known and offset is not None else index)
        return fun.Index(expr.array, tuple(indices), expr.boundary)

    def inside(body: fun.Body) -> fun.Body:
        return fun.Body(tuple(map(statement, body.statements)), body.results)

    def statement(let: fun.Let) -> fun.Let:
        expr = walk.map_bodies(let.expr, inside)
        return fun.Let(let.pattern, read(expr) if isinstance(expr, fun.Index) else expr, let.place)

    return inside(body)
