"""Statements in sequence: scalars, branches, loops; the rest is dispatched to its file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import assert_never

from weft.errors import InternalError
from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.lower import boundaries, bounds, parts
from weft.lower.emitter import Emitter
from weft.lower.unit import memory
from weft.ops import table
from weft.ops.dtypes import DType
from weft.sizes import Poly, Size, as_poly

SPECULATE = 64  # at most this many operations are computed where a branch would skip them


def lower_body(e: Emitter, body: fun.Body) -> tuple[fun.Atom, ...]:
    """The statements in order; the results, whose scalars are then known to the emitter."""
    checks = parts.checks(body)
    for position, let in enumerate(body.statements):
        for part in checks.get(position, ()):
            parts.check(e, part)
        e.place = let.place or e.place
        e.unit.statement(e, let)
    return body.results


def scalar_results(e: Emitter, body: fun.Body) -> list[imp.Expr]:
    return [e.atom(atom) for atom in lower_body(e, body)]


def apply_lambda(e: Emitter, function: fun.Lambda, arguments: Iterable[imp.Expr]) -> list[imp.Expr]:
    """The function's results on these arguments."""
    for param, argument in zip(function.params, arguments, strict=True):
        e.bind(param.name, e.declare(argument))
    return scalar_results(e, function.body)


# ---------------------------------------------------------------- scalars

TRUE = imp.Const(True, DType.BOOL)


def lower_scalar(e: Emitter, let: fun.Let) -> None:
    """One scalar, declared where it varies least."""
    (var,) = let.pattern
    expr = let.expr
    note(e, var, expr)
    match expr:
        case fun.Apply(operation, arguments):
            if e.interior and var.name in e.true_inside:
                e.bind(var.name, TRUE)
                return
            operands = tuple(map(e.atom, arguments))
            if operation == "logical_and" and TRUE in operands:
                e.bind(var.name, operands[1] if operands[0] == TRUE else operands[0])
                return
            value: imp.Expr = imp.Apply(operation, operands, var.type.dtype)
            cheap = table.lookup(operation).cost == "cheap"
            e.bind(var.name, e.declare(value, depth=None if cheap else _guarded(e, value)))
        case fun.Cast(dtype, argument):
            value = e.declare(imp.Cast(dtype, e.atom(argument)))
            e.bind(var.name, value)
            narrow = (argument.type.dtype, dtype) == (DType.I32, DType.I64)
            if narrow and isinstance(value, imp.Var):
                e.narrow[value.name] = e.atom(argument)
        case fun.SizeValue(size):
            e.bind(var.name, e.named(size))
        case fun.Index():
            e.bind(var.name, lower_index(e, expr))
        case _:
            raise InternalError(f"lower: not a scalar expression: {expr}")


def _guarded(e: Emitter, value: imp.Expr) -> int:
    return max(e.depth_of(value), e.floor)


def lower_index(e: Emitter, access: fun.Index) -> imp.Expr:
    """The element read, with its boundary rules and its bounds checked."""
    array = memory(access.array)
    indices, outside = boundaries.resolve(e, access)
    missing = bounds.check(e, access)
    conditions = [_dynamic(e, access.array.name, *check) for check in missing]
    pointer = e.pointer(array.block, array.dtype)
    address = array.index.apply(indices)
    if e.spans is not None and not conditions and not outside:
        found = e.spans.element(e, pointer, address)
        if found is not None:
            return e.declare(found, depth=e.depth)
    element = e.poly(address)
    at = max(e.depth_of(element), e.floor, e.depths.get("@" + access.array.name, 0))
    value: imp.Expr = imp.Load(pointer, element)
    for condition in conditions:
        if condition is not None:
            at = e.depth
            value = imp.Select(condition, value, imp.Const(0, array.dtype))
    for condition, otherwise in outside:
        at = max(at, e.depth_of(condition), e.depth_of(otherwise))
        value = imp.Select(condition, value, otherwise)
    return e.declare(value, depth=at)


def _dynamic(e: Emitter, array: str, axis: int, index: Size, extent: Size) -> imp.Expr | None:
    """Checks an index here: at once, or in a simd loop by what is true after it."""
    value, limit = e.named(index), e.named(extent)
    inside = bounds.within(e, value, limit)
    if e.watched is None:
        bounds.require(e, array, axis, value, limit)
        return None
    e.watch(value, limit, array, axis)
    return inside


