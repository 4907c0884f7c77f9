"""fission: one operator as two, over the two parts of its index space, joined again.

    let y = kernel(i < n) { f(x[i]) }
 => let a = kernel(i < h) { f(x[i]) }
    let b = kernel(i < n - h) { f(x[h + i]) }
    let y = concat[0](a, b)

A rewrite system: each rule takes one statement (or array parameter) and one axis, and any
sequence of applications leaves the program's meaning. The rules are those of Svensson et
al., *Converting Data-Parallelism to Task-Parallelism by Rewrites* (2015), figure 2, with the
parts cut anywhere instead of in the middle:

====================================  =====================================================
theirs                                here
====================================  =====================================================
use                                   an array parameter: two slices of it
generate, map, zipWith, backpermute   `Kernel` (and so stencils: reads keep their boundaries)
fold, outer axis                      `Reduce` along a kept axis
fold, inner axis                      `Reduce` along a reduced axis, operators between
permute                               `Scatter`: the second part into what the first gave
reshape, slice, replicate             `Reshape`, `Slice` and `LmadSlice`, `Broadcast`
(none)                                `Permute`, `Copy`, `Concat`, `Update`, `LmadUpdate`
(none)                                `Scan` along a kept axis; along its own, where the
                                      second part begins with the first one's total
====================================  =====================================================

Along any axis, but where what is combined would be exchanged: of the axes that a reduction
combines, and of a scatter's, a later one interleaves the parts, so that the operator has to
commute (a scatter without one has its last index win). A join is divided along its own axis
by its arrays, of which the cut may divide one.

Reads are shifted, and layout changes stay views, so that no split copies anything. The
pass stands after fusion: a fused kernel is split whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.errors import InternalError
from weft.fun import nodes as fun
from weft.fun import operators, walk
from weft.fun.builder import Builder, Names, derive
from weft.fun.shift import shift
from weft.ops.dtypes import DType
from weft.passes.fission_layouts import part_of_layout, part_of_update, slice_of
from weft.records import dataclass
from weft.sizes import ONE, ZERO, Poly, Size, as_poly
from weft.sizes.facts import SizeOperation

_LAYOUTS = (*fun.LAYOUT_CHANGES, fun.Copy, fun.Concat)
_OPERATIONS = {"floordiv": "floor_divide", "min": "minimum"}


@dataclass(frozen=True, slots=True)
class Split:
    """Where a rule applies.

    Attributes
    ----------
    target : str
        The first variable of the statement that is split, or an array parameter.
    axis : int
        Of the statement's index space, or of its result, or of the array that it writes.
    extent : Size
        Of that axis.
    """

    target: str
    axis: int
    extent: Size


def splits(program: fun.Program) -> tuple[Split, ...]:
    """Every place where a rule applies to the program (see `fission`).

    Statements of the program's body, and of the bodies of its loops and branches; axes of
    which it is known that they have less than two elements are left out.
    """
    whole = _used_whole(program.body)
    found = [
        Split(param.name, axis, extent)
        for param in program.params
        if isinstance(param.type, fun.Array) and param.name in whole
        for axis, extent in enumerate(param.type.shape)
    ]
    for let in walk.sequential(program.body):
        found += [Split(let.pattern[0].name, axis, e) for axis, e in _axes(let)]
    return tuple(s for s in found if not (s.extent.is_constant and s.extent.constant < 2))


def fission(program: fun.Program, split: Split, at: Size | None = None) -> fun.Program:
    """The program with one statement (or parameter) in two parts.

    Removes the statement. Adds two like it, over the elements before and from `at` on, and
    what joins their results. Requires a place that `splits` gives. Ensures the same meaning
    (floats: within rounding, where a reduction or a scan is cut along its own axis).

    Parameters
    ----------
    at : Size, optional
        The first element of the second part, at least 0 and at most the extent. If not given,
        the middle, rounded down; of a join along its own axis, where an array in its middle ends.

    Raises
    ------
    InternalError
        Where no rule applies at the place.
    """
    return _Fission(program, split, at).program


def _used_whole(body: fun.Body) -> set[str]:
    """Names that are used other than by slices, which is what a parameter's parts are."""
    used = {a.name for a in body.results if isinstance(a, fun.Var)}
    for let in body.statements:
        if not isinstance(let.expr, fun.Slice):
            used |= walk.used_names(let.expr)
    return used


