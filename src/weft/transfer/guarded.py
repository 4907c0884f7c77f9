"""Kernels that write a trapezoid of an array: what they write, and kernels over that alone.

    let y = kernel (i < n, j < n) {          let packed = kernel (t < box) {
      let w = if j < i + 1 { f(i, j) }         let i = .. t ..
              else { c[i, j] } in w }     =>   let j = .. t ..
                                               let w = f(i, j) in w }

where y comes to lie in c. `square` makes such kernels of loops over triangles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun.builder import Names
from weft.ops.dtypes import DType
from weft.plan.footprint import Reads
from weft.records import dataclass
from weft.sizes import Poly, Size
from weft.transfer.sites import Site, affine
from weft.transfer.trapezoids import Line, PackedRows, Trapezoid, trapezoid

_I64 = fun.Scalar(DType.I64)

_FIRST_LESS = {"less": (0, 1, 0), "less_equal": (0, 1, 1), "greater": (1, 0, 0),
               "greater_equal": (1, 0, 1)}  # fmt: skip
"""Comparisons as left < right + more: which argument is on which side, and the last number."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """A kernel whose results are new on a trapezoid of its space, and elsewhere elements kept.

    Attributes
    ----------
    let : Let
    kept : tuple of Index
        For each result the element that it is outside.
    row, column : int
        The dimensions of the space that the trapezoid is of.
    trapezoid : Trapezoid
    position : Var
        The index of the kernel over the trapezoid.
    """

    let: fun.Let
    kept: tuple[fun.Index, ...]
    row: int
    column: int
    trapezoid: Trapezoid
    position: fun.Var

    @property
    def space(self) -> tuple[fun.Range, ...]:
        assert isinstance(self.let.expr, fun.Kernel)
        return self.let.expr.space

    @property
    def others(self) -> tuple[fun.Range, ...]:
        """The dimensions of the space that are neither row nor column."""
        both = (self.row, self.column)
        return tuple(dim for number, dim in enumerate(self.space) if number not in both)

    def keeps(
        self, number: int, array: str, dims: Sequence[fun.Span | Size], sizes: Mapping[str, int]
    ) -> bool:
        """Whether outside a result is what lies there, if it comes to lie in a part of an array."""
        index = self.kept[number]
        if index.array.name != array:
            return False
        own = [Poly.var(dim.index.name) for dim in self.space]
        for found, dim in zip(index.indices, dims, strict=True):
            if isinstance(dim, fun.Span):
                if not own:
                    return False
                dim = dim.start + own.pop(0) * dim.step
            if affine(found - dim, sizes) != (0, {}):
                return False
        return not own

    def inside(self) -> fun.Let:
        """The kernel as if all of the space were inside."""
        kernel = self.let.expr
        assert isinstance(kernel, fun.Kernel)
        *before, choice = kernel.body.statements
        assert isinstance(choice.expr, fun.If)
        then = choice.expr.then
        body = fun.Body((*before, *then.statements), then.results)
        return replace(self.let, expr=replace(kernel, body=body))


def guarded(let: fun.Let, sizes: Mapping[str, int], names: Names) -> Guarded | None:
    """The statement, if it is such a kernel, and its trapezoid has all its columns."""
    if not isinstance(let.expr, fun.Kernel) or not let.expr.body.statements:
        return None
    kernel = _spread(let.expr, names)
    let = replace(let, expr=kernel)
    choice = kernel.body.statements[-1]
    if not isinstance(choice.expr, fun.If) or choice.pattern != kernel.body.results:
        return None
    kept = _kept(choice.expr.otherwise)
    tests = _tests(choice.expr.condition, let, sizes)
    if kept is None or tests is None:
        return None
    found = _trapezoid(tests, kernel.space, sizes)
    if found is None:
        return None
    return Guarded(let, kept, *found, fun.Var(names.fresh("t"), _I64))


def _spread(kernel: fun.Kernel, names: Names) -> fun.Kernel:
    """The kernel over all dimensions, where a branch is a kernel, and the other gives slices."""
    *before, choice = kernel.body.statements
    if not isinstance(choice.expr, fun.If) or choice.pattern != kernel.body.results:
        return kernel
    then, otherwise = choice.expr.then, choice.expr.otherwise
    inner = then.statements[0].expr if len(then.statements) == 1 else None
    if not isinstance(inner, fun.Kernel) or then.statements[0].pattern != then.results:
        return kernel
    own = {dim.index.name for dim in kernel.space} | {v.name for let in before for v in let.pattern}
    if any(dim.extent.variables() & own for dim in inner.space):
        return kernel
    kept: list[fun.Let] = []
    for let in otherwise.statements:
        if not isinstance(let.expr, fun.Slice):
            return kernel
        left = [Poly.var(dim.index.name) for dim in inner.space]
        at = tuple(
            dim.start + left.pop(0) * dim.step if isinstance(dim, fun.Span) and left else dim
            for dim in let.expr.dims
        )
        indices = tuple(size for size in at if not isinstance(size, fun.Span))
        if left or len(indices) < len(at):
            return kernel
        element = fun.Var(let.pattern[0].name, fun.Scalar(let.pattern[0].type.dtype))
        kept.append(fun.Let((element,), fun.Index(let.expr.array, indices), let.place))
    scalars = {v.name: fun.Var(v.name, fun.Scalar(v.type.dtype)) for v in choice.pattern}
    scalars |= {let.pattern[0].name: let.pattern[0] for let in kept}
    given = [scalars.get(r.name) if isinstance(r, fun.Var) else r for r in otherwise.results]
    if None in given:
        return kernel
    branch = fun.If(
        choice.expr.condition, inner.body, fun.Body(tuple(kept), tuple(g for g in given if g))
    )
    pattern = tuple(scalars[v.name] for v in choice.pattern)
    chosen = replace(choice, pattern=pattern, expr=branch)
    return fun.Kernel(
        (*kernel.space, *inner.space), fun.Body((*before, chosen), pattern)
    )


def _kept(body: fun.Body) -> tuple[fun.Index, ...] | None:
    made = {let.pattern[0].name: let.expr for let in body.statements}
    found = []
    for atom in body.results:
        expr = made.get(atom.name) if isinstance(atom, fun.Var) else None
        if not isinstance(expr, fun.Index) or expr.boundary:
            return None
        found.append(expr)
    return tuple(found)


_Test = tuple[int, dict[str, int]]
"""Constant and factors of what is less than 0 inside."""


def _tests(
    condition: fun.Atom, let: fun.Let, sizes: Mapping[str, int]
) -> list[_Test] | None:
    """A condition as comparisons of what is affine in the kernel's indices."""
    assert isinstance(let.expr, fun.Kernel)
    made = {v.name: inner.expr for inner in let.expr.body.statements for v in inner.pattern}
    own = {dim.index.name for dim in let.expr.space}
    reads = Reads(let, {})
    found: list[_Test] = []
    left = [condition]
    while left:
        atom = left.pop()
        expr = made.get(atom.name) if isinstance(atom, fun.Var) else None
        if not isinstance(expr, fun.Apply):
            return None
        if expr.operation == "logical_and":
            left += expr.arguments
            continue
        form = _FIRST_LESS.get(expr.operation)
        if form is None or any(argument.type != _I64 for argument in expr.arguments):
            return None
        sides = [_as_size(argument) for argument in expr.arguments]
        test = affine(reads.resolve(sides[form[0]] - sides[form[1]] - form[2]), sizes)
        if test is None or not test[1].keys() <= own:
            return None
        found.append(test)
    return found


