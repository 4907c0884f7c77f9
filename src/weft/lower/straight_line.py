"""Reductions of few elements as straight-line code, from left to right.

One that selects an element (arg-max and its like) by the least or greatest key finds that key
first, and then, from the last element to the first, those that tie with it. So no comparison
waits for what the one before chose, of which gcc makes branches rather than vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from weft.fun import nodes as fun
from weft.fun import operators
from weft.fun.operators import Selection
from weft.imp import nodes as imp
from weft.lower.bodies import apply_lambda, scalar_results
from weft.lower.emitter import Emitter
from weft.lower.lanes import mask
from weft.ops.dtypes import DType

Values: TypeAlias = Sequence[imp.Expr]


def unrolled(e: Emitter, reduce: fun.Reduce) -> list[imp.Expr]:
    """A reduction over a few elements, at least one; each of its dimensions is a constant."""
    groups = operators.apart(reduce) if len(reduce.space) == 1 else {}
    selections = {
        components: found
        for components, own in groups.items()
        if (found := operators.selection(own)) is not None and found.is_extreme
    }
    if not selections:
        return _folded(e, reduce, _elements(e, reduce, 0))
    elements = list(_elements(e, reduce, 0))
    results: dict[int, imp.Expr] = {}
    for components, own in groups.items():
        parts = [[element[k] for k in components] for element in elements]
        selection = selections.get(components)
        best = _folded(e, own, parts) if selection is None else _selected(e, selection, parts)
        results.update(zip(components, best, strict=True))
    return [results[k] for k in range(len(results))]


def _elements(e: Emitter, reduce: fun.Reduce, dimension: int) -> Iterator[list[imp.Expr]]:
    """The elements at the indices chosen so far, in order."""
    if dimension == len(reduce.space):
        yield scalar_results(e, reduce.body)
        return
    r = reduce.space[dimension]
    for value in range(r.extent.constant):
        e.bind(r.index.name, imp.integer(value))
        yield from _elements(e, reduce, dimension + 1)


def _folded(e: Emitter, reduce: fun.Reduce, elements: Iterable[Values]) -> list[imp.Expr]:
    operator = operators.in_order(reduce)
    first, *others = elements
    total = list(first)
    for element in others:
        total = apply_lambda(e, operator, [*total, *element])
    return total


def _selected(e: Emitter, selection: Selection, elements: Sequence[Values]) -> list[imp.Expr]:
    """The first element whose key is the best one; the first with NaN, where there is one."""
    (choice,) = selection.best.body.statements
    better = "less" if choice.expr == fun.Apply("minimum", selection.best.params) else "greater"
    elements, narrow = _narrow(selection, elements, elements[0][selection.keys[0]].dtype)
    keys = [element[selection.keys[0]] for element in elements]
    best = keys[0]
    for key in keys[1:]:
        best = _either(e, _compared(e, better, key, best), [key], [best])[0]
    found = list(elements[-1])
    for key, element in zip(keys[-2::-1], elements[-2::-1], strict=True):
        found = _either(e, _compared(e, "equal", key, best), element, found)
    if best.dtype.is_float:
        for key, element in zip(keys[::-1], elements[::-1], strict=True):
            found = _either(e, _compared(e, "not_equal", key, key), element, found)
    if narrow:
        found[selection.position] = e.declare(imp.Cast(DType.I64, found[selection.position]))
    return found


def _compared(e: Emitter, operation: str, left: imp.Expr, right: imp.Expr) -> imp.Expr:
    return e.declare(imp.Apply(operation, (left, right), DType.BOOL))


def _either(e: Emitter, condition: imp.Expr, left: Values, right: Values) -> list[imp.Expr]:
    return [
        e.declare(imp.Select(condition, one, other))
        for one, other in zip(left, right, strict=True)
    ]


def _narrow(
    selection: Selection, elements: Sequence[Values], key: DType
) -> tuple[list[list[imp.Expr]], bool]:
    """The elements, with positions as wide as keys if they are constants; whether they are."""
    dtype = mask(key.itemsize)
    positions = [element[selection.position] for element in elements]
    found = [list(element) for element in elements]
    limit = 1 << (8 * dtype.itemsize - 1)
    if dtype is DType.I64 or not all(
        isinstance(at, imp.Const) and 0 <= int(at.value.real) < limit for at in positions
    ):
        return found, False
    for element, at in zip(found, positions, strict=True):
        assert isinstance(at, imp.Const)
        element[selection.position] = imp.Const(int(at.value.real), dtype)
    return found, True
