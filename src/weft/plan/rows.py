"""One row of a round: what the statements of a loop's body do for it, and no more.

    update v[k, 0 for m] = p        =>  if i == k { p } else { row }
    slice u[0 for n, k]             =>  row[k]
    kernel (i < n, j < m) { f(u[i, j], c[i], p[j]) }
                                    =>  kernel (j < m) { f(row[j], c, p[j]) }

Rows are pulled: from what is asked for to what it is made of, so that a statement that makes some
rows alone is run for them alone, under the condition of the update that takes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import TypeVar

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder
from weft.ops.dtypes import DType
from weft.plan.pivots import Pivot, Rounds
from weft.records import dataclass
from weft.sizes import ZERO, Size

_T = TypeVar("_T")
_BOOL = fun.Scalar(DType.BOOL)


@dataclass(slots=True)
class Round:
    """A round that is emitted somewhere, as often as rows of it are pulled.

    Attributes
    ----------
    rounds : Rounds
    number : Size
        What the loop's index is.
    pivot : callable
        The row that a pivot is.
    shared : dict of str to fun.Atom
        What the round shares, as far as it is there.
    """

    rounds: Rounds
    number: Size
    pivot: Callable[[Pivot], fun.Atom]
    shared: dict[str, fun.Atom] = field(default_factory=dict)
    producers: dict[str, fun.Let] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.producers = {var.name: let for let in self.rounds.body for var in let.pattern}

    def here(self, size: Size) -> Size:
        """A polynomial of the loop's index, for this round."""
        return size.substitute({self.rounds.form.index.name: self.number})

    def share(self, let: fun.Let, builder: Builder) -> None:
        """Emit a statement of which all rows share the results."""
        read = _Read(self, None)
        made = read.body(fun.Body((let,), ()))
        found: tuple[fun.Atom, ...] = tuple(read.aliases.values())
        for kept in made.statements:
            substitution, expr = self.copy(kept, kept.expr, builder, read.aliases)
            builder.place = let.place
            types = tuple(substitution.type(var.type) for var in let.pattern)
            found = _bound(builder, expr, types)
        self.shared.update((var.name, at) for var, at in zip(let.pattern, found, strict=True))

    def copy(
        self, let: fun.Let, expr: fun.Expr, builder: Builder,
        atoms: Mapping[str, fun.Atom] | None = None, sizes: Mapping[str, Size] | None = None,
    ) -> tuple[walk.Substitution, fun.Expr]:  # fmt: skip
        """An expression of a statement for this round, and how its names are replaced."""
        to = {self.rounds.form.index.name: self.number, **(sizes or {})}
        used = walk.used_names(expr).union(
            *(n.variables() for var in let.pattern for n in walk.type_sizes(var.type))
        )
        known = {name: self.shared[name] for name in sorted(used & self.shared.keys())}
        values = _values(expr)
        for name in sorted(values & to.keys() - (atoms or {}).keys()):
            known[name] = builder.scalar(to[name])
        known.update(atoms or {})
        substitution = walk.Substitution(known, to, builder.names.fresh)
        return substitution, substitution.expr(expr)