def _as_size(atom: fun.Atom) -> Size:
    if isinstance(atom, fun.Const):
        return Poly.const(int(atom.value.real))
    return Poly.var(atom.name)


def _trapezoid(
    tests: Sequence[_Test], space: Sequence[fun.Range], sizes: Mapping[str, int]
) -> tuple[int, int, Trapezoid] | None:
    """The row, the column, and the trapezoid that tests leave of a space."""
    axes = {dim.index.name: number for number, dim in enumerate(space)}
    used = sorted({axes[name] for _, factors in tests for name in factors})
    if len(used) != 2:
        return None
    for row, column in (used, used[::-1]):
        names = space[row].index.name, space[column].index.name
        if any(abs(factors.get(names[1], 0)) != 1 for _, factors in tests):
            continue
        extents = space[row].extent.evaluate(sizes), space[column].extent.evaluate(sizes)
        lows: list[Line] = []
        highs: list[Line] = []
        for constant, factors in tests:
            sign, lean = factors[names[1]], factors.get(names[0], 0)
            if sign < 0:
                lows.append((constant + 1, lean))
            else:
                highs.append((-constant, -lean))
        if len(lows) > 1 or len(highs) > 1:
            return None
        low, high = (*lows, (0, 0))[0], (*highs, (extents[1], 0))[0]
        found = trapezoid(extents, low, high)
        return None if found is None else (row, column, found)
    return None