def note(e: Emitter, var: fun.Var, expr: fun.Expr) -> None:
    """Remembers what an int64 or boolean scalar says about indices."""
    match expr:
        case fun.Apply():
            _note_operation(e, var, expr)
        case fun.Cast(DType.I64, fun.Var(name) as argument) if argument.type.dtype is DType.I64:
            e.definitions[var.name] = "is", (Poly.var(name),)
        case fun.SizeValue(size):
            e.definitions[var.name] = "is", (size,)


def _note_operation(e: Emitter, var: fun.Var, expr: fun.Apply) -> None:
    polys = [poly_of(atom) for atom in expr.arguments]
    if isinstance(var.type, fun.Scalar) and var.type.dtype is DType.BOOL:
        facts = comparison(e, expr, polys)
        if facts is not None:
            e.comparisons[var.name] = facts
    elif var.type.dtype is DType.I64 and all(poly is not None for poly in polys):
        left, right = polys[0], polys[-1]
        assert left is not None
        assert right is not None
        match expr.operation:
            case "add":
                e.definitions[var.name] = "is", (left + right,)
            case "subtract":
                e.definitions[var.name] = "is", (left - right,)
            case "multiply":
                e.definitions[var.name] = "is", (left * right,)
            case "negative":
                e.definitions[var.name] = "is", (-left,)
            case "minimum" | "maximum":
                e.definitions[var.name] = expr.operation, (left, right)


def poly_of(atom: fun.Atom) -> Size | None:
    """An int64 atom as a polynomial."""
    if atom.type.dtype is not DType.I64:
        return None
    return Poly.var(atom.name) if isinstance(atom, fun.Var) else as_poly(int(atom.value.real))


def comparison(
    e: Emitter, expr: fun.Apply, polys: list[Size | None]
) -> tuple[tuple[Size, ...], tuple[Size, ...]] | None:
    """What is >= 0 where a comparison holds, and where it does not."""
    known = [
        e.comparisons.get(atom.name) if isinstance(atom, fun.Var) else None
        for atom in expr.arguments
    ]
    match expr.operation:
        case "logical_not" | "bitwise_invert" if known[0] is not None:
            return known[0][1], known[0][0]
        case "logical_and" | "bitwise_and" | "multiply":
            return sum((k[0] for k in known if k), ()), ()
        case "logical_or" | "bitwise_or" | "add":
            return (), sum((k[1] for k in known if k), ())
    if len(polys) != 2 or polys[0] is None or polys[1] is None:
        return None
    left, right = bounds.expand(e, polys[0]), bounds.expand(e, polys[1])
    match expr.operation:
        case "less":
            return (right - left - 1,), (left - right,)
        case "less_equal":
            return (right - left,), (left - right - 1,)
        case "greater":
            return (left - right - 1,), (right - left,)
        case "greater_equal":
            return (left - right,), (right - left - 1,)
        case "equal":
            return (left - right, right - left), ()
        case _:
            return None


# ---------------------------------------------------------------- branches


def lower_if(e: Emitter, let: fun.Let) -> None:
    """A branch: scalars by selection where both sides may be computed, else by control."""
    expr = let.expr
    assert isinstance(expr, fun.If)
    facts = None
    if isinstance(expr.condition, fun.Var):
        facts = e.comparisons.get(expr.condition.name)
    true, false = facts if facts is not None else ((), ())
    condition = e.atom(expr.condition)
    scalars = all(isinstance(var.type, fun.Scalar) for var in let.pattern)
    if scalars and condition == TRUE:
        with bounds.assumed(e, true):
            for var, value in zip(let.pattern, scalar_results(e, expr.then), strict=True):
                e.bind(var.name, value)
        return
    if scalars and speculable(e, expr.then) and speculable(e, expr.otherwise):
        yes = scalar_results(e, expr.then)
        no = scalar_results(e, expr.otherwise)
        for var, left, right in zip(let.pattern, yes, no, strict=True):
            value = left if left == right else imp.Select(condition, left, right)
            e.bind(var.name, e.declare(value))
        return
    slots = [
        e.mutable(var.type.dtype, None) if isinstance(var.type, fun.Scalar) else None
        for var in let.pattern
    ]
    branches = []
    for body, known in ((expr.then, true), (expr.otherwise, false)):
        with side(e, known if facts is not None else None) as statements:
            results = lower_body(e, body)
            for slot, result in zip(slots, results, strict=True):
                if slot is not None:
                    e.emit(imp.Assign(slot, e.atom(result)))
        branches.append(tuple(statements))
    e.emit(imp.If(condition, branches[0], branches[1]))
    for var, slot in zip(let.pattern, slots, strict=True):
        if slot is not None:
            e.bind(var.name, slot)
        else:
            e.depths["@" + var.name] = e.depth