@dataclass(slots=True)
class Row:
    """One row of a round, as far as it is pulled.

    Attributes
    ----------
    round : Round
    index : Size
        Which one.
    builder : Builder
    params : callable
        (name, builder) -> the row before the round, of an array that is carried.
    held : dict of str to fun.Atom
        The row of arrays that follow rows: an array without that axis, or a scalar.
    """

    round: Round
    index: Size
    builder: Builder
    params: Callable[[str, Builder], fun.Atom]
    held: dict[str, fun.Atom] = field(default_factory=dict)

    def results(self) -> tuple[fun.Atom, ...]:
        """Emit the row after the round, of the arrays carried that follow rows."""
        loop = self.round.rounds.loop
        return tuple(
            self.pull(result.name)
            for param, result in zip(loop.params, loop.body.results, strict=True)
            if param.name in self.round.rounds.along and isinstance(result, fun.Var)
        )

    def inside(self) -> Row:
        """The same row in a body of its own, where more of it can be pulled."""
        return Row(self.round, self.index, self.builder.inner(), self.params, dict(self.held))

    def pull(self, name: str) -> fun.Atom:
        """The row of an array."""
        if name not in self.held:
            let = self.round.producers.get(name)
            if let is None:
                self.held[name] = self.params(name, self.builder)
                return self.held[name]
            self.builder.place = let.place
            match let.expr:
                case fun.Slice(array, dims):
                    self.held[name] = self._slice(let, array, dims)
                case fun.Update(array, dims, value):
                    self.held[name] = self._update(let, array, dims, value)
                case _:
                    self._nest(let)
        return self.held[name]

    def _slice(
        self, let: fun.Let, array: fun.Var, dims: tuple[fun.Span | Size, ...]
    ) -> fun.Atom:
        """slice u[a for n, k]  =>  row[k]"""
        row = self.pull(array.name)
        rest = _without(dims, self.round.rounds.along[array.name].axis)
        if not rest:
            return row
        assert isinstance(row, fun.Var)
        scalar = not any(isinstance(dim, fun.Span) for dim in rest)
        part = (
            fun.Index(row, tuple(d for d in rest if not isinstance(d, fun.Span))) if scalar
            else fun.Slice(row, rest)
        )  # fmt: skip
        return self._emit(let, part, let.pattern[0])

    def _update(
        self, let: fun.Let, array: fun.Var, dims: tuple[fun.Span | Size, ...], value: fun.Atom
    ) -> fun.Atom:
        """update u[k, rest] = value  =>  if i == k { update row[rest] = value } else { row }"""
        along = self.round.rounds.along[array.name]
        before, dim = self.pull(array.name), dims[along.axis]
        condition = self._condition(array, dim)
        inner = self if condition is None else self.inside()
        new = inner._updated(let, before, dims, value)
        if condition is None:
            return new
        choice = fun.If(condition, inner.builder.body([new]), fun.Body((), (before,)))
        return self.builder.let(choice, before.type, "row")

    def _condition(self, array: fun.Var, dim: fun.Span | Size) -> fun.Atom | None:
        """Whether an update writes this row; None where it writes all rows."""
        rounds, along = self.round.rounds, self.round.rounds.along[array.name]
        if not isinstance(dim, fun.Span):
            return self._test("equal", self.index, rounds.resolve(dim) + along.shift)
        start, extent = rounds.resolve(dim.start), rounds.resolve(dim.extent)
        if start == ZERO and extent == walk.type_sizes(array.type)[along.axis]:
            return None
        first, end = start + along.shift, start + along.shift + extent
        tests = [self._test("less_equal", first, self.index)]
        if end != rounds.extent:
            tests.append(self._test("less", self.index, end))
        if len(tests) == 1:
            return tests[0]
        return self.builder.let(fun.Apply("logical_and", tuple(tests)), _BOOL)

    def _test(self, operation: str, left: Size, right: Size) -> fun.Atom:
        atoms = [self.builder.scalar(self.round.here(size)) for size in (left, right)]
        return self.builder.let(fun.Apply(operation, tuple(atoms)), _BOOL)

    def _updated(
        self, let: fun.Let, before: fun.Atom, dims: tuple[fun.Span | Size, ...], value: fun.Atom
    ) -> fun.Atom:
        """This row, which the update writes."""
        rounds = self.round.rounds
        assert isinstance(let.expr, fun.Update)
        along = rounds.along[let.expr.array.name]
        dim = dims[along.axis]
        new: fun.Atom = value
        if isinstance(value, fun.Var) and value.name in rounds.along:
            new = self.pull(value.name)
        elif isinstance(value, fun.Var):
            new = self.round.shared.get(value.name, value)
            is_rows = isinstance(new.type, fun.Array) and isinstance(dim, fun.Span)
            if is_rows and isinstance(new, fun.Var):
                at = sum(isinstance(d, fun.Span) for d in dims[: along.axis])
                assert isinstance(dim, fun.Span)
                first = self.round.here(rounds.resolve(dim.start) + along.shift)
                new = row_of(self.builder, new, at, self.index - first)
        rest = _without(dims, along.axis)
        if not rest:
            return new
        assert isinstance(before, fun.Var)
        shape = walk.type_sizes(before.type)
        if isinstance(new.type, fun.Array) and all(
            isinstance(d, fun.Span) and d.start == ZERO and d.step == 1 and d.extent == n
            for d, n in zip(rest, shape, strict=True)
        ):
            return new
        _, expr = self.round.copy(let, fun.Update(before, rest, new), self.builder)
        return self.builder.let(expr, before.type, "row")

    def _nest(self, let: fun.Let) -> None:
        """kernel (i < n, j < m) { f(i, u[i, j]) }  =>  kernel (j < m) { f(i, row[j]) }"""
        rounds, expr = self.round.rounds, let.expr
        assert isinstance(expr, fun.Kernel | fun.Reduce | fun.Scan)
        along = rounds.along[let.pattern[0].name]
        dim = expr.space[along.axis]
        at = self.index - self.round.here(along.shift)
        read = _Read(self.round, self)
        new = walk.map_bodies(expr, read.body)
        assert isinstance(new, fun.Kernel | fun.Reduce | fun.Scan)
        new = replace(new, space=_without(new.space, along.axis))
        substitution, made = self.round.copy(
            let, new, self.builder, read.aliases, {dim.index.name: at}
        )
        self.builder.place = let.place
        found: tuple[fun.Atom, ...]
        if isinstance(made, fun.Kernel) and not made.space:
            self.builder.statements += made.body.statements
            found = made.body.results
        else:
            types = tuple(_row_type(substitution.type(v.type), along.axis) for v in let.pattern)
            found = _bound(self.builder, made, types)
        self.held.update((v.name, atom) for v, atom in zip(let.pattern, found, strict=True))

    def _emit(self, let: fun.Let, expr: fun.Expr, var: fun.Var) -> fun.Atom:
        substitution, new = self.round.copy(let, expr, self.builder)
        axis = self.round.rounds.along[var.name].axis
        type_ = _row_type(substitution.type(var.type), axis)
        return _bound(self.builder, new, (type_,))[0]