def folded(found: Guarded, number: Callable[[int], Size], names: Names) -> fun.Let:
    """The kernel over its trapezoid alone; `number`: sizes for the numbers of a launch."""
    inside, shape = found.inside(), found.trapezoid
    kernel = inside.expr
    assert isinstance(kernel, fun.Kernel)
    row, column = (Poly.var(found.space[axis].index.name) for axis in (found.row, found.column))
    made: list[fun.Let] = []

    def let(base: str, expr: fun.Expr, type_: fun.Type = _I64) -> fun.Var:
        made.append(fun.Let((fun.Var(names.fresh(base), type_),), expr))
        return made[-1].pattern[0]

    def of(var: fun.Var) -> Size:
        return Poly.var(var.name)

    width = number(shape.width)
    pair = let("pair", fun.Apply("floor_divide", (found.position, let("s", fun.SizeValue(width)))))
    along = let("along", fun.SizeValue(of(found.position) - of(pair) * width))
    length = number(shape.length) + number(shape.growth) * of(pair)
    ahead = let("s", fun.SizeValue(length))
    late = let("late", fun.Apply("less_equal", (ahead, along)), fun.Scalar(DType.BOOL))
    other = let("s", fun.SizeValue(number(shape.rows - 1) - of(pair)))
    i = let("i", fun.Apply("where", (late, other, pair)))
    before = let("before", fun.Apply("where", (late, ahead, fun.Const(0, DType.I64))))
    first, low = number(shape.first), number(shape.low) + number(shape.lean) * of(i)
    for size, value in ((row, of(i) + first), (column, of(along) - of(before) + low)):
        made.append(fun.Let((fun.Var(size.variable or "", _I64),), fun.SizeValue(value)))
    space = (*found.others, fun.Range(found.position, number(shape.count)))
    body = fun.Body((*made, *kernel.body.statements), kernel.body.results)
    extents = tuple(dim.extent for dim in space)
    pattern = tuple(fun.Var(v.name, fun.Array(v.type.dtype, extents)) for v in inside.pattern)
    return replace(inside, pattern=pattern, expr=fun.Kernel(space, body))


def packed_rows(found: Guarded, site: Site, sizes: Mapping[str, int]) -> PackedRows | None:
    """What one of its reads meets inside the trapezoid; None where elements are met again."""
    factors = {name: factor for name, (factor, _, _) in site.variables}
    axes = [dim.index.name for dim in found.space]
    if not factors.keys() <= set(axes) or not site.access.is_injective(site.variables):
        return None
    others = tuple(
        (dim.extent.evaluate(sizes), factors.get(dim.index.name, 0)) for dim in found.others
    )
    if any(extent > 1 and not step for extent, step in others):
        return None
    steps = factors.get(axes[found.row], 0), factors.get(axes[found.column], 0)
    if not all(steps):
        return None
    names = (*(dim.index.name for dim in found.others), found.position.name)
    return PackedRows(found.trapezoid, site.constant, steps, others, names)