def _axes(let: fun.Let) -> list[tuple[int, Size]]:
    """The axes along which a rule splits a statement, with their extents."""
    match let.expr:
        case fun.Kernel(space) | fun.Scan(space):
            return _extents(space, len(space))
        case fun.Reduce(space, reduced, operator=operator, counter=False):
            kept = len(space) - reduced
            return _extents(space, kept, in_order=not operators.is_commutative(operator))
        case fun.Scatter(_, space, operator=operator):
            # Values come one after another: what commutes need not be associative, but these are.
            free = operator is not None and operators.is_componentwise(operator)
            return _extents(space, 0, in_order=not free)
        case fun.Update(_, dims):
            spans = [dim.extent for dim in dims if isinstance(dim, fun.Span)]
            return list(enumerate(spans))
        case fun.LmadUpdate(_, _, lmad_dims):
            return list(enumerate(extent for extent, _ in lmad_dims))
        case fun.Concat(arrays, joined):
            # Along its own axis two arrays are two parts.
            shape = walk.type_sizes(let.pattern[0].type)
            return [(axis, e) for axis, e in enumerate(shape) if axis != joined or len(arrays) > 2]
        case expr if isinstance(expr, _LAYOUTS):
            return list(enumerate(walk.type_sizes(let.pattern[0].type)))
        case _:
            return []


def _extents(
    space: Sequence[fun.Range], kept: int, in_order: bool = False
) -> list[tuple[int, Size]]:
    """Axes of a space, with their extents; of those not kept, if `in_order`, the outermost."""
    found = [(axis, r.extent) for axis, r in enumerate(space)]
    if not in_order:
        return found
    outermost = next((a for a, e in found[kept:] if e != ONE), len(space) - 1)
    return found[: outermost + 1]


