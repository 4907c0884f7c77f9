"""What the results of a kernel's program are: arguments that are written, and what it returns."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.frontend.containers import flatten, unflatten
from weft.jit.variants import Result, Variant
from weft.kernel.assertions import Assertions
from weft.kernel.values import Maybe, Reference


class Own:
    """Stands for a result that is an argument itself."""

    def __init__(self, number: int) -> None:
        self.number = number


class OrNone:
    """Begins a tuple of itself, a flag and a number: the number if the flag is set, else None."""


def marked(result: Any, owners: dict[int, tuple[int, Reference]]) -> Any:
    """A result with arguments that it holds marked: those are given as they are."""
    if isinstance(result, Reference) and id(result.cell) in owners:
        number, given = owners[id(result.cell)]
        return Own(number) if given.same(result) else result
    if isinstance(result, Maybe):
        return (OrNone(), result.present, result.number)
    if isinstance(result, tuple) and type(result) is tuple:
        return tuple(marked(part, owners) for part in result)
    if isinstance(result, list):
        return [marked(part, owners) for part in result]
    return result


class Outputs:
    """What the results of a kernel's program are.

    Attributes
    ----------
    written : tuple of int
        The arguments that the first results replace.
    structure : object
        Of what the function returns.
    rest : tuple
        What that holds: for each part a `Result`, or the part itself.
    returned : int
        How many results replace no argument.
    assertions : Assertions or None
        Whose outcome is the last result.
    """

    def __init__(self, written: tuple[int, ...], structure: Any, rest: tuple[Any, ...]) -> None:
        self.written = written
        self.structure = structure
        self.returned = sum(isinstance(output, Result) for output in rest)
        last = rest[-1] if rest else None
        self.assertions = last if isinstance(last, Assertions) else None
        self.rest = rest if self.assertions is None else rest[:-2]

    @staticmethod
    def of(variant: Variant) -> Outputs:
        count = variant.outputs[0]
        return Outputs(
            variant.outputs[1 : count + 1], variant.structure[1][2],
            variant.outputs[2 * count + 1 :],
        )  # fmt: skip

    def result(self, values: Any, arguments: list[Any]) -> Any:
        """What the function returns, of what running it gave."""
        _, _, returned, outcome = values
        if self.assertions is not None:
            self.assertions.require(outcome[0])
        leaves: list[Any] = []
        flatten(returned, leaves)
        leaves = [
            leaf[()] if isinstance(leaf, np.ndarray) and not leaf.shape else leaf for leaf in leaves
        ]
        leaves = [arguments[leaf.number] if isinstance(leaf, Own) else leaf for leaf in leaves]
        result = unflatten(self.structure, iter(leaves))
        return _or_none(result) if any(isinstance(leaf, OrNone) for leaf in leaves) else result


def _or_none(result: Any) -> Any:
    """A result with what stands for numbers that may be None replaced."""
    if type(result) not in (tuple, list):
        return result
    if result and isinstance(result[0], OrNone):
        return result[2] if result[1] else None
    return type(result)(map(_or_none, result))
