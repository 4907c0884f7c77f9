"""The type checker of FUN: run after every pass in tests.

It requires: every name bound once and used in its scope with its binder's type; sizes
over size variables and int64 scalars in scope; the dtypes of `weft.ops.table`; shapes
equal as polynomials under the program's facts; and what each node's docstring says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NoReturn, assert_never

import numpy as np

from weft.errors import InternalError, WeftError
from weft.fun import nodes as fun
from weft.fun.show import show_constant, show_let, show_type
from weft.ops import routines, table
from weft.ops.dtypes import DType
from weft.sizes import Poly, Size, as_poly, product
from weft.sizes.prove import Prover

I64 = fun.Scalar(DType.I64)
BOOL = fun.Scalar(DType.BOOL)
Types = tuple[fun.Type, ...]


def check(program: fun.Program, after: str = "") -> None:
    """Check a program.

    Parameters
    ----------
    program : fun.Program
    after : str, optional
        The pass that made it, which the error names.

    Raises
    ------
    InternalError
        When the program is not well formed; it shows the statement.
    """
    Checker(program, after).program()


class Checker:
    """Checks one program: the scope, and where in the program it is."""

    def __init__(self, program: fun.Program, after: str) -> None:
        self.checked = program
        self.after = after
        self.scope: dict[str, fun.Type] = {}
        self.sizes: set[str] = set()
        self.bound: set[str] = set()
        self.let: fun.Let | None = None
        self.prover: Prover | None = None

    def fail(self, problem: str, expected: str = "") -> NoReturn:
        prefix = f"after {self.after}: " if self.after else f"in {self.checked.name}: "
        if self.let is None:
            raise InternalError(prefix + problem, expected)
        lines = show_let(self.let).split("\n")
        if len(lines) > 20:
            lines = [*lines[:18], "  ...", lines[-1]]
        statement = "\n    ".join(lines)
        raise InternalError(f"{prefix}{problem}\n    {statement}", expected, "", self.let.place)

    # ------------------------------------------------------------ scopes

    def program(self) -> None:
        program = self.checked
        for name in program.sizes:
            self.declare(name)
            self.sizes.add(name)
        for derived in program.derived:
            self.size(derived.left)
            self.size(derived.right)
            self.declare(derived.name)
            self.sizes.add(derived.name)
        for fact in program.facts:
            self.size(fact.poly)
        for param in program.params:
            self.bind(param)
        types = self.body(program.body)
        for type_ in types:
            self.type(type_)

    def declare(self, name: str) -> None:
        if name in self.bound:
            self.fail(f"{name} is bound twice")
        self.bound.add(name)

    def bind(self, var: fun.Var) -> None:
        self.type(var.type)
        self.declare(var.name)
        self.scope[var.name] = var.type
        if var.type == I64:
            self.sizes.add(var.name)

    @contextmanager
    def binding(self, variables: Iterable[fun.Var]) -> Iterator[None]:
        """A scope that begins with these variables."""
        scope, sizes = dict(self.scope), set(self.sizes)
        for var in variables:
            self.bind(var)
        yield
        self.scope, self.sizes = scope, sizes

    def body(self, body: fun.Body) -> Types:
        """Check a body in the current scope; the types of its results."""
        outer = self.let
        for let in body.statements:
            self.let = let
            types = self.expr(let.expr, let)
            if len(types) != len(let.pattern):
                self.fail(f"{len(let.pattern)} names for {len(types)} results")
            for var, type_ in zip(let.pattern, types, strict=True):
                self.bind(var)
                if not self.same(var.type, type_):
                    self.fail(
                        f"{var.name} has type {show_type(var.type)}", f"type {show_type(type_)}"
                    )
            self.let = let
        self.let = outer
        return tuple(map(self.atom, body.results))

    def inner(self, body: fun.Body, variables: Iterable[fun.Var] = ()) -> Types:
        """Check a body in a scope of its own; its result types must make sense outside."""
        with self.binding(variables):
            types = self.body(body)
        for type_ in types:
            self.type(type_)
        return types

    # ------------------------------------------------------------ types

    def type(self, type_: fun.Type) -> None:
        if isinstance(type_, fun.Array):
            if not type_.shape:
                self.fail("an array of rank 0", "a scalar")
            for size in type_.shape:
                self.size(size)

    def size(self, size: Size) -> None:
        if not isinstance(size, Poly):
            self.fail(f"{size!r} is not a polynomial")
        unknown = size.variables() - self.sizes
        if unknown:
            names = ", ".join(sorted(unknown))
            self.fail(f"{size} names {names}, no size or int64 scalar in scope")

    def equal(self, left: Size, right: Size) -> bool:
        if left == right:
            return True
        if self.prover is None:
            program = self.checked
            self.prover = Prover(program.facts, sizes=program.sizes, derived=program.derived)
        return self.prover.equal(left, right)

    def same_shape(self, left: tuple[Size, ...], right: tuple[Size, ...]) -> bool:
        return len(left) == len(right) and all(map(self.equal, left, right))

    def same(self, left: fun.Type, right: fun.Type) -> bool:
        if isinstance(left, fun.Array) and isinstance(right, fun.Array):
            return left.dtype is right.dtype and self.same_shape(left.shape, right.shape)
        return isinstance(left, fun.Scalar) and left == right

    def expect(self, what: str, found: Types, wanted: Types) -> None:
        if len(found) != len(wanted) or not all(map(self.same, found, wanted)):
            self.fail(
                f"{what} of type ({', '.join(map(show_type, found))})",
                f"({', '.join(map(show_type, wanted))})",
            )

    # ------------------------------------------------------------ atoms

    def atom(self, atom: fun.Atom) -> fun.Type:
        if isinstance(atom, fun.Const):
            self.constant(atom)
            return atom.type
        known = self.scope.get(atom.name)
        if known is None:
            self.fail(f"{atom.name} is not in scope")
        if known != atom.type and not self.same(known, atom.type):
            self.fail(f"{atom.name} used as {show_type(atom.type)}", show_type(known))
        return known

    def constant(self, constant: fun.Const) -> None:
        value, dtype = constant.value, constant.dtype
        kinds: dict[str, tuple[type, ...]] = {
            "b": (bool,), "i": (int,), "u": (int,),
            "f": (float, int), "c": (complex, float, int),
        }  # fmt: skip
        if type(value) not in kinds[dtype.kind]:
            self.fail(f"the {dtype} constant {value!r} is a {type(value).__name__}")
        if dtype.is_integer:
            info = np.iinfo(dtype.numpy)
            if not info.min <= value <= info.max:  # type: ignore[operator]
                self.fail(f"{show_constant(constant)} does not fit {dtype}")

    def scalar(self, atom: fun.Atom) -> DType:
        type_ = self.atom(atom)
        if not isinstance(type_, fun.Scalar):
            self.fail(f"{getattr(atom, 'name', atom)} is an array", "a scalar")
        return type_.dtype

    def array(self, var: fun.Var, rank: int | None = None) -> fun.Array:
        type_ = self.atom(var)
        if not isinstance(var, fun.Var) or not isinstance(type_, fun.Array):
            self.fail(f"{getattr(var, 'name', var)} is a scalar", "an array")
        if rank is not None and type_.rank != rank:
            self.fail(f"{var.name} has rank {type_.rank}", f"rank {rank}")
        return type_

    # ------------------------------------------------------------ expressions

    def expr(self, expr: fun.Expr, let: fun.Let) -> Types:
        match expr:
            case fun.Apply(operation, arguments):
                try:
                    dtypes = tuple(map(self.scalar, arguments))
                    return (fun.Scalar(table.lookup(operation).result(dtypes)),)
                except WeftError as error:
                    self.fail(error.found, error.expected)
            case fun.Cast(dtype, argument):
                self.scalar(argument)
                return (fun.Scalar(dtype),)
            case fun.SizeValue(size):
                self.size(size)
                return (I64,)
            case fun.Index():
                return self.index(expr)
            case fun.Kernel() | fun.Reduce() | fun.Scan() | fun.Scatter():
                return self.parallel(expr)
            case fun.If(condition, then, otherwise):
                if self.scalar(condition) is not DType.BOOL:
                    self.fail("a condition that is no boolean")
                types = self.inner(then)
                self.expect("the else branch has results", self.inner(otherwise), types)
                return types
            case fun.Loop():
                return self.loop(expr)
            case fun.Call():
                return self.call(expr)
            case _:
                result = self.layout(expr)
                self.type(result)
                return (result,)

    def index(self, expr: fun.Index) -> Types:
        array = self.array(expr.array, len(expr.indices))
        for size in expr.indices:
            self.size(size)
        if expr.boundary and len(expr.boundary) != array.rank:
            self.fail(f"{len(expr.boundary)} boundary rules", f"none, or {array.rank}")
        for rule in expr.boundary:
            if rule is None:
                continue
            self.size(rule.lower)
            self.size(rule.upper)
            if (rule.kind == "constant") != (rule.value is not None):
                self.fail(f"a boundary {rule.kind} with value {rule.value}")
            if rule.value is not None and rule.value.dtype is not array.dtype:
                self.fail(f"a boundary value of {rule.value.dtype}", str(array.dtype))
        return (fun.Scalar(array.dtype),)

    def layout(self, expr: fun.Expr) -> fun.Type:
        match expr:
            case fun.Slice(array, dims):
                shape = self.spans(dims)
                return fun.Array(self.array(array, len(dims)).dtype, shape)
            case fun.LmadSlice(array, offset, lmad_dims):
                return fun.Array(self.array(array, 1).dtype, self.lmad(offset, lmad_dims))
            case fun.Permute(array, axes):
                source = self.array(array)
                if sorted(axes) != list(range(source.rank)):
                    self.fail(f"axes {axes}", f"a permutation of {source.rank} axes")
                return fun.Array(source.dtype, tuple(source.shape[axis] for axis in axes))
            case fun.Reshape(array, shape):
                source = self.array(array)
                if not self.equal(product(source.shape), product(shape)):
                    self.fail(f"a reshape to {product(shape)} elements", str(product(source.shape)))
                return fun.Array(source.dtype, shape)
            case fun.Broadcast(atom, shape):
                type_ = self.atom(atom)
                own = type_.shape if isinstance(type_, fun.Array) else ()
                fits = len(own) <= len(shape) and all(
                    extent == 1 or self.equal(extent, wanted)
                    for extent, wanted in zip(own, shape[len(shape) - len(own) :], strict=True)
                )
                if not fits:
                    wider = show_type(fun.Array(type_.dtype, shape))
                    self.fail(f"{show_type(type_)} does not broadcast to {wider}")
                return fun.Array(type_.dtype, shape)
            case fun.Concat(arrays, axis):
                return self.concat([self.array(array) for array in arrays], axis)
            case fun.Update(array, dims, value):
                target = self.array(array, len(dims))
                shape = self.spans(dims)
                scalar = fun.Scalar(target.dtype)
                found = self.atom(value)
                if found != scalar and not self.same(found, fun.Array(target.dtype, shape)):
                    self.expect("a value", (found,), (fun.Array(target.dtype, shape),))
                return target
            case fun.LmadUpdate(array, offset, lmad_dims, source_var):
                target = self.array(array, 1)
                wanted = fun.Array(target.dtype, self.lmad(offset, lmad_dims))
                self.expect("a value", (self.array(source_var),), (wanted,))
                return target
            case fun.Copy(array):
                return self.array(array)
            case fun.Empty(dtype, shape):
                return fun.Array(dtype, shape)
            case _:
                raise AssertionError(f"no layout change: {type(expr).__name__}")

    def spans(self, dims: tuple[fun.Span | Size, ...]) -> tuple[Size, ...]:
        """Check a slice; the shape of its elements."""
        shape: list[Size] = []
        for dim in dims:
            if isinstance(dim, fun.Span):
                self.size(dim.start)
                self.size(dim.extent)
                if dim.step == 0:
                    self.fail("a slice of step 0")
                shape.append(dim.extent)
            else:
                self.size(dim)
        return tuple(shape)

    def lmad(self, offset: Size, dims: tuple[tuple[Size, Size], ...]) -> tuple[Size, ...]:
        self.size(offset)
        for extent, stride in dims:
            self.size(extent)
            self.size(stride)
        return tuple(extent for extent, _ in dims)

    def concat(self, types: list[fun.Array], axis: int) -> fun.Type:
        if not types:
            self.fail("a concatenation of nothing")
        first = types[0]
        if not 0 <= axis < first.rank:
            self.fail(f"axis {axis}", f"0 <= axis < {first.rank}")
        total: Size = as_poly(0)
        for type_ in types:
            rest = type_.shape[:axis] + type_.shape[axis + 1 :]
            wanted = first.shape[:axis] + first.shape[axis + 1 :]
            if type_.dtype is not first.dtype or not self.same_shape(rest, wanted):
                self.fail(f"{show_type(type_)} joined to {show_type(first)} along axis {axis}")
            total = total + type_.shape[axis]
        return fun.Array(first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :]))

    # ------------------------------------------------------------ data parallelism

    def parallel(self, expr: fun.ParallelExpr) -> Types:
        extents = tuple(dimension.extent for dimension in expr.space)
        if not extents:
            self.fail("an index space of no dimensions")
        for dimension in expr.space:
            self.size(dimension.extent)
            if dimension.index.type != I64:
                self.fail(f"index {dimension.index.name} is {show_type(dimension.index.type)}")
        types = self.inner(expr.body, [dimension.index for dimension in expr.space])
        match expr:
            case fun.Kernel():
                return tuple(_arrays(types, extents))
            case fun.Reduce(_, reduced, _, operator, neutral):
                if not 1 <= reduced <= len(extents):
                    self.fail(f"{reduced} reduced dimensions of {len(extents)}")
                self.operator(operator, types)
                self.expect("neutral elements", tuple(map(self.atom, neutral)), types)
                return tuple(_arrays(types, extents[: len(extents) - reduced]))
            case fun.Scan(_, _, operator, initial):
                self.operator(operator, types)
                begins = tuple(map(self.atom, initial))
                wanted = tuple(
                    fun.Array(type_.dtype, extents[:-1]) if isinstance(begin, fun.Array) else type_
                    for begin, type_ in zip(begins, types, strict=False)
                )
                self.expect("initial values", begins, wanted or types)
                return tuple(_arrays(types, extents))
            case fun.Scatter(destinations, _, _, combine):
                targets = [self.array(destination) for destination in destinations]
                if not targets:
                    self.fail("a scatter into nothing")
                for target in targets:
                    if not self.same_shape(target.shape, targets[0].shape):
                        self.fail("destinations of different shapes")
                values = tuple(fun.Scalar(target.dtype) for target in targets)
                self.expect("index and values", types, (I64,) * targets[0].rank + values)
                if combine is not None:
                    self.operator(combine, values)
                return tuple(targets)
            case _:
                assert_never(expr)

    def operator(self, operator: fun.Lambda, types: Types) -> None:
        """Check an operator that combines two tuples of scalars of these types."""
        if not all(isinstance(type_, fun.Scalar) for type_ in types):
            self.expect("values to combine", types, tuple(fun.Scalar(t.dtype) for t in types))
        params = tuple(param.type for param in operator.params)
        self.expect("operator parameters", params, types * 2)
        self.expect("operator results", self.inner(operator.body, operator.params), types)

    # ------------------------------------------------------------ control and calls

    def loop(self, expr: fun.Loop) -> Types:
        wanted = tuple(param.type for param in expr.params)
        self.expect("initial values", tuple(map(self.atom, expr.initial)), wanted)
        binders = list(expr.params)
        match expr.form:
            case fun.For(index, lower, upper):
                self.size(lower)
                self.size(upper)
                if index.type != I64:
                    self.fail(f"index {index.name} is {show_type(index.type)}")
                binders.append(index)
                found = self.inner(expr.body, binders)
            case fun.While(condition):
                with self.binding(binders):
                    self.expect("a condition", self.inner(condition), (BOOL,))
                    found = self.inner(expr.body)
            case _:
                assert_never(expr.form)
        self.expect("the loop's results", found, wanted)
        for type_ in wanted:
            self.type(type_)
        return wanted

    def call(self, expr: fun.Call) -> Types:
        types = tuple(map(self.atom, expr.arguments))
        given = tuple((t.dtype, t.shape if isinstance(t, fun.Array) else ()) for t in types)
        try:
            found = routines.routine(expr.routine).result_types(
                given, dict(expr.options), expr.extents
            )
        except WeftError as error:
            self.fail(error.found, error.expected)
        return tuple(
            fun.Array(dtype, tuple(map(as_poly, shape))) if shape else fun.Scalar(dtype)
            for dtype, shape in found
        )


def _arrays(types: Types, extents: tuple[Size, ...]) -> Iterator[fun.Type]:
    for type_ in types:
        own = type_.shape if isinstance(type_, fun.Array) else ()
        shape = extents + own
        yield fun.Array(type_.dtype, shape) if shape else type_
