"""join_pieces: an array put together from pieces, as one kernel over it.

    let a = kernel (i < 1) { f(v[0]) }
    let b = kernel (i < n - 1) { g(v[i], v[i + 1]) }
    let y = concat 0 (a, b)
 => let y = kernel (i < n) {
      let c = greater_equal(i, 1)
      let r = if c { g(v[i - 1], v[i]) } else { f(v[i]) }
      in r }

What a piece of one index reads at a fixed place is a read at a constant offset from that index.

Removes: concatenations of kernels, and kernels that only they use. Adds: kernels with branches.
Requires: bodies whose arrays are kernels of scalars. Ensures: the same bits.
"""

from __future__ import annotations

from collections import Counter

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, Names
from weft.fun.shift import shift
from weft.ops.dtypes import DType
from weft.sizes import ONE, ZERO, Poly, Size

_BOOL = fun.Scalar(DType.BOOL)


def join_pieces(body: fun.Body, names: Names) -> fun.Body:
    """The body with concatenations of kernels, of which nothing else uses pieces, joined."""
    made = {var.name: let for let in body.statements for var in let.pattern}
    uses = Counter(walk.uses(body))
    inner = {
        array.name
        for let in body.statements
        if isinstance(let.expr, fun.Concat)
        for array in let.expr.arrays
        if uses[array.name] == 1
    }
    gone: set[str] = set()
    statements: list[fun.Let] = []
    for let in body.statements:
        (name, *others) = [var.name for var in let.pattern] or [""]
        if isinstance(let.expr, fun.Concat) and not others and name not in inner:
            joining = _Joining(let, made, inner, names)
            if joining.pieces is not None:
                statements.append(joining.joined())
                gone |= joining.pieces
                continue
        statements.append(let)
    kept = [let for let in statements if not {var.name for var in let.pattern} <= gone]
    return fun.Body(tuple(kept), body.results)


class _Joining:
    """One concatenation that becomes a kernel."""

    def __init__(
        self, let: fun.Let, made: dict[str, fun.Let], inner: set[str], names: Names
    ) -> None:
        self.let, self.made, self.inner, self.names = let, made, inner, names
        assert isinstance(let.expr, fun.Concat)
        self.pieces = self._pieces(let.expr)
        self.top = Builder(names)
        shape = walk.type_sizes(let.pattern[0].type)
        self.space = tuple(fun.Range(self.top.index("i"), extent) for extent in shape)
        self.conditions: dict[tuple[str, int, Size], fun.Var] = {}

    def _pieces(self, concat: fun.Concat) -> set[str] | None:
        """All that is joined; None where that is more than kernels of scalars."""
        found: set[str] = set()
        for array in concat.arrays:
            let = self.made.get(array.name)
            if let is None or array.name not in self.inner:
                return None
            found.add(array.name)
            if isinstance(let.expr, fun.Concat):
                inside = self._pieces(let.expr)
                if inside is None:
                    return None
                found |= inside
            elif not isinstance(let.expr, fun.Kernel) or not all(
                isinstance(result.type, fun.Scalar) for result in let.expr.body.results
            ):
                return None
        return found

    def joined(self) -> fun.Let:
        assert isinstance(self.let.expr, fun.Concat)
        starts = (ZERO,) * len(self.space)
        body = self.top.inner()
        result = self.concat(body, self.let.expr, starts)
        # Conditions stand first: rows are split where they change.
        statements = (*self.top.statements, *body.statements)
        kernel = fun.Kernel(self.space, fun.Body(statements, (result,)))
        return fun.Let(self.let.pattern, kernel, self.let.place)

    def concat(
        self, builder: Builder, concat: fun.Concat, starts: tuple[Size, ...]
    ) -> fun.Atom:
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

    def condition(self, operation: str, axis: int, bound: Size) -> fun.Var:
        key = (operation, axis, bound)
        if key not in self.conditions:
            operands = (self.space[axis].index, self.top.scalar(bound))
            self.conditions[key] = self.top.let(fun.Apply(operation, operands), _BOOL, "c")
        return self.conditions[key]

    def element(self, builder: Builder, array: fun.Var, starts: tuple[Size, ...]) -> fun.Atom:
        """The element of a piece that begins at `starts`."""
        let = self.made[array.name]
        if isinstance(let.expr, fun.Concat):
            return self.concat(builder, let.expr, starts)
        kernel = let.expr
        assert isinstance(kernel, fun.Kernel)
        at = [Poly.var(r.index.name) for r in self.space]
        to = {
            r.index.name: here - start
            for r, here, start in zip(kernel.space, at, starts, strict=True)
        }
        number = [var.name for var in let.pattern].index(array.name)
        one = fun.Body(kernel.body.statements, (kernel.body.results[number],))
        fixed = [
            (here, start) if r.extent == ONE else None
            for r, here, start in zip(kernel.space, at, starts, strict=True)
        ]
        body = _relative(shift(one, to, self.names, self.names.fresh), fixed)
        builder.statements += body.statements
        return body.results[0]


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