class _Fission:
    def __init__(self, program: fun.Program, split: Split, at: Size | None) -> None:
        self.names = Names.of(program)
        self.derived = list(program.derived)
        self.split = split
        self.at = at
        self.sizes = {*program.sizes, *(derived.name for derived in program.derived)}
        self.top = Builder(self.names)
        if any(param.name == split.target for param in program.params):
            body = self.parameter(program)
        else:
            found = self.body(program.body)
            if found is None:
                raise InternalError(f"fission: there is nothing to split at {split.target}")
            body = found
        self.program = replace(program, body=body, derived=tuple(self.derived))

    # ------------------------------------------------------------ finding the place

    def parameter(self, program: fun.Program) -> fun.Body:
        """x => concat(x[:h], x[h:])"""
        param = next(p for p in program.params if p.name == self.split.target)
        assert isinstance(param.type, fun.Array)
        axis = self.split.axis
        parts = [slice_of(self.top, param, axis, *part) for part in self.parts()]
        joined = self.top.let(fun.Concat(tuple(parts), axis), param.type, param.name)
        rest = walk.Substitution({param.name: joined}).body(program.body)
        return fun.Body((*self.top.statements, *rest.statements), rest.results)

    def body(self, body: fun.Body) -> fun.Body | None:
        """The body with the target split; None where the target is not in it."""
        for position, let in enumerate(body.statements):
            before, after = body.statements[:position], body.statements[position + 1 :]
            if let.pattern[0].name == self.split.target:
                self.top.place = let.place
                renamed = self.statement(let)
                rest = fun.Body(after, body.results)
                if renamed:
                    rest = walk.Substitution(renamed).body(rest)
                statements = (*before, *self.top.statements, *rest.statements)
                return fun.Body(statements, rest.results)
            if isinstance(let.expr, fun.If | fun.Loop):
                expr = walk.map_bodies(let.expr, lambda inner: self.body(inner) or inner)
                if self.top.statements:
                    new = fun.Let(let.pattern, expr, let.place)
                    return fun.Body((*before, new, *after), body.results)
        return None

    def parts(self) -> list[tuple[Size, Size]]:
        """Start and extent of the two parts."""
        extent = self.split.extent
        at = self.size("floordiv", extent, as_poly(2), "half") if self.at is None else self.at
        return [(ZERO, at), (at, extent - at)]

    def size(self, operation: SizeOperation, left: Size, right: Size, base: str) -> Size:
        """A size of others: known at launch where these are, else computed in the program."""
        if left.variables() | right.variables() <= self.sizes:
            found = derive(self.derived, self.names, operation, left, right, base)
            self.sizes |= found.variables()
            return found
        operands = self.top.scalar(left), self.top.scalar(right)
        apply = fun.Apply(_OPERATIONS[operation], operands)
        return Poly.var(self.top.let(apply, fun.Scalar(DType.I64), base).name)

    # ------------------------------------------------------------ the rules

    def statement(self, let: fun.Let) -> dict[str, fun.Atom]:
        """Emit the two parts and what joins them; variables that others now stand for."""
        expr, axis = let.expr, self.split.axis
        match expr:
            case fun.Kernel():
                self.join(let, [self.part(let, expr, *part) for part in self.parts()])
            case fun.Reduce():
                halves = [self.part(let, expr, *part) for part in self.parts()]
                if axis < len(walk.kept(expr)):
                    self.join(let, halves)
                else:
                    return self.combine(let, expr, halves)
            case fun.Scan():
                if axis < len(walk.kept(expr)):
                    self.join(let, [self.part(let, expr, *part) for part in self.parts()])
                else:
                    self.continued(let, expr)
            case fun.Scatter():
                self.scattered(let, expr)
            case fun.Update() | fun.LmadUpdate():
                array: fun.Var = expr.array
                for part in self.parts():
                    expr = replace(expr, array=array)
                    update = part_of_update(self.top, expr, axis, *part)
                    array = self.top.let(update, array.type, let.pattern[0].name)
                return {let.pattern[0].name: array}
            case fun.Concat(arrays, joined) if axis == joined:
                self.join(let, [(self.joined(part),) for part in self.divided(arrays)])
            case _ if isinstance(expr, _LAYOUTS):
                type_ = let.pattern[0].type
                assert isinstance(type_, fun.Array)
                views = [part_of_layout(self.top, expr, type_, axis, *p) for p in self.parts()]
                self.join(let, [(view,) for view in views])
            case _:
                raise InternalError(f"fission: no rule splits {type(expr).__name__}")
        return {}

    def part(
        self, let: fun.Let, expr: fun.Kernel | fun.Reduce | fun.Scan, start: Size, extent: Size
    ) -> tuple[fun.Var, ...]:
        """The same operator over `extent` indices of the axis, from `start` on."""
        axis = self.split.axis
        space, body = self.shifted(expr.space, expr.body, axis, start, extent)
        new: fun.Expr
        match expr:
            case fun.Kernel():
                new = fun.Kernel(space, body)
            case fun.Reduce() | fun.Scan():
                new = replace(expr, space=space, body=body, operator=self.copied(expr.operator))
        types = [var.type for var in let.pattern]
        if not isinstance(expr, fun.Reduce) or axis < len(walk.kept(expr)):
            types = [_resized(type_, axis, extent) for type_ in types]
        return self.top.bind(new, tuple(types), let.pattern[0].name)

    def shifted(
        self, space: tuple[fun.Range, ...], body: fun.Body, axis: int, start: Size, extent: Size
    ) -> tuple[tuple[fun.Range, ...], fun.Body]:
        indices = [self.top.index() for _ in space]
        to = {
            old.index.name: Poly.var(new.name) + (start if d == axis else 0)
            for d, (old, new) in enumerate(zip(space, indices, strict=True))
        }
        extents = [extent if d == axis else r.extent for d, r in enumerate(space)]
        ranges = tuple(fun.Range(i, e) for i, e in zip(indices, extents, strict=True))
        return ranges, shift(body, to, self.names, self.names.fresh)

    def copied(self, function: fun.Lambda) -> fun.Lambda:
        return walk.Substitution(fresh=self.names.fresh).function(function)

    def join(self, let: fun.Let, halves: Sequence[tuple[fun.Var, ...]]) -> None:
        """Each result is its parts, one after another."""
        for number, var in enumerate(let.pattern):
            parts = tuple(half[number] for half in halves)
            self.top.statements.append(
                fun.Let((var,), fun.Concat(parts, self.split.axis), let.place)
            )

    def combine(
        self, let: fun.Let, expr: fun.Reduce, halves: Sequence[tuple[fun.Var, ...]]
    ) -> dict[str, fun.Atom]:
        """reduce(x) => operator(reduce(x[:h]), reduce(x[h:]))"""
        kept = walk.kept(expr)
        if not kept:
            results = self.applied(self.top, expr.operator, [v for half in halves for v in half])
            return {var.name: atom for var, atom in zip(let.pattern, results, strict=True)}
        inner = self.top.inner()
        space = tuple(fun.Range(self.top.index(), r.extent) for r in kept)
        indices = tuple(Poly.var(r.index.name) for r in space)
        values = [
            inner.let(fun.Index(part, indices), fun.Scalar(part.type.dtype))
            for half in halves
            for part in half
        ]
        results = self.applied(inner, expr.operator, values)
        self.top.statements.append(
            fun.Let(let.pattern, fun.Kernel(space, inner.body(results)), let.place)
        )
        return {}

    def applied(
        self, builder: Builder, function: fun.Lambda, arguments: Sequence[fun.Atom]
    ) -> tuple[fun.Atom, ...]:
        """The results of a function, its statements emitted."""
        names = [param.name for param in function.params]
        copy = walk.Substitution(dict(zip(names, arguments, strict=True)), fresh=self.names.fresh)
        body = copy.body(function.body)
        builder.statements += body.statements
        return body.results

    # ------------------------------------------------------------ joins

    def divided(self, arrays: Sequence[fun.Var]) -> list[list[fun.Var]]:
        """What a join has before the cut and after it, at least one array each."""
        axis, at = self.split.axis, self.at
        if at is None:
            half = len(arrays) // 2
            return [list(arrays[:half]), list(arrays[half:])]
        parts: list[list[fun.Var]] = [[], []]
        before = end = ZERO  # elements before the cut, and in all, of the arrays so far
        for number, array in enumerate(arrays, 1):
            extent = walk.type_sizes(array.type)[axis]
            end += extent
            upto = at if number == len(arrays) else self.size("min", at, end, "upto")
            first = upto - before
            before = upto
            for part, (start, size) in zip(
                parts, ((ZERO, first), (first, extent - first)), strict=True
            ):
                if size == extent:
                    part.append(array)
                elif size != ZERO:
                    part.append(slice_of(self.top, array, axis, start, size))
        for part in parts:
            if not part:
                part.append(slice_of(self.top, arrays[0], axis, ZERO, ZERO))
        return parts

    def joined(self, arrays: Sequence[fun.Var]) -> fun.Var:
        if len(arrays) == 1:
            return arrays[0]
        axis = self.split.axis
        extent = sum((walk.type_sizes(array.type)[axis] for array in arrays), ZERO)
        concat = fun.Concat(tuple(arrays), axis)
        return self.top.let(concat, _resized(arrays[0].type, axis, extent), "part")

    # ------------------------------------------------------------ scans and scatters

    def continued(self, let: fun.Let, expr: fun.Scan) -> None:
        """scan(x) => let a = scan(x[:h]) in concat(a, scan(x[h:], from the last of a))"""
        first, second = self.parts()
        left = self.part(let, expr, *first)
        *kept, _ = expr.space
        if not kept:
            carry = self.carry(self.top, expr, left, (), first[1])
            right = self.part(let, replace(expr, initial=carry), *second)
        else:
            right = self.rows(let, expr, left, first[1], second)
        self.join(let, [left, right])

    def rows(
        self, let: fun.Let, expr: fun.Scan, left: tuple[fun.Var, ...], at: Size,
        part: tuple[Size, Size],
    ) -> tuple[fun.Var, ...]:  # fmt: skip
        """The second part of a scan of rows: each row begins with its own total."""
        start, extent = part
        *kept, _ = expr.space
        inner = self.top.inner()
        space, body = self.shifted(expr.space, expr.body, len(kept), start, extent)
        rows = tuple(Poly.var(r.index.name) for r in space[:-1])
        carry = self.carry(inner, expr, left, rows, at)
        scan = fun.Scan(space[-1:], body, self.copied(expr.operator), carry, expr.exclusive)
        types = tuple(fun.Array(var.type.dtype, (extent,)) for var in let.pattern)
        results = inner.bind(scan, types, let.pattern[0].name)
        whole = tuple(_resized(var.type, len(kept), extent) for var in let.pattern)
        return self.top.bind(fun.Kernel(space[:-1], inner.body(results)), whole, "rest")

    def carry(
        self, builder: Builder, expr: fun.Scan, left: tuple[fun.Var, ...],
        row: tuple[Size, ...], at: Size,
    ) -> tuple[fun.Atom, ...]:  # fmt: skip
        """What the first part of a scan comes to: its initial values where it is empty."""
        last = (*row, at - 1)
        taken = builder.inner()
        values: tuple[fun.Atom, ...] = tuple(
            taken.let(fun.Index(part, last), fun.Scalar(part.type.dtype)) for part in left
        )
        if expr.exclusive:
            to = {r.index.name: size for r, size in zip(expr.space, last, strict=True)}
            body = shift(expr.body, to, self.names, self.names.fresh)
            taken.statements += body.statements
            values = self.applied(taken, expr.operator, (*values, *body.results))
        some = builder.let(
            fun.Apply("greater", (builder.scalar(at), fun.Const(0, DType.I64))),
            fun.Scalar(DType.BOOL),
        )
        choice = fun.If(some, taken.body(values), fun.Body((), expr.initial))
        return builder.bind(choice, tuple(fun.Scalar(v.type.dtype) for v in left), "carry")

    def scattered(self, let: fun.Let, expr: fun.Scatter) -> None:
        """scatter(d, x) => scatter(scatter(d, x[:h]), x[h:])"""
        destinations = expr.destinations
        first, second = self.parts()
        for part, last in ((first, False), (second, True)):
            space, body = self.shifted(expr.space, expr.body, self.split.axis, *part)
            operator = expr.operator and self.copied(expr.operator)
            new = fun.Scatter(destinations, space, body, operator)
            if last:
                self.top.statements.append(fun.Let(let.pattern, new, let.place))
            else:
                types = tuple(var.type for var in let.pattern)
                destinations = self.top.bind(new, types, let.pattern[0].name)


def _resized(type_: fun.Type, axis: int, extent: Size) -> fun.Array:
    assert isinstance(type_, fun.Array)
    return fun.Array(type_.dtype, (*type_.shape[:axis], extent, *type_.shape[axis + 1 :]))
