"""Statements of a user's function, interpreted on tracers."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from weft import functions
from weft.array import Array
from weft.errors import DTypeError, ShapeError, WeftError, interpreting
from weft.frontend import given_lengths
from weft.frontend.extent import Extent
from weft.kernel import (
    assertions,
    branches,
    first_round,
    grown,
    iterables,
    loops,
    maybe,
    ordered,
    selection,
    writing,
)
from weft.kernel.branches import RAISED
from weft.kernel.expressions import (
    as_truth,
    assign_names,
    binary,
    closure,
    evaluate,
    gathered,
    index,
    negated,
    optional,
    returned,
    truth,
)
from weft.kernel.frame import Frame, ReadUnbound, Trace, cells, is_traced, plain
from weft.kernel.iterables import Items
from weft.kernel.keys import resolved
from weft.kernel.lists import Grown
from weft.kernel.narrowing import narrow
from weft.kernel.parts import attribute, subscript, unpacked
from weft.kernel.syntax import Source, left_flag, read_source, returns
from weft.kernel.values import Reference, Selection
from weft.records import dataclass

_DEEPEST = 64  # calls within calls


@dataclass(frozen=True, slots=True)
class Returned:
    """The function returned."""

    value: Any


def execute(frame: Frame, statements: Sequence[ast.stmt]) -> Returned | None:
    """Run statements; gives what a `return` among them gave."""
    for position, statement in enumerate(statements):
        with interpreting(frame.place(statement)):
            rest = statements[position + 1 :]
            if isinstance(statement, ast.If):
                done, returned = _if(frame, statement, rest)
                if done or returned is not None:
                    return returned
                continue
            returned = _statement(frame, statement)
            if returned is not None:
                return returned
    return None


def _statement(frame: Frame, node: ast.stmt) -> Returned | None:
    match node:
        case ast.Return(value):
            return Returned(None if value is None else returned(frame, value))
        case ast.Assign(targets, value):
            found = frame.held(optional(frame, value), node)
            for target in targets:
                assign(frame, target, found)
        case ast.AnnAssign(target, _, value):
            if value is not None:
                assign(frame, target, optional(frame, value))
        case ast.AugAssign():
            _augmented(frame, node)
        case ast.For():
            return _loop(frame, lambda: _for(frame, node))
        case ast.While():
            return _loop(frame, lambda: _while(frame, node))
        case ast.Expr(value):
            if not isinstance(value, ast.Constant):
                evaluate(frame, value)
        case ast.FunctionDef(name):
            frame.assign(name, closure(frame, node), node)
        case ast.Pass() | ast.Import() | ast.ImportFrom():
            _imported(frame, node)
        case ast.Delete(targets):
            for target in targets:
                if not isinstance(target, ast.Name):
                    frame.refuse(node, "del of what is no name", "del name")
                frame.variables.pop(target.id, None)
        case ast.Assert():
            if __debug__:
                _assert(frame, node)
        case ast.Raise(error) if error is not None:
            return _raise(frame, node, error)
        case _:
            frame.refuse(
                node, f"{_WORDS.get(type(node), type(node).__name__)} in a kernel",
                "assignments, if, for, while, return, and calls",
                _INSTEAD.get(type(node), "do it outside of the kernel"),
            )  # fmt: skip
    return None


_WORDS: dict[type[ast.stmt], str] = {
    ast.Try: "try", ast.With: "with", ast.ClassDef: "class",
    ast.Raise: "raise of no error", ast.Global: "global", ast.Nonlocal: "nonlocal",
    ast.AsyncFor: "async for", ast.AsyncWith: "async with", ast.Match: "match",
    ast.AsyncFunctionDef: "async def",
}  # fmt: skip

_INSTEAD: dict[type[ast.stmt], str] = {
    ast.Global: "return the new value, and assign it to the global name where the kernel is called",
    ast.Nonlocal: "return the new value from the inner function: x = inner(x)",
}


def _imported(frame: Frame, node: ast.stmt) -> None:
    import importlib

    if isinstance(node, ast.Import):
        for alias in node.names:
            module = importlib.import_module(alias.name)
            top = importlib.import_module(alias.name.split(".")[0])
            frame.variables[alias.asname or alias.name.split(".")[0]] = (
                module if alias.asname else top
            )
    elif isinstance(node, ast.ImportFrom) and node.module:
        module = importlib.import_module(node.module)
        for alias in node.names:
            frame.variables[alias.asname or alias.name] = getattr(module, alias.name)


def _assert(frame: Frame, node: ast.Assert) -> None:
    """An error while compiling, where that decides and is sure to be reached; else of the run."""
    held = truth(frame, node.test)
    error, place = assertions.error_of(node), frame.place(node)
    if isinstance(held, Array):
        frame.trace.assertions.note(frame.memory, held, error, place)
    elif not held and frame.memory.regions:
        frame.trace.assertions.fail(frame.memory, error, place)
    elif not held:
        if isinstance(node.msg, ast.JoinedStr):
            error = AssertionError(evaluate(frame, node.msg))
        raise assertions.placed(error, place)


def _raise(frame: Frame, node: ast.Raise, error: ast.expr) -> Returned:
    """Raise while compiling, where that is sure to be reached; else let the run note it."""
    if not frame.memory.regions:
        raise _error(frame, error, _known)
    made = _error(frame, error, _written)
    if isinstance(made, type) and issubclass(made, Exception):
        made = made()
    if not isinstance(made, Exception):
        frame.refuse(node, "raise of what is no exception", "ValueError(...), or another one")
    frame.trace.assertions.fail(frame.memory, made, frame.place(node))
    return Returned(RAISED)


def _error(
    frame: Frame, node: ast.expr, argument: Callable[[Frame, ast.expr], Any]
) -> Any:
    """An exception, made of arguments as `argument` gives each."""
    if not isinstance(node, ast.Call) or node.keywords:
        return evaluate(frame, node)
    kind = evaluate(frame, node.func)
    is_error = isinstance(kind, type) and issubclass(kind, Exception)
    return kind(*(argument(frame, a) for a in node.args)) if is_error else evaluate(frame, node)


def _written(_: Frame, node: ast.expr) -> Any:
    """An argument of an error: what is computed as its source."""
    return node.value if isinstance(node, ast.Constant) else ast.unparse(node)


def _known(frame: Frame, node: ast.expr) -> Any:
    """An argument of an error: what only the run knows as its source."""
    value = plain(evaluate(frame, node))
    if is_traced(value):
        return ast.unparse(node)
    return int(value) if isinstance(value, Extent) else value


# ---------------------------------------------------------------- assignment


def assign(frame: Frame, target: ast.expr, value: Any) -> None:
    match target:
        case ast.Name(name):
            frame.assign(name, value, target)
        case ast.Tuple(parts) | ast.List(parts):
            value = maybe.needed(frame, target, value)
            parts, values = gathered(parts, unpacked(frame, target, value))
            if len(values) != len(parts):
                frame.refuse(target, f"{len(values)} values for {len(parts)} names", "as many")
            for part, element in zip(parts, values, strict=True):
                assign(frame, part, element)
        case ast.Subscript(container, key):
            held = evaluate(frame, container)
            value = maybe.needed(frame, target, value)
            _write(frame, target, held, index(frame, key), value)
        case ast.Attribute():
            writing.write(frame, target, _part(frame, target), maybe.needed(frame, target, value))
        case _:
            frame.refuse(target, "an assignment to no place", "a name, or elements of an array")


def _write(frame: Frame, node: ast.AST, held: Any, key: Any, value: Any) -> None:
    if isinstance(held, list):
        if isinstance(key, Array):
            grown.require_growing(frame, node, held)
        grown.let_grow(frame, held)
        frame.require_own(node, held)
        held[key] = frame.held(value, node)
        return
    if type(held) is dict:
        frame.require_own(node, held)
        held[key] = frame.held(value, node)
        return
    if isinstance(held, Grown):
        grown.replace(frame, node, held, key, value)
        return
    if isinstance(held, Reference):
        key = resolved(frame, held.read(), key)
    writing.write(frame, node, held, value, key)


def _augmented(frame: Frame, node: ast.AugAssign) -> None:
    target = node.target
    if isinstance(target, ast.Name):
        held = evaluate(frame, ast.copy_location(ast.Name(target.id, ast.Load()), target))
        operand = evaluate(frame, node.value)
        if isinstance(held, Grown) and isinstance(node.op, ast.Add):
            grown.method(frame, node, held, "extend", [operand])
            return
        if isinstance(held, list) and not isinstance(operand, Reference | Array):
            _change_list(frame, node, held, operand)
            frame.assign(target.id, held, target)
            return
        if ordered.is_list(held):
            ordered.require_no_change(frame, node, "+=")
        value = binary(frame, node, node.op, held, operand)
        if isinstance(held, Reference):
            _write_over(frame, node, held, value)
        elif isinstance(held, Selection):
            if not selection.may_be_replaced(frame, held):
                selection.require_separate(frame, node, held)
            kept = frame.held(_of_its_dtype(frame, node, held, value), target)
            for name in [name for name, other in frame.variables.items() if other is held]:
                frame.assign(name, kept, target)
        else:
            frame.assign(target.id, value, target)
    elif isinstance(target, ast.Subscript):
        held = evaluate(frame, target.value)
        key = index(frame, target.slice)
        old = subscript(frame, target, held, key)
        value = binary(frame, node, node.op, old, evaluate(frame, node.value))
        if type(held) in (list, dict) and isinstance(old, Reference):
            _write_over(frame, node, old, value)  # which it holds still
            return
        if isinstance(old, Selection):
            value = _of_its_dtype(frame, node, old, value)
        elif isinstance(part := plain(old), Array) and part.ndim:
            _require_kept(frame, node, part.dtype, plain(value).dtype)
        _write(frame, target, held, key, value)
    else:
        part = _part(frame, target)
        value = binary(frame, node, node.op, part, evaluate(frame, node.value))
        _write_over(frame, node, part, value)


def _change_list(frame: Frame, node: ast.AugAssign, held: list[Any], operand: Any) -> None:
    """`held += parts` and `held *= count`: in place, for all variables that hold the list."""
    frame.require_own(node, held)
    if isinstance(node.op, ast.Add):
        held += unpacked(frame, node, operand)
    else:
        held[:] = binary(frame, node, node.op, held, operand)


def _part(frame: Frame, target: ast.Attribute) -> Reference:
    """What an assignment to `x.real` or `x.imag` writes."""
    if target.attr in ("real", "imag"):
        held = evaluate(frame, target.value)
        part = attribute(frame, target, held, target.attr) if isinstance(held, Reference) else held
        if isinstance(part, Reference):
            return part
    frame.refuse(
        target, "an assignment to an attribute", "a name, elements of an array, x.real or x.imag"
    )


def _write_over(frame: Frame, node: ast.AST, held: Reference, value: Any) -> None:
    """`x += y` of an array: in place, and so of its dtype."""
    _require_kept(frame, node, held.read().dtype, plain(value).dtype)
    writing.write(frame, node, held, value)


def _of_its_dtype(frame: Frame, node: ast.AST, held: Selection, value: Any) -> Selection:
    """The same of elements that a mask selects, which several names may hold."""
    assert isinstance(value, Selection)
    own = held.array.dtype
    _require_kept(frame, node, own, value.array.dtype)
    return Selection(functions.astype(value.array, own), value.mask)


def _require_kept(frame: Frame, node: ast.AST, own: Any, given: Any) -> None:
    """Refuse what gives another kind of numbers in place."""
    if not np.can_cast(given, own, "same_kind"):
        raise DTypeError(
            f"an operation in place that gives {given} on an array of {own}",
            f"an operand that keeps {own}", "x = x + y instead of x += y",
            place=frame.place(node),
        )  # fmt: skip


# ---------------------------------------------------------------- branches and loops


def _if(frame: Frame, node: ast.If, rest: Sequence[ast.stmt]) -> tuple[bool, Returned | None]:
    """An `if`, and where one of its branches returns, also what follows: then the first is True."""
    condition = truth(frame, node.test)
    if not isinstance(condition, Array):
        taken = node.body if condition else node.orelse
        if returns(taken):  # perhaps under a traced condition, which decides about the rest
            return True, execute(frame, [*taken, *rest])
        return False, execute(frame, taken)

    def side(statements: Sequence[ast.stmt]) -> Callable[[], Any]:
        def run() -> Any:
            returned = execute(frame, statements)
            return None if returned is None else returned.value

        return run

    if not returns([*node.body, *node.orelse]):
        branches.branch(frame, node, condition, side(node.body), side(node.orelse))
        return False, None
    sides = side([*node.body, *rest]), side([*node.orelse, *rest])
    return True, Returned(branches.branch(frame, node, condition, *sides))


def _loop(frame: Frame, run: Callable[[], Returned | None]) -> Returned | None:
    """A loop; one that reads what a loop around it binds later has no rounds in its first."""
    try:
        return run()
    except ReadUnbound as signal:
        if not signal.frame.is_awaited(signal.name):
            raise signal.error from None
        signal.note()
        return None


def _for(frame: Frame, node: ast.For) -> Returned | None:
    bounds, parallel = iterables.range_of(frame, node.iter)

    def body() -> Returned | None:
        return execute(frame, node.body)

    def run() -> None:
        branches.noting(frame, node, body)

    if bounds is not None and (parallel or not loops.is_small(bounds)):
        ends = bounds

        def bind(value: Any) -> None:
            assign_names(frame, node.target, value)

        def traced() -> None:
            if parallel:
                loops.for_range(frame, node, ends, run, bind, parallel)
            else:
                first_round.for_range(frame, node, ends, run, bind, body)

        few = None if parallel else loops.few_rounds(bounds)
        return _traced_or_unrolled(frame, node, traced, few)
    over = iterables.items_of(frame, node.iter)
    if over.is_known:
        return _one_by_one(frame, node, over, range(int(over.count)))

    def bind_item(number: Any) -> None:
        assign(frame, node.target, over.item(number))

    with grown.gone_over(over.lists):
        numbers = 0, over.count, 1
        first_round.for_range(frame, node, numbers, run, bind_item, body, by_range=False)
    return None


def _traced_or_unrolled(
    frame: Frame, node: ast.For, traced: Callable[[], None], count: Extent | None
) -> Returned | None:
    """A loop over a range: its few rounds each by itself, where lengths differ between them."""
    if count is None:
        traced()
        return None
    variables, places = dict(frame.variables), dict(frame.assigned_at)
    try:
        with given_lengths.bounded():
            traced()
        return None
    except ShapeError:
        frame.variables, frame.assigned_at = dict(variables), dict(places)
    try:
        return _one_by_one(frame, node, iterables.items_of(frame, node.iter), range(int(count)))
    except WeftError:
        frame.variables, frame.assigned_at = variables, places
    traced()
    return None


def _one_by_one(
    frame: Frame, node: ast.For, over: Items, numbers: Sequence[int]
) -> Returned | None:
    """The rounds of a loop over what is known, each by itself."""
    flag = left_flag(node)
    if flag is not None:
        frame.variables[flag] = False
    for place, number in enumerate(numbers):
        assign(frame, node.target, over.item(number))
        returned = execute(frame, node.body)
        if returned is not None:
            return returned
        if flag is None:
            continue
        left = as_truth(frame, node, frame.variables[flag])
        if isinstance(left, Array):
            rest = numbers[place + 1 :]
            if rest:
                others = partial(_one_by_one, frame, node, over, rest)
                branches.branch(frame, node, negated(left), others, lambda: None)
            return None
        if left:
            break
    return None


def _while(frame: Frame, node: ast.While, done: int = 0) -> None:
    def body() -> Returned | None:
        narrow(frame, node)
        return execute(frame, node.body)

    def run() -> None:
        branches.noting(frame, node, body)

    def first() -> bool | None:
        holds = truth(frame, node.test)
        if isinstance(holds, Array):
            return None
        if holds:
            execute(frame, node.body)
        return bool(holds)

    first_round.or_apart(
        frame, node, lambda: loops.while_traced(frame, node, lambda: truth(frame, node.test), run),
        first, lambda done: _while(frame, node, done), done,
    )  # fmt: skip


# ---------------------------------------------------------------- functions


_sources: dict[Any, Source] = {}


def source_of(function: Any) -> Source:
    found = _sources.get(function)
    if found is None:
        found = _sources[function] = read_source(function)
    return found


def call_function(trace: Trace, function: Any, arguments: Sequence[Any], named: Any) -> Any:
    """Interpret a call of a user's function."""
    source = source_of(function)
    frame = Frame(source, trace, {})
    bound = inspect.signature(function).bind(*arguments, **named)
    bound.apply_defaults()
    known = frame.outside if trace.depth == 0 else frame.constant
    for name, value in bound.arguments.items():
        frame.assign(name, known(value), source.tree)
        frame.foreign.update(cells(value))
    return enter(frame, source.tree)


def enter(frame: Frame, node: ast.FunctionDef | ast.Lambda) -> Any:
    """Interpret the body of a function, its arguments being bound."""
    trace = frame.trace
    if trace.depth >= _DEEPEST:
        frame.refuse(
            node, f"{getattr(node, 'name', 'a lambda')} calls itself, {_DEEPEST} calls deep",
            "calls whose depth is known while compiling", "a loop",
        )  # fmt: skip
    trace.depth += 1
    try:
        if isinstance(node, ast.Lambda):
            return optional(frame, node.body)
        returned = execute(frame, node.body)
    finally:
        trace.depth -= 1
    return None if returned is None or returned.value is RAISED else returned.value