@contextmanager
def side(e: Emitter, known: tuple[Size, ...] | None) -> Iterator[list[imp.Stmt]]:
    """A side of a branch, where the polynomials `known` are >= 0 (None: nothing is known)."""
    conditional = e.conditional
    with e.level() as statements, bounds.assumed(e, known or ()):
        e.conditional = e.conditional or known is None
        yield statements
    e.conditional = conditional


def speculable(e: Emitter, body: fun.Body) -> bool:
    """Whether the body may be computed where its results are not wanted, and cheaply."""
    work = 0
    for let in body.statements:
        match let.expr:
            case fun.Apply(operation, _):
                work += COST[table.lookup(operation).cost]
            case fun.Cast() | fun.SizeValue():
                work += 1
            case fun.Index() as access:
                work += 2
                if not bounds.proved(e, access) or has_unknown(e, access):
                    return False
            case fun.If(_, then, otherwise):
                if not (speculable(e, then) and speculable(e, otherwise)):
                    return False
            case fun.Slice() | fun.LmadSlice() | fun.Permute() | fun.Reshape() | fun.Broadcast():
                pass
            case _:
                return False
    return work <= SPECULATE


def has_unknown(e: Emitter, access: fun.Index) -> bool:
    """Whether an index names a scalar that is not computed yet (inside the same body)."""
    return any(name not in e.scalars for index in access.indices for name in index.variables())


COST = {"cheap": 1, "moderate": 4, "expensive": 16}


# ---------------------------------------------------------------- loops


def lower_loop(e: Emitter, let: fun.Let) -> None:
    """A sequential loop over scalar and array parameters."""
    loop = let.expr
    assert isinstance(loop, fun.Loop)
    states: list[imp.Var | None] = []
    for param, initial in zip(loop.params, loop.initial, strict=True):
        if isinstance(param.type, fun.Scalar):
            begin = e.mutable(param.type.dtype, e.atom(initial))
            e.bind(param.name, begin)
            states.append(begin)
        else:
            states.append(None)
    ranges = e.ranges
    match loop.form:
        case fun.For(index, lower, upper):
            step = e.unit.integer("i")
            first, last = e.named(lower), e.named(upper)
            with e.loop(step, first, last), e.index(index.name, step, lower, upper):
                _round(e, loop, states)
        case fun.While(condition):
            with e.level() as body:
                conditional, e.conditional = e.conditional, True
                e.emit(imp.Poll())
                _vary(e, loop, states)
                (going,) = scalar_results(e, condition)
                e.emit(imp.If(imp.Apply("logical_not", (going,), DType.BOOL), (imp.Break(),)))
                _round(e, loop, states)
                e.conditional = conditional
            e.emit(imp.While(imp.Const(True, DType.BOOL), tuple(body)))
        case _:
            assert_never(loop.form)
    e.ranges = ranges
    for var, state in zip(let.pattern, states, strict=True):
        if state is not None:
            e.depths[state.name] = e.depth
            e.bind(var.name, state)
        else:
            e.depths["@" + var.name] = e.depth


def _round(e: Emitter, loop: fun.Loop, states: list[imp.Var | None]) -> None:
    """One round: all results are computed before any parameter changes."""
    _vary(e, loop, states)
    results = lower_body(e, loop.body)
    pending: list[imp.Stmt] = []
    for state, result in zip(states, results, strict=True):
        if state is not None:
            value = e.atom(result)
            if value in states and value != state:
                value = e.declare_here(value)
            pending.append(imp.Assign(state, value))
    for statement in pending:
        e.emit(statement)


def _vary(e: Emitter, loop: fun.Loop, states: list[imp.Var | None]) -> None:
    """States change each round, so nothing computed from them may leave the loop."""
    for param in loop.params:
        e.depths["@" + param.name] = e.depth
    for state in states:
        if state is not None:
            e.depths[state.name] = e.depth