@dataclass(slots=True)
class _Read:
    """Reads of rows in place of reads of arrays of rows.

    Attributes
    ----------
    round : Round
    row : Row or None
        The row that is not a pivot, where there is one.
    aliases : dict of str to fun.Atom
        What reads of rows that are scalars were bound to: they are left out.
    """

    round: Round
    row: Row | None
    aliases: dict[str, fun.Atom] = field(default_factory=dict)

    def body(self, body: fun.Body) -> fun.Body:
        """The body with other reads."""
        along, done = self.round.rounds.along, []
        for let in body.statements:
            expr = let.expr
            if not isinstance(expr, fun.Index | fun.Slice) or expr.array.name not in along:
                done.append(fun.Let(let.pattern, walk.map_bodies(expr, self.body), let.place))
                continue
            found = self._read(expr)
            if isinstance(found, fun.Const | fun.Var):
                self.aliases[let.pattern[0].name] = found
            else:
                done.append(fun.Let(let.pattern, found, let.place))
        return fun.Body(tuple(done), body.results)

    def _read(self, expr: fun.Index | fun.Slice) -> fun.Expr | fun.Atom:
        rounds, axis = self.round.rounds, self.round.rounds.along[expr.array.name].axis
        index = expr.indices[axis] if isinstance(expr, fun.Index) else expr.dims[axis]
        assert not isinstance(index, fun.Span)
        pivot = rounds.pivot(expr.array, index)
        if pivot is not None:
            row = self.round.pivot(pivot)
        else:
            assert self.row is not None
            row = self.row.pull(expr.array.name)
        if isinstance(row.type, fun.Scalar):
            return row
        assert isinstance(row, fun.Var)
        if isinstance(expr, fun.Index):
            return fun.Index(row, _without(expr.indices, axis), _without(expr.boundary, axis))
        rest = _without(expr.dims, axis)
        return fun.Slice(row, rest) if rest else row


def row_of(builder: Builder, array: fun.Var, axis: int, index: Size) -> fun.Atom:
    """Emit one index of an axis of an array: an array of the others, or a scalar."""
    shape = walk.type_sizes(array.type)
    type_ = _row_type(array.type, axis)
    if isinstance(type_, fun.Scalar):
        return builder.let(fun.Index(array, (index,)), type_, "row")
    dims: list[fun.Span | Size] = [fun.Span(ZERO, n) for n in shape]
    dims[axis] = index
    return builder.let(fun.Slice(array, tuple(dims)), type_, "row")


def _row_type(type_: fun.Type, axis: int) -> fun.Type:
    shape = _without(walk.type_sizes(type_), axis)
    return fun.Array(type_.dtype, shape) if shape else fun.Scalar(type_.dtype)


def _without(items: tuple[_T, ...], axis: int) -> tuple[_T, ...]:
    return (*items[:axis], *items[axis + 1 :])


def _values(expr: fun.Expr) -> set[str]:
    """The names that an expression uses as values, not in sizes alone."""
    found = {atom.name for atom in walk.operands(expr)[0] if isinstance(atom, fun.Var)}
    for body in walk.bodies(expr):
        found.update(walk.uses(body))
    return found


def _bound(
    builder: Builder, expr: fun.Expr, types: tuple[fun.Type, ...]
) -> tuple[fun.Var, ...]:
    """`builder.bind`, which remembers what is an index."""
    return (builder.let(expr, types[0]),) if len(types) == 1 else builder.bind(expr, types)
