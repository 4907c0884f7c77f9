"""Variables that exchange their arrays in every round of a loop, as `a, b = b, a` does."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Any

from weft.array import Array
from weft.frontend.extent import Extent
from weft.kernel.carried_values import Whole
from weft.kernel.frame import Frame
from weft.kernel.values import Reference, replaced


def noted(
    wholes: Iterable[str], entry: Mapping[str, Reference], variables: Mapping[str, Any]
) -> dict[str, str] | None:
    """Which variables have exchanged their arrays: whose entry array each ends with."""
    names = {id(reference): name for name, reference in entry.items()}
    ends = {name: names.get(id(variables[name])) for name in wholes}
    turned = {name: end for name, end in ends.items() if end is not None}
    return turned if turned and sorted(turned.values()) == sorted(turned) else None


def turn_back(
    frame: Frame, node: ast.AST, turned: dict[str, str], wholes: Mapping[str, Whole],
    arrays: Mapping[str, Array], rounds: Extent | None,
) -> None:  # fmt: skip
    """After a loop, let variables have what they do: which has which is the count's.

    After r rounds the array that `name` began with is where `turned` leads, r times.
    """
    order = _order(turned)
    if rounds is None or rounds.symbols:
        frame.refuse(
            node, f"{' and '.join(turned)} exchange their arrays in a loop whose number "
            "of rounds is not known", "range of a size or an argument",
            "copy the values: a[...] = b",
        )  # fmt: skip
    over = rounds % order
    steps = next(k for k in range(order) if k == order - 1 or over == k)
    before = {name: wholes[name].before for name in turned}
    for name, array in arrays.items():
        if name not in turned:
            continue
        own = name
        for _ in range(steps):
            own = turned[own]
        target = before[own]
        assert target is not None
        frame.variables[name] = target
        frame.memory.write(target.cell, replaced(target.cell.array, target.views, array))


def _order(turned: dict[str, str]) -> int:
    """After how many rounds all variables have the arrays that they began with."""
    now, count = {name: turned[name] for name in turned}, 1
    while any(name != own for name, own in now.items()):
        now = {name: turned[own] for name, own in now.items()}
        count += 1
    return count
