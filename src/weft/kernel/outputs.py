"""What the results of a kernel's program are: arguments that are written, and what it returns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.array import Array
from weft.frontend import extent as extents
from weft.frontend import layout, operations, symbolic
from weft.frontend.containers import flatten, unflatten
from weft.frontend.graph import Node, scalar_constant, size_scalar
from weft.functions.creation import filled
from weft.jit.variants import Result, Variant
from weft.kernel import named, ordered
from weft.kernel.assertions import Assertions
from weft.kernel.lists import Grown
from weft.kernel.values import KeyView, Maybe, Reference, Selection


class Own:
    """Stands for a result that is an argument itself."""

    def __init__(self, number: int) -> None:
        self.number = number


class OrNone:
    """Begins a tuple of itself, a flag and a number: the number if the flag is set, else None."""

    def made(self, present: Any, number: Any) -> Any:
        return number if present else None


class Selected:
    """Begins a tuple of itself, an array and a mask: what that selects."""

    def made(self, array: Any, mask: Any) -> Any:
        return array[mask]


class Listed:
    """Begins a tuple of itself, a place, a count and arrays: from there so many are a list's.

    `are_pythons`: for each array, whether its numbers are Python's.
    """

    def __init__(self, are_pythons: tuple[bool, ...], of_tuples: bool) -> None:
        self.are_pythons = are_pythons
        self.of_tuples = of_tuples

    def made(self, first: Any, count: Any, *arrays: Any) -> list[Any]:
        held = slice(first, first + count)
        parts = [
            array[held].tolist() if own else list(array[held])
            for array, own in zip(arrays, self.are_pythons, strict=True)
        ]
        if self.of_tuples:
            return list(zip(*parts, strict=True))
        return parts[0] if parts else []


class Elements:
    """Begins a tuple of itself and an array, whose elements are a list's."""

    def made(self, array: Any) -> list[Any]:
        return list(array)


class Cut:
    """Begins a tuple of itself, an array and numbers: a slice of it between computed bounds.

    `steps`: for each axis, whose numbers are a start and a length; None of an axis that has an
    index alone.
    """

    def __init__(self, steps: tuple[int | None, ...]) -> None:
        self.steps = steps

    def made(self, array: Any, *numbers: Any) -> Any:
        rest = iter(numbers)
        key: list[Any] = []
        for step in self.steps:
            first = next(rest)
            if step is None:
                key.append(first)
                continue
            stop = first + next(rest) * step  # -1 before the first, where it goes down
            some = slice(first, stop if stop >= 0 else None, step)
            key.append(some if stop != first else slice(0))
        return array[tuple(key)].copy()


class Shaped:
    """Begins a tuple of itself, a vector and lengths: its first elements, in an array of these."""

    def made(self, vector: Any, *lengths: Any) -> Any:
        return vector[: math.prod(map(int, lengths))].reshape(lengths).copy()


class Length:
    """Begins a tuple of itself and a length, which is all that a program computes (`measured`)."""

    def made(self, length: Any) -> Any:
        return int(length)


_MADE = (OrNone, Selected, Listed, Elements, Cut, Shaped, Length)
"""What begins a tuple of what a result is made of."""


def marked(result: Any, owners: dict[int, tuple[int, Reference]]) -> Any:
    """A result with arguments that it holds marked: those are given as they are."""
    if isinstance(result, Reference) and id(result.cell) in owners:
        number, given = owners[id(result.cell)]
        if given.same(result):
            return Own(number)
    if isinstance(result, Maybe):
        return (OrNone(), result.present, result.number)
    if isinstance(result, Selection):
        return (Selected(), _cut(result.array), _cut(result.mask))
    if isinstance(result, Grown):
        arrays = [cell.array for cell in result.parts]
        pythons = tuple(is_weak for _, is_weak in result.kinds)
        return (Listed(pythons, result.of_tuples), result.first.array, result.count.array, *arrays)
    if ordered.is_list(result):
        return (Elements(), _cut(result.read()))
    if isinstance(result, Array | Reference):
        array = result if isinstance(result, Array) else result.read()
        found = _cut(array)
        return result if found is array else found
    if isinstance(result, tuple) and type(result) is tuple:
        return tuple(marked(part, owners) for part in result)
    if isinstance(result, list):
        return [marked(part, owners) for part in result]
    if named.is_named(result):
        return named.mapped(lambda part: marked(part, owners), result)
    return result


def _cut(array: Array) -> Any:
    """An array; if only the run tells its shape, what that is made of: one that holds more."""
    node = array._node
    if not symbolic.have_symbols(node):
        return array
    steps = _steps(node)
    if steps is None:
        return _in_room(node)
    numbers = [Array(size_scalar(size)) for size in node.sizes]
    return (Cut(steps), _cut(Array(node.inputs[0])), *numbers)


def _steps(node: Node) -> tuple[int | None, ...] | None:
    """Those of a slice between computed bounds; None of another array."""
    if not isinstance(node.operation, operations.Slice):
        return None
    dims = node.operation.dims
    if not all(isinstance(dim, operations.Span | operations.Point) for dim in dims):
        return None
    return tuple(dim.step if isinstance(dim, operations.Span) else None for dim in dims)


def _in_room(node: Node) -> Any:
    """The elements of an array in a vector that has room for as many as extents tell."""
    bounds = [symbolic.at_most(extent, -1) for extent in node.shape]
    known = tuple(extents.not_negative(bound) for bound in bounds if bound is not None)
    if len(known) < len(bounds):
        return Array(node)
    count = extents.product(node.shape)
    elements = Array(layout.reshape(node, (count,)))
    vector = Array(filled(scalar_constant(0, node.dtype), (extents.product(known),)))
    held = KeyView(slice(0, count)).put(vector, elements)
    return (Shaped(), held, *(Array(size_scalar(extent)) for extent in node.shape))


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
    measures : bool
        Whether they are a length alone, which other programs take (`measured`).
    """

    def __init__(self, written: tuple[int, ...], structure: Any, rest: tuple[Any, ...]) -> None:
        self.written = written
        self.structure = structure
        self.returned = sum(isinstance(output, Result) for output in rest)
        last = rest[-1] if rest else None
        self.assertions = last if isinstance(last, Assertions) else None
        self.rest = rest if self.assertions is None else rest[:-2]
        self.measures = any(isinstance(part, Length) for part in rest)

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
        return _made(result) if any(isinstance(leaf, _MADE) for leaf in leaves) else result


def _made(result: Any) -> Any:
    """A result, with what only a run tells the size or the kind of made of what it gave."""
    if type(result) not in (tuple, list):
        return result
    if result and isinstance(result[0], _MADE):
        return result[0].made(*map(_made, result[1:]))
    return type(result)(map(_made, result))
