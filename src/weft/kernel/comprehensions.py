"""Comprehensions: lists of what is known while tracing, arrays of what only the run knows."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from weft import functions
from weft.array import Array, node_of
from weft.errors import UnsupportedError, WeftError
from weft.frontend import extent as extents
from weft.frontend import layout
from weft.kernel import calls, grown, iterables
from weft.kernel.branches import chosen, nothing
from weft.kernel.calls import goes_over
from weft.kernel.expressions import assign_names, evaluate, truth
from weft.kernel.frame import Frame, plain
from weft.kernel.maybe import is_number
from weft.kernel.values import NotCarried, Selection
from weft.records import dataclass

Comprehension = ast.ListComp | ast.GeneratorExp


@dataclass(frozen=True, slots=True)
class Given:
    """The numbers that a comprehension gives; `are_weak`: they are Python's."""

    values: Array | Selection
    are_weak: bool


def listed(frame: Frame, node: Comprehension) -> Any:
    """A list; of what is known while tracing each element is evaluated by itself."""
    before = dict(frame.variables)
    is_list = isinstance(node, ast.ListComp)
    if is_list and not _is_known(frame, node.generators[0]):
        return _grown(frame, node)
    try:
        found = [evaluate(frame, node.elt) for _ in _rounds(frame, node, node.generators)]
    except _DecidedByRun as signal:
        if not is_list:
            raise signal.refusal from None
        return _grown(frame, node)
    finally:
        frame.variables = before
    return calls.listed(frame, node, found) if is_list else found


class _DecidedByRun(Exception):  # noqa: N818 - a signal: let a loop append the elements
    """How many elements there are, only the run knows."""

    def __init__(self, refusal: WeftError) -> None:
        super().__init__()
        self.refusal = refusal


def _is_known(frame: Frame, generator: ast.comprehension) -> bool:
    """Whether what a comprehension goes over is known while compiling."""
    bounds, _ = iterables.range_of(frame, generator.iter)
    if bounds is not None:
        return all(isinstance(bound, int) for bound in bounds)
    return iterables.items_of(frame, generator.iter).is_known


def _grown(frame: Frame, node: Comprehension) -> Any:
    """A list to which loops append what a comprehension gives."""
    from weft.kernel.statements import execute  # which evaluate expressions in turn

    before, own = dict(frame.variables), ".list"
    is_common = frame.trace.growing.get(frame.place(node), False)
    made = grown.begun(frame, [], node, is_common)
    append = ast.Attribute(ast.Name(own, ast.Load()), "append", ast.Load())
    body: ast.stmt = ast.Expr(ast.Call(append, [node.elt], []))
    read = frozenset(part.id for part in ast.walk(node) if isinstance(part, ast.Name)) | {own}
    for generator in reversed(node.generators):
        for test in reversed(generator.ifs):
            body = _noting(ast.If(test, [body], []), read)
        body = _noting(ast.For(generator.target, generator.iter, [body], []), frozenset())
    for part in ast.walk(body):
        if not hasattr(part, "lineno"):
            ast.copy_location(part, node)
    frame.variables[own] = made
    try:
        execute(frame, [body])
    finally:
        frame.variables = before
    return made


def _noting(statement: ast.stmt, live: frozenset[str]) -> ast.stmt:
    """A statement after which some variables may be read (`liveness`)."""
    statement.live = live  # type: ignore[attr-defined]
    return statement


def _rounds(
    frame: Frame, node: Comprehension, generators: Sequence[ast.comprehension]
) -> Iterator[None]:
    """Bind the targets to one thing after the other, where the conditions hold."""
    if not generators:
        yield
        return
    first, *more = generators
    elements = evaluate(frame, first.iter)
    if not isinstance(elements, tuple | list | range):
        raise _DecidedByRun(UnsupportedError(
            "a comprehension over what is not known while compiling",
            "one over a tuple, or a range of constants; any, all, sum, min, max, or a function of "
            "NumPy, of numbers in one `for`", "a loop that writes an array",
            place=frame.place(node),
        ))  # fmt: skip
    for element in elements:
        assign_names(frame, first.target, element)
        if all(_is_kept(frame, test) for test in first.ifs):
            yield from _rounds(frame, node, more)


def _is_kept(frame: Frame, test: ast.expr) -> bool:
    held = truth(frame, test)
    if isinstance(held, Array):
        raise _DecidedByRun(UnsupportedError(
            "a list of as many as a condition keeps, which only the run knows",
            "conditions that are known while compiling; any, all, sum, min, max, or a function of "
            "NumPy, of such numbers", "an array that a loop fills, and a count of what is in it",
            place=frame.place(test),
        ))  # fmt: skip
    return bool(held)


def consumed(frame: Frame, node: ast.Call, function: Any) -> Given | None:
    """What a call's first argument gives, if that is numbers, and only the run knows how many.

    They are an array, of which conditions select. None of what is to be evaluated as it stands.
    """
    argument = node.args[0] if node.args else None
    if function is sorted and isinstance(argument, ast.Call):
        bounds, _ = iterables.range_of(frame, argument)
        return None if bounds is None else Given(functions.arange(*bounds), are_weak=True)
    if not isinstance(argument, Comprehension) or len(argument.generators) != 1:
        return None
    if not goes_over(function):
        return None
    (generator,) = argument.generators
    bounds, _ = iterables.range_of(frame, generator.iter)
    if bounds is not None and all(isinstance(bound, int) for bound in bounds):
        return None
    items = iterables.items_of(frame, generator.iter)
    return None if items.is_known else _generated(frame, argument, generator, items)


def _generated(
    frame: Frame, node: Comprehension, generator: ast.comprehension, items: iterables.Items
) -> Given | None:
    values: list[Any] = []
    before = dict(frame.variables)
    region = frame.memory.enter(set())

    def evaluated() -> Any:
        values.append(plain(evaluate(frame, node.elt)))
        return values[-1]

    def element(i: Array) -> Any:
        i._node.weak = True  # a Python int
        assign_names(frame, generator.target, items.item(i))
        if not generator.ifs:
            return evaluated()
        kept = truth(frame, ast.BoolOp(ast.And(), generator.ifs))
        if not isinstance(kept, Array):
            return evaluated(), kept
        return chosen(frame, node, kept, evaluated, lambda: nothing(values[-1])), kept

    count = layout.limited("maximum", extents.as_extent(items.count), layout.ZERO)
    try:
        made = functions.generate(count, element)
    except NotCarried as signal:
        if signal.region is not region:
            raise
        frame.refuse(node, "a comprehension that writes to an array", "a for loop")
    finally:
        frame.memory.leave(region)
        frame.variables = before
    if not all(map(is_number, values)):
        return None
    given = Selection(*made) if generator.ifs else made
    return Given(given, all(node_of(value).weak for value in values))
