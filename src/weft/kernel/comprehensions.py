"""Comprehensions: lists of what is known while tracing, arrays of what only the run knows."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from weft import functions
from weft.array import Array, node_of
from weft.frontend import extent as extents
from weft.frontend import layout
from weft.kernel import iterables
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


def listed(frame: Frame, node: Comprehension) -> list[Any]:
    """A list of what is known while tracing: each element is evaluated by itself."""
    before = dict(frame.variables)
    found = [evaluate(frame, node.elt) for _ in _rounds(frame, node, node.generators)]
    frame.variables = before
    return found


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
        frame.refuse(
            node, "a comprehension over what is not known while compiling",
            "one over a tuple, or a range of constants; any, all, sum, min, max, or a function of "
            "NumPy, of numbers in one `for`", "a loop that writes an array",
        )  # fmt: skip
    for element in elements:
        assign_names(frame, first.target, element)
        if all(_is_kept(frame, test) for test in first.ifs):
            yield from _rounds(frame, node, more)


def _is_kept(frame: Frame, test: ast.expr) -> bool:
    held = truth(frame, test)
    if isinstance(held, Array):
        frame.refuse(
            test, "a list of as many as a condition keeps, which only the run knows",
            "conditions that are known while compiling; any, all, sum, min, max, or a function of "
            "NumPy, of such numbers", "an array that a loop fills, and a count of what is in it",
        )  # fmt: skip
    return bool(held)


def consumed(frame: Frame, node: ast.Call, function: Any) -> Given | None:
    """What a call's first argument gives, if that is numbers, and only the run knows how many.

    They are an array, of which conditions select. None of what is to be evaluated as it stands.
    """
    argument = node.args[0] if node.args else None
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
