"""combine: what rounds combine with elements of an array, as reductions and scatters.

    let y = loop (h1 = h0) for i from 0 to n {       let r = reduce (j < m; i < n) { a[i, j] }
      let t = kernel (j < m) { h1[j] + a[i, j] } =>  let y = kernel (j < m) { h0[j] + r[j] }
      in t }

    let y = loop (h1 = h0) for i from 0 to n {       let y = scatter h0 (i < n) { b[i], a[i] }
      let t = h1[b[i]]                           =>    with add
      let u = update h1[b[i]] = t + a[i] in u }

    let y = loop (h1 = h0) for i from 0 to n {       let t = kernel (c < 16) {
      ..                                         =>    loop (h1 = -0.0) for i from .. to .. { .. } }
      in h2 }                                        let r = reduce (j < m; c < 16) { t[c, j] }
                                                     let y = kernel (j < m) { h0[j] + r[j] }

The first is for elements that all rounds combine something with, the second for elements that
each round chooses, and the last (`by_parts`) for rounds that are more than a space of scalars.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.ops.dtypes import DType
from weft.passes import accumulation
from weft.passes.branch_writes import is_inside, read_of, slice_type
from weft.passes.combinations import Combination, Path
from weft.passes.dependence import Dims, inside
from weft.passes.knowledge import Knowledge
from weft.passes.versions import bound_in
from weft.records import dataclass
from weft.sizes import ZERO, Poly, Size, as_poly, product

_I64 = fun.Scalar(DType.I64)
_SHAPES = (fun.Slice, fun.LmadSlice, fun.Permute, fun.Reshape)


class Without(walk.Substitution):
    """A body without what is combined: neutral elements are there, in place of arrays."""

    def __init__(self, combinations: Sequence[Combination]) -> None:
        super().__init__()
        self.neutral = {name: one.neutral for one in combinations for name in one.versions}

    def statements(self, lets: Sequence[fun.Let]) -> tuple[fun.Let, ...]:
        done = []
        for let in lets:
            expr = let.expr
            if isinstance(expr, fun.Index) and expr.array.name in self.neutral:
                self.bind(let.pattern[0].name, self.neutral[expr.array.name])
                continue
            kept = [n for n, var in enumerate(let.pattern) if var.name not in self.neutral]
            if kept:
                done.append(self.let(_some(let, kept) if len(kept) < len(let.pattern) else let))
        return tuple(done)

    def body(self, body: fun.Body) -> fun.Body:
        statements = self.statements(body.statements)
        return fun.Body(statements, tuple(map(self.atom, body.results)))


def _some(let: fun.Let, kept: Sequence[int]) -> fun.Let:
    """A statement that gives some of its results."""

    def body(body: fun.Body) -> fun.Body:
        return fun.Body(body.statements, tuple(body.results[number] for number in kept))

    expr = let.expr
    if isinstance(expr, fun.Loop):
        params = tuple(expr.params[number] for number in kept)
        initial = tuple(expr.initial[number] for number in kept)
        expr = replace(expr, params=params, initial=initial, body=body(expr.body))
    else:
        assert isinstance(expr, fun.Kernel | fun.If)
        expr = walk.map_bodies(expr, body)
    return replace(let, pattern=tuple(let.pattern[number] for number in kept), expr=expr)


@dataclass(frozen=True, slots=True)
class Rest:
    """The loop around combinations, but for them.

    Attributes
    ----------
    form : fun.For
    outside : frozenset of str
        Names from before it.
    known : Knowledge
    names : Names
    place : Place or None
    shifted : callable
        A round's body as one of a range that begins at 0, without the loop's parameters.
    """

    form: fun.For
    outside: frozenset[str]
    known: Knowledge
    names: Names
    place: Place | None
    shifted: Callable[[fun.Body], tuple[fun.Range, fun.Body]]


@dataclass(frozen=True, slots=True)
class Step:
    """An update for each point of a space inside of a round: indices and a value."""

    space: tuple[fun.Range, ...]
    body: fun.Body


class _NoSpace(Exception):  # noqa: N818 - an answer, not an error
    """What a round does is no space of scalars."""


@dataclass(frozen=True, slots=True)
class Combine:
    """What rounds combine with one array, all in one.

    Attributes
    ----------
    rest : Rest
    combined : Combination
    others : sequence of Combination
        All of the loop.
    """

    rest: Rest
    combined: Combination
    others: Sequence[Combination]

    @property
    def operation(self) -> str:
        return self.combined.operation

    @property
    def dtype(self) -> DType:
        assert isinstance(self.combined.param.type, fun.Array)
        return self.combined.param.type.dtype

    def fresh(self, base: str, type_: fun.Type) -> fun.Var:
        return fun.Var(self.rest.names.fresh(base), type_)

    # ------------------------------------------------------------ steps

    def steps(
        self, body: fun.Body, resolved: Callable[[fun.Body], fun.Body | None]
    ) -> list[Step] | None:
        """What rounds combine, update by update; None where that are no spaces of scalars."""
        found = []
        for path in self.combined.updates:
            try:
                step = self.step(body, path, Without(self.others))
            except _NoSpace:
                return None
            own = resolved(step.body)
            if own is None:
                return None
            found.append(replace(step, body=own))
        return found

    def step(self, body: fun.Body, path: Path, without: Without) -> Step:
        (let, number), *more = path
        count = body.statements.index(let)
        before = without.statements(body.statements[:count])
        match let.expr:
            case fun.Update(array, dims, value):
                points = tuple(dim for dim in dims if not isinstance(dim, fun.Span))
                indices = inside(self.combined.views[array.name], points)
                return self.made((), before, indices, without.atom(value), without)
            case fun.Kernel():
                space, inner = self.kernel(path, without)
                name = let.pattern[number].name
                axes = self.combined.axes.get(name) or range(len(space))
                own = [Poly.var(space[axis].index.name) for axis in axes]
                indices = inside(self.combined.views[name], own)
                statements = (*before, *inner.statements)
                return self.made(space, statements, indices, inner.results[0], without)
            case fun.Scatter((array,), space, inner):
                space = self.own_space(space, without)
                *at, value = (scatter := without.body(inner)).results
                indices = inside(self.combined.views[array.name], [_size(atom) for atom in at])
                return self.made(space, (*before, *scatter.statements), indices, value, without)
            case fun.Loop(params, _, fun.For() as form, inner):
                if any(param.name not in without.neutral for param in params):
                    raise _NoSpace
                range_, first = self.range_of(form, without)
                step = self.step(inner, tuple(more), without)
                statements = (*before, *first, *step.body.statements)
                return Step((range_, *step.space), fun.Body(statements, step.body.results))
            case fun.If(condition, then, otherwise):
                side = (then, otherwise)[number]
                step = self.step(side, tuple(more), without)
                return self.chosen(before, without.atom(condition), number, step)
            case _:
                raise _NoSpace

    def kernel(
        self, path: Path, without: Without
    ) -> tuple[tuple[fun.Range, ...], fun.Body]:
        """The space of a kernel, and of those inside of it, and what gives the one result."""
        (let, number), *more = path
        assert isinstance(let.expr, fun.Kernel)
        space, body = self.own_space(let.expr.space, without), let.expr.body
        if not more:
            body = without.body(body)
            return space, fun.Body(body.statements, (body.results[number],))
        before = without.statements(body.statements[: body.statements.index(more[0][0])])
        inner_space, inner = self.kernel(tuple(more), without)
        return (*space, *inner_space), fun.Body((*before, *inner.statements), inner.results)

    def made(
        self, space: tuple[fun.Range, ...], statements: tuple[fun.Let, ...],
        indices: Sequence[Size], value: fun.Atom, without: Without,
    ) -> Step:  # fmt: skip
        at = [self.fresh("at", _I64) for _ in indices]
        sizes = [
            fun.Let((var,), fun.SizeValue(without.size(index)), self.rest.place)
            for var, index in zip(at, indices, strict=True)
        ]
        return Step(space, fun.Body((*statements, *sizes), (*at, value)))

    def own_space(
        self, space: tuple[fun.Range, ...], without: Without
    ) -> tuple[fun.Range, ...]:
        """The space with names of its own."""
        found = []
        for r in space:
            index = self.fresh(r.index.name, _I64)
            extent = without.size(r.extent)
            self.require_outside(extent)
            without.bind(r.index.name, index)
            found.append(fun.Range(index, extent))
        return tuple(found)

    def range_of(self, form: fun.For, without: Without) -> tuple[fun.Range, list[fun.Let]]:
        """The rounds of an inner loop, and its index as a statement."""
        lower, upper = without.size(form.lower), without.size(form.upper)
        self.require_outside(lower)
        self.require_outside(upper)
        own = self.fresh(form.index.name, _I64)
        if not self.rest.known.nonnegative(upper - lower):
            raise _NoSpace
        if lower == ZERO:
            without.bind(form.index.name, own)
            return fun.Range(own, upper), []
        index = self.fresh(form.index.name, _I64)
        without.bind(form.index.name, index)
        without.sizes[form.index.name] = lower + Poly.var(own.name)
        value = fun.SizeValue(lower + Poly.var(own.name))
        return fun.Range(own, upper - lower), [fun.Let((index,), value, self.rest.place)]

    def require_outside(self, size: Size) -> None:
        if not size.variables() <= self.rest.outside:
            raise _NoSpace

    def chosen(
        self, before: tuple[fun.Let, ...], condition: fun.Atom, side: int, step: Step
    ) -> Step:
        """A step of a branch: where it is not taken, the neutral element for the first one."""
        assert isinstance(self.combined.param.type, fun.Array)
        if not all(self.rest.known.nonnegative(n - 1) for n in self.combined.param.type.shape):
            raise _NoSpace
        zeros = [fun.Const(0, DType.I64) for _ in step.body.results[1:]]
        none = fun.Body((), (*zeros, self.combined.neutral))
        sides = (step.body, none)[:: 1 if side == 0 else -1]
        results = [self.fresh("at", _I64) for _ in zeros]
        results.append(self.fresh("e", fun.Scalar(self.dtype)))
        branch = fun.If(condition, sides[0], sides[1])
        let = fun.Let(tuple(results), branch, self.rest.place)
        return Step(step.space, fun.Body((*before, let), tuple(results)))

    # ------------------------------------------------------------ reductions and scatters

    def is_of_all(self, step: Step, array: fun.Var) -> bool:
        """Whether all rounds combine something with the same elements."""
        own, body = self.rest.shifted(step.body)
        dims, _ = self.same_elements(own, step.space, body)
        return dims is not None and is_inside(dims, array, self.rest.known)

    def all_of(self, array: fun.Var, step: Step, last: fun.Var) -> list[fun.Let]:
        """An array combined with what a step gives in all rounds, as `last`."""
        own, body = self.rest.shifted(step.body)
        ahead, body = self.ahead(own, step.space, body)
        dims, kept = self.same_elements(own, step.space, body)
        if dims is not None and is_inside(dims, array, self.rest.known):
            rest = [r for r in step.space if r not in kept]
            values = fun.Body(body.statements, body.results[-1:])
            total, summed = self.reduced((*kept, own, *rest), len(kept), values)
            return [*ahead, total, *self.joined(array, dims, summed, last)]
        return [*ahead, *self.scattered(array, (own, *step.space), body, last)]

    def ahead(
        self, own: fun.Range, space: tuple[fun.Range, ...], body: fun.Body
    ) -> tuple[list[fun.Let], fun.Body]:
        """What is more than scalars and needs no index of an inner space, by a kernel before."""
        depends = {r.index.name for r in space}
        first, then = list[fun.Let](), list[fun.Let]()
        for let in body.statements:
            if walk.used_names(let.expr) & depends:
                depends |= {var.name for var in let.pattern}
            (then if {var.name for var in let.pattern} & depends else first).append(let)
        if not space or is_flat(fun.Body(tuple(first), ())):
            return [], body
        later = fun.Body(tuple(then), body.results)
        needed = walk.free_names(later)
        taken = [var for let in first for var in let.pattern if var.name in needed]
        made, reads = list[fun.Var](), list[fun.Let]()
        for var in taken:
            shape = var.type.shape if isinstance(var.type, fun.Array) else ()
            if any(not extent.variables() <= self.rest.outside for extent in shape):
                return [], body
            made.append(self.fresh(var.name, fun.Array(var.type.dtype, (own.extent, *shape))))
            spans = tuple(fun.Span(ZERO, extent) for extent in shape)
            reads.append(fun.Let((var,), read_of(made[-1], (Poly.var(own.index.name), *spans))))
        copy = walk.Substitution(fresh=self.rest.names.fresh)
        index = self.fresh(own.index.name, _I64)
        copy.bind(own.index.name, index)
        kernel = fun.Kernel(
            (fun.Range(index, own.extent),), copy.body(fun.Body(tuple(first), tuple(taken)))
        )
        before = [fun.Let(tuple(made), kernel, self.rest.place)]
        return before, fun.Body((*reads, *then), body.results)

    def work(self, step: Step) -> Size:
        """How often a step is done in all rounds."""
        form = self.rest.form
        return product(r.extent for r in step.space) * (form.upper - form.lower)

    def same_elements(
        self, own: fun.Range, space: tuple[fun.Range, ...], body: fun.Body
    ) -> tuple[Dims | None, list[fun.Range]]:
        """The elements with which all rounds combine something, and which ranges go along them."""
        bound = bound_in(body)
        free = {own.index.name, *bound, *(r.index.name for r in space)}
        ranges = {r.index.name: r for r in space}
        dims: list[fun.Span | Size] = []
        kept: list[fun.Range] = []
        for atom in body.results[:-1]:
            size = _size(atom)
            let = bound.get(atom.name) if isinstance(atom, fun.Var) else None
            if let is not None and isinstance(let.expr, fun.SizeValue):
                size = let.expr.size
            moving = size.variables() & free
            if not moving:
                dims.append(size)
                continue
            (name, *others) = moving
            along = ranges.pop(name, None)
            start = size - Poly.var(name)
            if others or along is None or start.variables() & free:
                return None, []
            kept.append(along)
            dims.append(fun.Span(start, along.extent))
        return tuple(dims), kept

    def reduced(
        self, space: tuple[fun.Range, ...], kept: int, body: fun.Body
    ) -> tuple[fun.Let, fun.Var]:
        shape = tuple(r.extent for r in space[:kept])
        type_ = fun.Array(self.dtype, shape) if shape else fun.Scalar(self.dtype)
        total = self.fresh("r", type_)
        one = accumulation.Accumulation(self.operation, self.dtype, (), frozenset())
        reduce = accumulation.reduction(space, body, [one], self.rest.names)
        reduce = replace(reduce, reduced=len(space) - kept)
        return fun.Let((total,), reduce, self.rest.place), total

    def joined(
        self, array: fun.Var, dims: Dims, total: fun.Var, last: fun.Var
    ) -> list[fun.Let]:
        """What was there and what rounds combine with it, by elements of a part."""
        names, place = self.rest.names, self.rest.place
        type_ = slice_type(array, dims)
        shape = type_.shape if isinstance(type_, fun.Array) else ()
        space = tuple(fun.Range(self.fresh("q", _I64), extent) for extent in shape)
        at = tuple(Poly.var(r.index.name) for r in space)
        old, new = (self.fresh(name, fun.Scalar(self.dtype)) for name in ("o", "j"))
        statements = [fun.Let((old,), fun.Index(array, inside(dims, at)), place)]
        element = total
        if shape:
            element = self.fresh("r", fun.Scalar(self.dtype))
            statements.append(fun.Let((element,), fun.Index(total, at), place))
        statements += accumulation.joined(self.operation, old, element, new, place, names)
        if not shape:
            return [*statements, fun.Let((last,), fun.Update(array, dims, new), place)]
        kernel = fun.Kernel(space, fun.Body(tuple(statements), (new,)))
        value = self.fresh("t", type_)
        update = fun.Update(array, dims, value)
        return [fun.Let((value,), kernel, place), fun.Let((last,), update, place)]

    def scattered(
        self, array: fun.Var, space: tuple[fun.Range, ...], body: fun.Body, last: fun.Var
    ) -> list[fun.Let]:
        """Each element combined where its indices say; all first, where they are no scalars."""
        place, done = self.rest.place, list[fun.Let]()
        if not is_flat(body):
            shape = tuple(r.extent for r in space)
            made = [self.fresh("v", fun.Array(a.type.dtype, shape)) for a in body.results]
            done.append(fun.Let(tuple(made), fun.Kernel(space, body), place))
            space = tuple(fun.Range(self.fresh(r.index.name, _I64), r.extent) for r in space)
            at = tuple(Poly.var(r.index.name) for r in space)
            read = [self.fresh("v", fun.Scalar(var.type.dtype)) for var in made]
            body = fun.Body(
                tuple(
                    fun.Let((var,), fun.Index(whole, at), place)
                    for var, whole in zip(read, made, strict=True)
                ),
                tuple(read),
            )
        one = accumulation.Accumulation(self.operation, self.dtype, (), frozenset())
        operator = accumulation.reduction(space, body, [one], self.rest.names).operator
        assert isinstance(array.type, fun.Array)
        if self.operation not in ("fmin", "fmax"):
            scatter = fun.Scatter((array,), space, body, operator)
            return [*done, fun.Let((last,), scatter, place)]
        # What compares with nothing and was there before, stays.
        apart, total = (self.fresh(name, array.type) for name in ("h", "h"))
        filled = fun.Broadcast(self.combined.neutral, array.type.shape)
        dims = tuple(fun.Span(ZERO, extent) for extent in array.type.shape)
        scatter = fun.Scatter((apart,), space, body, operator)
        done += [fun.Let((apart,), filled, place), fun.Let((total,), scatter, place)]
        return [*done, *self.joined(array, dims, total, last)]


def is_flat(body: fun.Body) -> bool:
    """Whether a body is scalars alone, and branches of them."""
    return all(
        isinstance(let.expr, (*walk.SCALARS, *_SHAPES))
        or (
            isinstance(let.expr, fun.If)
            and all(isinstance(var.type, fun.Scalar) for var in let.pattern)
        )
        for let in walk.statements(body)
    )


def _size(atom: fun.Atom) -> Size:
    """An index as a size."""
    if isinstance(atom, fun.Var):
        return Poly.var(atom.name)
    assert isinstance(atom.value, int)
    return as_poly(atom.value)
