"""Variables that exchange their arrays in every round of a loop, as `a, b = b, a` does."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Any

from weft.array import Array
from weft.frontend.extent import Extent
from weft.frontend.graph import scalar_constant
from weft.functions import where
from weft.kernel import one_of
from weft.kernel.carried_values import Scalar, Whole
from weft.kernel.frame import Frame
from weft.kernel.values import OneOf, Reference, replaced
from weft.ops.dtypes import DType

COUNT = ".turns"
"""The number that counts the rounds of a loop, where that is not known while compiling."""


def noted(
    wholes: Iterable[str], entry: Mapping[str, Reference], variables: Mapping[str, Any]
) -> dict[str, str] | None:
    """Which variables have exchanged their arrays: whose entry array each ends with."""
    names = {id(reference): name for name, reference in entry.items()}
    ends = {name: names.get(id(variables[name])) for name in wholes}
    turned = {name: end for name, end in ends.items() if end is not None}
    return turned if turned and sorted(turned.values()) == sorted(turned) else None


def are_own(turned: Iterable[str], wholes: Mapping[str, Whole]) -> bool:
    """Whether nobody else sees these arrays: then which is which does not matter."""
    return not any(wholes[name].began for name in turned)


def counter() -> Scalar:
    """What counts the rounds."""
    return Scalar(COUNT, scalar_constant(0, DType.I64), DType.I64, False)


def turn_back(
    frame: Frame, node: ast.AST, turned: dict[str, str], wholes: Mapping[str, Whole],
    arrays: Mapping[str, Array], rounds: Extent | Array,
) -> None:  # fmt: skip
    """After a loop, let variables have what they do: which has which is the count's.

    After r rounds the array that `name` began with is where `turned` leads, r times.
    """
    ways = _ways(turned)
    over = rounds % len(ways)
    before: dict[str, Any] = {name: wholes[name].before for name in turned}
    if isinstance(over, Array):
        for name in turned:
            found = arrays[name]
            for k, way in enumerate(ways[1:], 1):
                has_it = next(own for own, end in way.items() if end == name)
                found = where(over == k, arrays[has_it], found)
            _write(frame, node, before[name], found)
        for name in turned:
            held = [before[way[name]] for way in ways]
            frame.variables[name] = one_of.of(frame, node, held, over)
        return
    *others, last = ways
    way = next((way for k, way in enumerate(others) if over == k), last)
    for name, end in way.items():
        frame.variables[name] = before[end]
        _write(frame, node, before[end], arrays[name])


def _write(frame: Frame, node: ast.AST, target: Reference, array: Array) -> None:
    """Let an array hold another's elements."""
    if isinstance(target, OneOf):
        one_of.write(frame, node, target, lambda own: _write(frame, node, own, array))
        return
    cell = target.cell
    frame.memory.write(cell, replaced(cell.array, target.views, array))


def _ways(turned: dict[str, str]) -> list[dict[str, str]]:
    """Whose array each variable has after 0, 1, 2 ... rounds, until all have their own again."""
    ways = [{name: name for name in turned}]
    while True:
        after = {name: turned[own] for name, own in ways[-1].items()}
        if after == ways[0]:
            return ways
        ways.append(after)
