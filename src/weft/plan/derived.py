"""Derived sizes of all boxes at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from weft.sizes import Derived, Poly

Evaluator: TypeAlias = Callable[[Mapping[str, Any]], dict[str, Any]]


@lru_cache(maxsize=256)
def evaluator(entries: tuple[Derived, ...]) -> Evaluator:
    """What gives sizes of boxes as `Derived.evaluate` does of one: a Python function for them all.

    A plan asks for hundreds of sizes of hundreds of choices of boxes.

    Returns
    -------
    callable
        (sizes that these are made of: ints, or arrays of one for each box) -> sizes by their
        names, which are ints where they are made of ints alone.
    """
    variables: dict[str, str] = {}
    lines: list[str] = []

    def text(size: Poly) -> str:
        terms = [
            "*".join([*(local(name) for name in monomial), *([str(factor)] if factor != 1 else ())])
            or "1" for monomial, factor in size.terms.items()
        ]  # fmt: skip
        return f"({' + '.join(terms) or '0'})"

    def local(name: str) -> str:
        if name not in variables:
            variables[name] = f"x{len(variables)}"
            lines.append(f" {variables[name]} = sizes[{name!r}]")
        return variables[name]

    for entry in entries:
        left, right = text(entry.left), text(entry.right)
        found = f"{entry.operation}({left}, {right})"
        if entry.operation in _SIGNS and entry.right.is_constant and entry.right.constant:
            found = f"{left} {_SIGNS[entry.operation]} {right}"
        variables[entry.name] = f"x{len(variables)}"
        lines.append(f" {variables[entry.name]} = {found}")
    given = ", ".join(f"{entry.name!r}: {variables[entry.name]}" for entry in entries)
    names: dict[str, Any] = dict(_OPERATIONS)
    exec("\n".join(["def evaluate(sizes):", *lines, f" return {{{given}}}"]), names)
    evaluate: Evaluator = names["evaluate"]
    return evaluate


def _minimum(left: Any, right: Any) -> Any:
    return min(left, right) if type(left) is type(right) is int else np.minimum(left, right)


def _maximum(left: Any, right: Any) -> Any:
    return max(left, right) if type(left) is type(right) is int else np.maximum(left, right)


def _power_of_two(left: Any, right: Any) -> Any:
    if type(left) is int:
        return 1 << (max(left, 1).bit_length() - 1)
    exponents = np.frexp(np.maximum(left, 1).astype(np.float64))[1]  # exact up to 2**53
    return np.left_shift(np.int64(1), exponents.astype(np.int64) - 1)


_SIGNS = {"floordiv": "//", "mod": "%"}
_OPERATIONS = {
    "floordiv": np.floor_divide, "mod": np.mod, "min": _minimum, "max": _maximum,
    "pow2floor": _power_of_two,
}  # fmt: skip
