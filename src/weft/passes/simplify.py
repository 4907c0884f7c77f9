"""simplify: what can be said shorter at one statement, knowing those before it.

    let b = slice(a, [1 : n]); kernel(i < n) { let x = b[i]; let y = x * 1.0; in y }
 => kernel(i < n) { let x = a[1 + i]; in x }                     (and `b`, now unused)

Removes: operations on constants, algebraic identities (`weft.passes.algebra`), lossless
    casts undone, reads and views of views, views and copies that change nothing,
    conditionals on constants, `for` loops of no or one round, loop parameters that stay
    the same, indices of dimensions of extent 1 (they are 0), what indices that are never
    negative would do if they were, reads of what a reduction selected.
Adds: nothing but shorter statements.
Requires: a checked program.
Ensures: the same values, bit for bit, but that `pow` with a small constant exponent becomes
    products. Int64 scalars that are polynomials of others are written out wherever a
    size or an index uses them. Statements that nothing uses any more stay (`remove_dead`).
"""

from __future__ import annotations

from typing import assert_never

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.ops.dtypes import DType
from weft.passes import algebra, layouts
from weft.passes.reads import is_own_index
from weft.passes.selected import Selected, selected
from weft.sizes import ONE, ZERO, Poly, Size, as_poly
from weft.sizes.prove import Prover

_I64 = fun.Scalar(DType.I64)
_LITTLE = 1 << 32  # of what is added to an index without making it overflow
_FRESH = (fun.Kernel, fun.Reduce, fun.Scan, fun.Concat, fun.Copy)


def simplify(program: fun.Program) -> fun.Program:
    """The program with each statement simplified, in one pass from front to back."""
    pass_ = _Simplifier(program)
    body = pass_.body(program.body)
    if body is program.body:
        return program
    return fun.Program(
        program.name, program.params, body, program.sizes, program.derived, program.facts
    )


