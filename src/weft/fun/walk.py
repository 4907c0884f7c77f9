"""Visiting and rebuilding FUN: sub-bodies, free variables, substitution, renaming.

Every pass goes through these few functions, so a new expression form is added here once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import assert_never

from weft.fun import nodes as fun
from weft.records import dataclass
from weft.sizes import Poly, Size, as_poly

SCALARS = (fun.Apply, fun.Cast, fun.SizeValue, fun.Index)
"""Expressions that give one scalar, of others and of an element."""


@dataclass(frozen=True, slots=True)
class Mapper:
    """How `map_expr` rebuilds the parts of an expression."""

    atom: Callable[[fun.Atom], fun.Atom]
    size: Callable[[Size], Size]
    body: Callable[[fun.Body], fun.Body]
    binder: Callable[[fun.Var], fun.Var]

    def var(self, var: fun.Var) -> fun.Var:
        """An array operand: an atom that must stay a variable."""
        new = self.atom(var)
        assert isinstance(new, fun.Var), f"array operand {var.name} became a constant"
        return new


def map_expr(expr: fun.Expr, to: Mapper) -> fun.Expr:
    """The expression with its atoms, sizes, binders and bodies rebuilt by `to`."""
    match expr:
        case fun.Apply(operation, arguments):
            return fun.Apply(operation, tuple(map(to.atom, arguments)))
        case fun.Cast(dtype, argument):
            return fun.Cast(dtype, to.atom(argument))
        case fun.SizeValue(size):
            return fun.SizeValue(to.size(size))
        case fun.Index(array, indices, boundary):
            return fun.Index(
                to.var(array),
                tuple(map(to.size, indices)),
                tuple(rule and _map_rule(rule, to) for rule in boundary),
            )
        case fun.Slice(array, dims):
            return fun.Slice(to.var(array), _map_dims(dims, to))
        case fun.LmadSlice(array, offset, lmad_dims):
            return fun.LmadSlice(to.var(array), to.size(offset), _map_pairs(lmad_dims, to))
        case fun.Permute(array, axes):
            return fun.Permute(to.var(array), axes)
        case fun.Reshape(array, shape):
            return fun.Reshape(to.var(array), tuple(map(to.size, shape)))
        case fun.Broadcast(atom, shape):
            return fun.Broadcast(to.atom(atom), tuple(map(to.size, shape)))
        case fun.Kernel(space, body):
            return fun.Kernel(_map_space(space, to), to.body(body))
        case fun.Reduce(space, reduced, body, operator, neutral, counter):
            return fun.Reduce(
                _map_space(space, to), reduced, to.body(body), _map_lambda(operator, to),
                tuple(map(to.atom, neutral)), counter,
            )  # fmt: skip
        case fun.Scan(space, body, operator, initial, exclusive):
            return fun.Scan(
                _map_space(space, to), to.body(body), _map_lambda(operator, to),
                tuple(map(to.atom, initial)), exclusive,
            )  # fmt: skip
        case fun.Scatter(destinations, space, body, combine):
            return fun.Scatter(
                tuple(map(to.var, destinations)), _map_space(space, to), to.body(body),
                None if combine is None else _map_lambda(combine, to),
            )  # fmt: skip
        case fun.Concat(arrays, axis):
            return fun.Concat(tuple(map(to.var, arrays)), axis)
        case fun.Update(array, dims, value):
            return fun.Update(to.var(array), _map_dims(dims, to), to.atom(value))
        case fun.LmadUpdate(array, offset, lmad_dims, source):
            return fun.LmadUpdate(
                to.var(array), to.size(offset), _map_pairs(lmad_dims, to), to.var(source)
            )
        case fun.Copy(array):
            return fun.Copy(to.var(array))
        case fun.Empty(dtype, shape):
            return fun.Empty(dtype, tuple(map(to.size, shape)))
        case fun.If(condition, then, otherwise):
            return fun.If(to.atom(condition), to.body(then), to.body(otherwise))
        case fun.Loop(params, initial, form, body):
            initial = tuple(map(to.atom, initial))
            params = tuple(map(to.binder, params))  # before a while's condition, which uses them
            new_form: fun.For | fun.While
            match form:
                case fun.For(index, lower, upper, tiled):
                    used = tiled and (to.size(tiled[0]), to.size(tiled[1]))
                    new_form = fun.For(to.binder(index), to.size(lower), to.size(upper), used)
                case fun.While(while_condition):
                    new_form = fun.While(to.body(while_condition))
                case _:
                    assert_never(form)
            return fun.Loop(params, initial, new_form, to.body(body))
        case fun.Call(routine, arguments, options, extents):
            given = tuple(map(to.atom, arguments))
            return fun.Call(routine, given, options, tuple(map(to.size, extents)))
        case _:
            assert_never(expr)


def _map_rule(rule: fun.Boundary, to: Mapper) -> fun.Boundary:
    return replace(rule, lower=to.size(rule.lower), upper=to.size(rule.upper))


def _map_dims(dims: tuple[fun.Span | Size, ...], to: Mapper) -> tuple[fun.Span | Size, ...]:
    return tuple(
        fun.Span(to.size(dim.start), to.size(dim.extent), dim.step)
        if isinstance(dim, fun.Span)
        else to.size(dim)
        for dim in dims
    )


def _map_pairs(pairs: tuple[tuple[Size, Size], ...], to: Mapper) -> tuple[tuple[Size, Size], ...]:
    return tuple((to.size(extent), to.size(stride)) for extent, stride in pairs)


def _map_space(space: tuple[fun.Range, ...], to: Mapper) -> tuple[fun.Range, ...]:
    return tuple(fun.Range(to.binder(r.index), to.size(r.extent)) for r in space)


def _map_lambda(function: fun.Lambda, to: Mapper) -> fun.Lambda:
    return fun.Lambda(tuple(map(to.binder, function.params)), to.body(function.body))


# ---------------------------------------------------------------- looking


def bodies(expr: fun.Expr) -> tuple[fun.Body, ...]:
    """The bodies directly inside an expression."""
    if isinstance(expr, SCALARS):  # the frequent forms
        return ()
    match expr:
        case fun.Kernel(_, body):
            return (body,)
        case fun.Reduce(_, _, body, operator) | fun.Scan(_, body, operator):
            return (body, operator.body)
        case fun.Scatter(_, _, body, combine):
            return (body,) if combine is None else (body, combine.body)
        case fun.If(_, then, otherwise):
            return (then, otherwise)
        case fun.Loop(_, _, fun.While(condition), body):
            return (condition, body)
        case fun.Loop(_, _, _, body):
            return (body,)
        case _:
            return ()


def statements(body: fun.Body) -> Iterator[fun.Let]:
    """All statements, outer before inner, in order."""
    for let in body.statements:
        yield let
        for inner in bodies(let.expr):
            yield from statements(inner)


def sequential(body: fun.Body) -> Iterator[fun.Let]:
    """The statements that run one after another: all but those inside parallel ones."""
    for let in body.statements:
        yield let
        if isinstance(let.expr, fun.If | fun.Loop):
            for inner in bodies(let.expr):
                yield from sequential(inner)


def operands(expr: fun.Expr) -> tuple[list[fun.Atom], list[Size], list[fun.Var]]:
    """Atoms and sizes that an expression itself names, and the variables that it binds."""
    match expr:  # the frequent forms directly, the others through `map_expr`
        case fun.Apply(_, arguments):
            return list(arguments), [], []
        case fun.Cast(_, argument):
            return [argument], [], []
        case fun.SizeValue(size):
            return [], [size], []
        case fun.Index(array, indices, ()):
            return [array], list(indices), []
        case fun.Kernel(space, _):
            return [], [r.extent for r in space], [r.index for r in space]
    atoms: list[fun.Atom] = []
    sizes: list[Size] = []
    binders: list[fun.Var] = []

    # Each gives back what it is given, so that `map_expr` rebuilds the same expression.
    def collect_atom(atom: fun.Atom) -> fun.Atom:
        atoms.append(atom)
        return atom

    def collect_size(size: Size) -> Size:
        sizes.append(size)
        return size

    def collect_binder(var: fun.Var) -> fun.Var:
        binders.append(var)
        return var

    map_expr(expr, Mapper(collect_atom, collect_size, lambda body: body, collect_binder))
    return atoms, sizes, binders


def kept(expr: fun.Kernel | fun.Reduce | fun.Scan) -> tuple[fun.Range, ...]:
    """The dimensions whose indices are computed apart: those not reduced, nor scanned along."""
    match expr:
        case fun.Kernel(space):
            return space
        case fun.Reduce(space, reduced):
            return space[: len(space) - reduced]
        case fun.Scan(space):
            return space[:-1]


def type_sizes(type_: fun.Type) -> tuple[Size, ...]:
    return type_.shape if isinstance(type_, fun.Array) else ()


def used_names(expr: fun.Expr) -> frozenset[str]:
    """Names free in an expression: of variables, and of the variables of its sizes."""
    used: set[str] = set()
    _use(expr, used)
    return frozenset(used)


def _use(expr: fun.Expr, used: set[str]) -> None:
    """Add the names free in an expression to `used`."""
    atoms, sizes, binders = operands(expr)
    inner = bodies(expr)
    if binders:  # what they hide is hidden in the expression alone
        own: set[str] = set()
        _use_operands(atoms, sizes, own)
        for body in inner:
            own |= free_names(body)
        own.difference_update(var.name for var in binders)
        used |= own
        return
    _use_operands(atoms, sizes, used)
    for body in inner:
        used |= free_names(body)


def _use_operands(atoms: list[fun.Atom], sizes: list[Size], used: set[str]) -> None:
    for atom in atoms:
        if isinstance(atom, fun.Var):
            used.add(atom.name)
    for size in sizes:
        for monomial in size.terms:
            used.update(monomial)


def free_names(body: fun.Body) -> frozenset[str]:
    """Names that a body uses and does not bind (size variables included)."""
    used: set[str] = {a.name for a in body.results if isinstance(a, fun.Var)}
    for let in reversed(body.statements):
        for var in let.pattern:
            used.discard(var.name)
        _use(let.expr, used)
        for var in let.pattern:
            if isinstance(var.type, fun.Array):
                _use_operands([], list(var.type.shape), used)
    return frozenset(used)


def uses(body: fun.Body) -> Iterator[str]:
    """Each variable as often as it is used as an operand or a result, at any depth."""
    for let in statements(body):
        atoms, _, _ = operands(let.expr)
        yield from (atom.name for atom in atoms if isinstance(atom, fun.Var))
        for inner in bodies(let.expr):
            yield from (atom.name for atom in inner.results if isinstance(atom, fun.Var))
    yield from (atom.name for atom in body.results if isinstance(atom, fun.Var))


# ---------------------------------------------------------------- substitution


class Substitution:
    """Replaces free variables by atoms, consistently in sizes and in types.

    An int64 scalar may be replaced by another int64 variable, an int constant, or (with
    `sizes`) any polynomial; a polynomial in an atom's place needs a statement, so callers
    that substitute polynomials bind a `SizeValue` first (see `Builder.scalar`).

    With `fresh`, every binder inside gets a new name, as copying a body requires.
    """

    def __init__(
        self,
        atoms: Mapping[str, fun.Atom] | None = None,
        sizes: Mapping[str, Size] | None = None,
        fresh: Callable[[str], str] | None = None,
    ) -> None:
        self.atoms: dict[str, fun.Atom] = dict(atoms or {})
        self.sizes: dict[str, Size] = dict(sizes or {})
        self.fresh = fresh
        self._mapper = Mapper(self.atom, self.size, self.body, self.binder)
        for name, atom in self.atoms.items():
            if name not in self.sizes:
                self._also_as_size(name, atom)

    def _also_as_size(self, name: str, atom: fun.Atom) -> None:
        if isinstance(atom, fun.Var):
            if isinstance(atom.type, fun.Scalar):
                self.sizes[name] = Poly.var(atom.name)
        elif isinstance(atom.value, int):
            self.sizes[name] = as_poly(atom.value)

    def bind(self, name: str, atom: fun.Atom) -> None:
        self.atoms[name] = atom
        self._also_as_size(name, atom)

    def size(self, size: Size) -> Size:
        return size.substitute(self.sizes) if self.sizes else size

    def type(self, type_: fun.Type) -> fun.Type:
        if isinstance(type_, fun.Scalar) or not self.sizes:
            return type_
        shape = tuple(map(self.size, type_.shape))
        if all(map(operator.is_, shape, type_.shape)):
            return type_
        return replace(type_, shape=shape)

    def atom(self, atom: fun.Atom) -> fun.Atom:
        if isinstance(atom, fun.Const):
            return atom
        found = self.atoms.get(atom.name)
        if found is not None:
            return found
        if isinstance(atom.type, fun.Scalar):
            return atom
        type_ = self.type(atom.type)
        return atom if type_ is atom.type else fun.Var(atom.name, type_)

    def binder(self, var: fun.Var) -> fun.Var:
        type_ = self.type(var.type)
        if self.fresh is None:
            return var if type_ is var.type else fun.Var(var.name, type_)
        new = fun.Var(self.fresh(var.name), type_)
        self.bind(var.name, new)
        return new

    def expr(self, expr: fun.Expr) -> fun.Expr:
        # Binders come before the bodies that use them in every form of `map_expr`.
        return map_expr(expr, self._mapper)

    def let(self, let: fun.Let) -> fun.Let:
        expr = self.expr(let.expr)
        return fun.Let(tuple(map(self.binder, let.pattern)), expr, let.place)

    def body(self, body: fun.Body) -> fun.Body:
        statements = tuple(map(self.let, body.statements))
        return fun.Body(statements, tuple(map(self.atom, body.results)))

    def function(self, function: fun.Lambda) -> fun.Lambda:
        return fun.Lambda(tuple(map(self.binder, function.params)), self.body(function.body))


def map_bodies(expr: fun.Expr, transform: Callable[[fun.Body], fun.Body]) -> fun.Expr:
    """The expression with each body directly inside it transformed."""
    if not bodies(expr):
        return expr
    return map_expr(expr, Mapper(lambda a: a, lambda s: s, transform, lambda v: v))


def in_kernels(body: fun.Body, transform: Callable[[fun.Body], fun.Body]) -> fun.Body:
    """The body with the bodies of its outermost kernels transformed; itself if none changes."""
    inside = partial(in_kernels, transform=transform)
    return with_statements(body, [
        map_let(let, transform if isinstance(let.expr, fun.Kernel) else inside)
        for let in body.statements
    ])  # fmt: skip


def map_let(let: fun.Let, transform: Callable[[fun.Body], fun.Body]) -> fun.Let:
    """The statement with each body directly inside it transformed; itself if none changes."""
    if not bodies(let.expr):
        return let
    expr = map_bodies(let.expr, transform)
    return let if expr == let.expr else replace(let, expr=expr)


def with_statements(
    body: fun.Body, statements: Sequence[fun.Let], results: tuple[fun.Atom, ...] | None = None
) -> fun.Body:
    """The body with other statements (and results); itself if the statements are its own."""
    own = body.statements
    if len(statements) == len(own) and all(map(operator.is_, statements, own)):
        return body
    return fun.Body(tuple(statements), body.results if results is None else results)