class _Simplifier:
    """One walk. Names are bound once, so what is known of a name needs no scopes."""

    def __init__(self, program: fun.Program) -> None:
        self.program = program
        self._names: Names | None = None
        self.atoms: dict[str, fun.Atom] = {}  # what replaces a name
        self.sizes: dict[str, Size] = {}  # what replaces a name in polynomials
        self.definitions: dict[str, fun.Expr] = {}
        self.extents: dict[str, Size] = {}  # of the indices in scope
        self.natural = set(program.sizes)  # what is >= 0
        self.selected: dict[str, Selected] = {}  # by the name of a result that is an index
        self._prover: Prover | None = None
        self.scalars: dict[str, fun.Var] = {}  # int64 scalars, which a polynomial may name
        self.out: list[fun.Let] = []
        self.place: Place | None = None
        self.mapper = walk.Mapper(self.atom, self.size, self.body, self.binder)
        for param in program.params:
            self._register(param)

    # ------------------------------------------------------------ names

    def fresh(self, base: str, type_: fun.Type) -> fun.Var:
        if self._names is None:
            self._names = Names.of(self.program)
        return fun.Var(self._names.fresh(base), type_)

    def emit(self, expr: fun.Expr, type_: fun.Type) -> fun.Var:
        """A new statement before the one at hand."""
        var = self.fresh("t", type_)
        self.out.append(fun.Let((var,), expr, self.place))
        self.definitions[var.name] = expr
        self._register(var)
        return var

    def prover(self) -> Prover:
        if self._prover is None:
            program = self.program
            self._prover = Prover(program.facts, sizes=program.sizes, derived=program.derived)
        return self._prover

    def _register(self, var: fun.Var) -> None:
        if var.type == _I64:
            self.scalars[var.name] = var

    def atom(self, atom: fun.Atom) -> fun.Atom:
        if isinstance(atom, fun.Const):
            return atom
        return self.atoms.get(atom.name, atom)

    def size(self, size: Size) -> Size:
        return size.substitute(self.sizes) if self.sizes else size

    def binder(self, var: fun.Var) -> fun.Var:
        type_ = var.type
        if isinstance(type_, fun.Array):
            shape = tuple(map(self.size, type_.shape))
            if shape != type_.shape:
                var = fun.Var(var.name, fun.Array(type_.dtype, shape))
                self.atoms[var.name] = var
        else:
            self._register(var)
        return var

    def alias(self, var: fun.Var, atom: fun.Atom) -> None:
        self.atoms[var.name] = atom
        if var.type == _I64:
            self.sizes[var.name] = self.polynomial(atom)

    def polynomial(self, atom: fun.Atom) -> Size:
        """An int64 scalar as a polynomial."""
        if isinstance(atom, fun.Const):
            return as_poly(int(atom.value.real))
        return self.sizes.get(atom.name) or Poly.var(atom.name)

    def value(self, size: Size) -> fun.Atom:
        """A polynomial as an atom."""
        if size.is_constant:
            return fun.Const(size.constant, DType.I64)
        name = size.variable
        if name is not None and name in self.scalars:
            return self.atom(self.scalars[name])
        var = self.emit(fun.SizeValue(size), _I64)
        self.sizes[var.name] = size
        return var

    # ------------------------------------------------------------ bodies

    def body(self, body: fun.Body) -> fun.Body:
        outer, self.out = self.out, []
        for let in body.statements:
            self.let(let)
        statements, self.out = tuple(self.out), outer
        results = tuple(map(self.atom, body.results))
        if results == body.results and _same(statements, body.statements):
            return body
        return fun.Body(statements, results)

    def let(self, let: fun.Let) -> None:
        if not let.pattern:  # a loop that carries nothing
            return
        self.place = let.place
        replaced: tuple[fun.Atom, ...] | fun.Expr | None = self.before(let)
        if replaced is None:
            expr = self.rebuild(let.expr)
            self.place = let.place
            replaced = self.after(expr, let.pattern[0].type)
        if isinstance(replaced, tuple):
            for var, atom in zip(let.pattern, replaced, strict=True):
                self.alias(var, atom)
            return
        pattern = tuple(map(self.binder, let.pattern))
        if replaced == let.expr and pattern == let.pattern:
            self.out.append(let)
        else:
            self.out.append(fun.Let(pattern, replaced, let.place))
        if isinstance(replaced, fun.Reduce):
            self._select(pattern, replaced)
        if len(pattern) == 1:
            self.definitions[pattern[0].name] = replaced
            if pattern[0].type == _I64:
                self._remember(pattern[0], replaced)

    def _select(self, pattern: tuple[fun.Var, ...], reduce: fun.Reduce) -> None:
        """What is known of a reduction's results, for reads at an index that is one of them."""
        found = selected(reduce, pattern, self.prover)
        if found is not None:
            self.selected |= dict.fromkeys(found.positions, found)
            self.natural |= {n for n, (_, o) in found.positions.items() if self.is_natural(o)}

    def is_natural(self, size: Size) -> bool:
        """Whether it is a size, an index or 0, and what little is added: all else may wrap."""
        added = size.constant
        rest = size - added
        return 0 <= added < _LITTLE and (rest == ZERO or rest.variable in self.natural)

    def _remember(self, var: fun.Var, expr: fun.Expr) -> None:
        """The polynomial that an int64 scalar is, for the sizes and indices that use it."""
        match expr:
            case fun.SizeValue(size):
                self.sizes[var.name] = size
            case fun.Apply("add", (left, right)):
                self.sizes[var.name] = self.polynomial(left) + self.polynomial(right)
            case fun.Apply("subtract", (left, right)):
                self.sizes[var.name] = self.polynomial(left) - self.polynomial(right)
            case fun.Apply("multiply", (left, right)):
                product = self.polynomial(left) * self.polynomial(right)
                if len(product.terms) <= 4:
                    self.sizes[var.name] = product
            case fun.Apply("negative", (argument,)):
                self.sizes[var.name] = -self.polynomial(argument)
            case fun.Index(array, _, boundary) if array.name in self.natural and not any(boundary):
                self.natural.add(var.name)

    def rebuild(self, expr: fun.Expr) -> fun.Expr:
        match expr:
            case fun.Apply(operation, arguments):
                return fun.Apply(operation, tuple(map(self.atom, arguments)))
            case fun.Kernel(space) | fun.Reduce(space) | fun.Scan(space) | fun.Scatter(_, space):
                for range_ in space:
                    extent = self.size(range_.extent)
                    self.extents[range_.index.name] = extent
                    self.natural.add(range_.index.name)
                    # kernel(i < 1) { .. i .. } => kernel(i < 1) { .. 0 .. }
                    if extent == ONE:
                        self.alias(range_.index, fun.Const(0, DType.I64))
            case fun.Loop(form=fun.For(index, lower)) if self.is_natural(self.size(lower)):
                self.natural.add(index.name)
            case _:
                pass
        return walk.map_expr(expr, self.mapper)

    # ------------------------------------------------------------ rules

    def before(self, let: fun.Let) -> tuple[fun.Atom, ...] | None:
        """Rules that choose or change a body before it is walked."""
        match let.expr:
            case fun.If(condition, then, otherwise):
                chosen = self.atom(condition)
                if isinstance(chosen, fun.Const):
                    # if true then { a } else { b } => a
                    return self.splice(then if chosen.value else otherwise)
            case fun.Loop():
                return self.loop(let.pattern, let.expr)
            case _:
                pass
        return None

    def splice(self, body: fun.Body) -> tuple[fun.Atom, ...]:
        """The statements of a body here; its results."""
        for let in body.statements:
            self.let(let)
        return tuple(map(self.atom, body.results))

    def loop(self, pattern: tuple[fun.Var, ...], loop: fun.Loop) -> tuple[fun.Atom, ...] | None:
        params, initial, form, body = loop.params, loop.initial, loop.form, loop.body
        for result, param, start, final in zip(pattern, params, initial, body.results, strict=True):
            # let r = loop (p = a) { .. in p } => p and r are a
            if param == final and param.type == start.type:
                self.alias(param, self.atom(start))
                self.alias(result, self.atom(start))
        if not isinstance(form, fun.For):
            return None
        lower, rounds = self.size(form.lower), self.size(form.upper - form.lower)
        if rounds == ZERO or (rounds.is_constant and rounds.constant < 0):
            # for i from a to a { .. } => the initial values
            return tuple(map(self.atom, initial))
        if rounds != ONE:
            return None
        # for i from a to a + 1 { .. } => the body once, with i = a
        for param, start in zip(params, initial, strict=True):
            self.alias(param, self.atom(start))
        self.sizes[form.index.name] = lower
        self.atoms[form.index.name] = self.value(lower)
        return self.splice(body)

    def after(self, expr: fun.Expr, type_: fun.Type) -> tuple[fun.Atom, ...] | fun.Expr:
        """Rules on a statement whose operands are already simple."""
        match expr:
            # i < 0 => false, of an index
            case fun.Apply("less", (fun.Var(type=kind) as var, fun.Const(0))) if (
                kind == _I64 and self.is_natural(self.polynomial(var))
            ):
                return (fun.Const(False, DType.BOOL),)
            case fun.Apply(operation, arguments):
                found = algebra.simplify_apply(
                    operation, arguments, type_, self.definition, self.emit
                )
                return (found,) if isinstance(found, fun.Var | fun.Const) else found
            case fun.Cast(dtype, argument):
                cast = algebra.simplify_cast(dtype, argument, self.definition)
                return (cast,) if isinstance(cast, fun.Var | fun.Const) else cast
            case fun.SizeValue(size):
                if size.is_constant:
                    return (fun.Const(size.constant, DType.I64),)
                name = size.variable
                if name is not None and name in self.scalars:
                    return (self.atom(self.scalars[name]),)
                return expr
            case fun.Index():
                return self.index(expr)
            case fun.Slice() | fun.LmadSlice() | fun.Permute() | fun.Reshape() | fun.Broadcast():
                return self.view(expr)
            case fun.Copy(array):
                # copy(kernel ..) => kernel ..
                return (array,) if isinstance(self.definition(array), _FRESH) else expr
            case fun.Concat(arrays, _):
                return (arrays[0],) if len(arrays) == 1 else expr
            case fun.If(_, then, otherwise):
                # if c then { a } else { a } => a
                plain = not then.statements and not otherwise.statements
                return then.results if plain and then.results == otherwise.results else expr
            case fun.Kernel(space, body):
                whole = _whole_array(space, body)
                return expr if whole is None else (whole,)
            case (
                fun.Reduce() | fun.Scan() | fun.Scatter() | fun.Empty()
                | fun.Update() | fun.LmadUpdate() | fun.Loop() | fun.Call()
            ):  # fmt: skip
                return expr
            case _:
                assert_never(expr)

    def definition(self, atom: fun.Atom) -> fun.Expr | None:
        return self.definitions.get(atom.name) if isinstance(atom, fun.Var) else None

    def index(self, expr: fun.Index) -> tuple[fun.Atom, ...] | fun.Expr:
        # let v = <view of a>; v[i] => a[<index in a>]
        while isinstance(view := self.definition(expr.array), layouts.VIEWS):
            access = layouts.read_through(view, expr.indices, expr.boundary, self.extents.get)
            if access is None:
                break
            atom, indices, boundary = access
            if isinstance(atom, fun.Const) or isinstance(atom.type, fun.Scalar):
                return (atom,)
            expr = fun.Index(atom, indices, boundary)
        # let v, i = reduce (; k < n) { let x = a[k] in x, k } with selection; a[i] => v
        elements = self.elements(expr)
        known = {id(self.selected[element.array.name]) for element in elements.values()}
        if len(known) == 1:
            (element, *_) = elements.values()
            value = self.selected[element.array.name].value(expr, elements)
            if value is not None:
                result, place = value
                return fun.Index(result, place) if place else (result,)
        return expr

    def elements(self, read: fun.Index) -> dict[str, fun.Index]:
        """Scalars in a read's indices that are where a reduction found what it selected."""
        found: dict[str, fun.Index] = {}
        for name in {name for index in read.indices for name in index.variables()}:
            element = self.definitions.get(name)
            if name in self.selected:
                found[name] = fun.Index(self.scalars[name], ())
            elif (
                isinstance(element, fun.Index)
                and element.array.name in self.selected
                and not any(element.boundary)
            ):
                found[name] = element
        return found

    def view(self, view: layouts.View) -> tuple[fun.Atom, ...] | fun.Expr:
        argument = self.definition(view.array)
        while isinstance(argument, layouts.VIEWS) and not isinstance(argument, fun.Copy):
            composed = layouts.compose(view, argument)
            if composed is view:
                break
            view = composed
            argument = self.definition(view.array)
        if layouts.is_identity(view):
            return (view.array,)
        return view


def _whole_array(space: tuple[fun.Range, ...], body: fun.Body) -> fun.Var | None:
    """The array that a kernel only copies: kernel(i < n) { let x = a[i]; in x } => a."""
    if len(body.statements) != 1 or len(body.results) != 1:
        return None
    (let,) = body.statements
    read = let.expr
    if not isinstance(read, fun.Index) or any(read.boundary) or let.pattern != body.results:
        return None
    same = walk.type_sizes(read.array.type) == tuple(r.extent for r in space)
    return read.array if same and is_own_index(read.indices, space) else None


def _same(left: tuple[fun.Let, ...], right: tuple[fun.Let, ...]) -> bool:
    return len(left) == len(right) and all(a is b for a, b in zip(left, right, strict=True))
