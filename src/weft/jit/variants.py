"""Traced programs, when they hold, and how they are called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import execute
from weft.array import Array, asarray
from weft.config import settings
from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    CompileError,
    DTypeError,
    MemoryLimitError,
    ShapeError,
    user_place,
)  # fmt: skip
from weft.frontend import graph
from weft.frontend.containers import Structure, flatten, unflatten
from weft.frontend.extent import Extent
from weft.frontend.graph import Node
from weft.fun import nodes as fun
from weft.io.held import share_memory
from weft.jit.arguments import Origin
from weft.launch import (
    CPU,
    INTERPRETER,
    Computation,
    Direct,
    Repeated,
    direct,
    direct_update,
    have_compiler,
    repeat,
    target,
)
from weft.launch.boxes import nearer_in_boxes, run_on
from weft.plan.protocols import is_source
from weft.records import dataclass
from weft.runtime import built
from weft.sizes import Derived, Fact

MISSED = object()
"""What a short way of calling gives where another one has to be taken."""


@dataclass(slots=True)
class Variant:
    """A traced program, and when it holds.

    `origins` say for each size variable of the graph where its value comes from;
    `inputs` for each parameter the number of the argument, or the data itself.
    """

    computation: Computation
    origins: dict[str, Origin]
    derived: tuple[Derived, ...]
    facts: tuple[Fact, ...]
    inputs: tuple[Any, ...]
    structure: Structure
    outputs: tuple[Any, ...]  # Result, or what a function gave that is no array

    def sizes(self, arguments: Sequence[Any]) -> dict[str, int] | None:
        """The size variables for some arguments, or None where a fact does not hold."""
        values: dict[str, int] = {}
        for name, origin in self.origins.items():
            if isinstance(origin, int):
                values[name] = origin
            else:
                number, axis = origin
                argument = arguments[number]
                values[name] = abs(argument) if axis < 0 else argument.shape[axis]
        known = dict(values)
        try:
            for entry in self.derived:
                known[entry.name] = entry.evaluate(known)
        except ZeroDivisionError:
            return None
        return values if all(fact.holds(known) for fact in self.facts) else None


@dataclass(frozen=True, slots=True)
class Result:
    """A place in the results that the program computes."""

    is_int: bool = False


@dataclass(slots=True)
class Ready:
    """A variant for one set of exact shapes."""

    variant: Variant
    sizes: dict[str, int]
    scalars: tuple[tuple[int, int, np.dtype[Any]], ...]  # input, argument, dtype
    arrays: tuple[tuple[int, int], ...]
    template: list[Any]
    direct: Direct | None = None
    called: bool = False
    again: tuple[Repeated | None, ...] = ()  # once that has been found out
    again_out: tuple[Repeated | None, ...] = ()

    def call(self, arguments: Sequence[Any], out: list[Any] | None) -> Any:
        inputs = self.inputs(arguments)
        variant = self.variant
        if out is not None:
            self.check_shapes(out)
        values = None if out is not None or self.direct is None else self.direct.call(inputs)
        if values is None:
            values = launch(variant.computation, self.sizes, inputs, out)
            if out is None and not self.called:
                self.called = True
                self.direct = direct(variant.computation, self.sizes, inputs)
        return self.rebuilt(values, out)

    def repeated(self, arguments: tuple[Any, ...]) -> Repeated | None:
        """What does a call again that has run; None where others have to be looked at."""
        if self.direct is None:
            return None
        if not self.again:
            inputs = self.inputs(arguments)
            self.again = (repeat(self.direct, inputs, arguments, self.origins(), ()),)
        return self.again[0]

    def repeated_out(self, arguments: tuple[Any, ...], out: Any) -> Repeated | None:
        """The same, of a call with an array for its one result, which is the last argument then."""
        if not self.again_out:
            self.again_out = (self._repeated_out(arguments, out),)
        return self.again_out[0]

    def _repeated_out(self, arguments: tuple[Any, ...], out: Any) -> Repeated | None:
        computation, written = self.variant.computation, (len(arguments),)
        read = self.inputs(arguments)
        if self.variant.structure is not None or any(map(is_source, read)):
            return None
        if nearer_in_boxes(computation, self.sizes, read, settings()) is not None:
            return None
        run = direct_update(computation, self.sizes, [*read, out], [len(read)])
        if run is None:
            return None
        return repeat(run, [*read, out], (*arguments, out), self.origins(written), written)

    def only_written(self, written: Sequence[int]) -> tuple[int, ...]:
        """The arguments among those written of which the program takes nothing."""
        taken = {number for _, number in self.arrays}
        return tuple(number for number in written if number not in taken)

    def origins(self, written: Sequence[int] = ()) -> dict[int, int]:
        """Which argument each input is, or is made of; then those that are only written."""
        origins = dict(self.arrays) | {place: number for place, number, _ in self.scalars}
        return origins | dict(enumerate(self.only_written(written), len(self.template)))

    def inputs(self, arguments: Sequence[Any]) -> list[Any]:
        """What the program takes, one for each of its parameters."""
        inputs = self.template.copy()
        for place, number in self.arrays:
            inputs[place] = arguments[number]
        for place, number, dtype in self.scalars:
            inputs[place] = np.asarray(arguments[number], dtype)
        return inputs

    def shapes(self) -> list[tuple[int, ...]]:
        """Those of the results."""
        program = self.variant.computation.program
        known = dict(self.sizes)
        for entry in program.derived:
            known[entry.name] = entry.evaluate(known)
        return [
            tuple(extent.evaluate(known) for extent in type_.shape)
            if isinstance(type_, fun.Array) else ()
            for type_ in program.result_types
        ]  # fmt: skip

    def check_shapes(self, out: list[Any]) -> None:
        """Refuse arrays of other shapes than the results have."""
        for array, shape in zip(out, self.shapes(), strict=True):
            if array is not None and array.shape != shape:
                raise ShapeError(
                    f"out= of shape {array.shape}", f"shape {shape}", place=user_place()
                )

    def rebuilt(self, values: list[Any], out: list[Any] | None) -> Any:
        """Results in the containers that the function gives."""
        if self.variant.structure is None and out is None and values:
            value = values[0]
            return value if value.shape else value[()]
        computed = iter(values)
        results = []
        for output in self.variant.outputs:
            if not isinstance(output, Result):
                results.append(output)
                continue
            value = next(computed)
            if output.is_int:
                results.append(int(value))
            else:
                results.append(value if value.shape or out is not None else value[()])
        return unflatten(self.variant.structure, iter(results))


def launch(
    computation: Computation, sizes: dict[str, int], inputs: list[Any], out: Any
) -> list[Any]:
    """Run compiled code on data in memory, however small it is; and what reads files too."""
    if any(is_source(value) for value in inputs):
        return execute.run(computation, sizes, inputs, out)
    current = settings()
    if built.any_built() and not have_compiler() and current.devices == (CPU,):
        try:
            return computation.run_in_core(sizes, inputs, out, current, CPU)
        except (CompileError, MemoryLimitError) as error:
            if isinstance(error, MemoryLimitError) and error.has_begun:
                raise
            # It was not built.
    where = target(current)
    if where != INTERPRETER and len(current.devices) == 1:
        try:
            return run_on(computation, sizes, inputs, out, current, where)
        except MemoryLimitError as error:
            if error.has_begun:
                raise
            # In boxes then.
    interpreted = where == INTERPRETER
    return execute.run(computation, sizes, inputs, out, interpretable=interpreted)


def output_of(value: Any, nodes: list[Node]) -> Any:
    """A place for a result that is an array; other results are given as they are."""
    if isinstance(value, Array):
        nodes.append(value._node)
        return Result()
    if isinstance(value, np.ndarray):
        nodes.append(asarray(value)._node)
        return Result()
    if isinstance(value, Extent):
        if value.is_constant:
            return value.value
        nodes.append(graph.size_scalar(value))
        return Result(is_int=True)
    return value


def destinations(out: Any, variant: Variant) -> list[Any] | None:
    """The arrays of `out=`, one for each result, checked."""
    if out is None:
        return None
    given: list[Any] = []
    flatten(out, given)
    results = variant.computation.program.body.results
    if len(given) != len(results):
        raise ArgumentError(
            f"out= of {len(given)} arrays for {len(results)} results", "as many", place=user_place()
        )
    for array, result in zip(given, results, strict=True):
        if array is None:
            continue
        if not isinstance(array, np.ndarray):
            raise ArgumentTypeError(
                f"out= holds a {type(array).__name__}", "NumPy arrays", place=user_place()
            )
        if array.dtype != result.type.dtype.numpy:
            raise DTypeError(
                f"out= of {array.dtype}", f"{result.type.dtype.numpy}", place=user_place()
            )
        if not array.flags.writeable:
            raise ArgumentError("out= is read-only", "a writable array", place=user_place())
    for number, array in enumerate(given):
        if any(_overlap(array, other) for other in given[:number]):
            raise ArgumentError(
                f"out= array {number} overlaps an earlier one",
                "arrays that share no element",
                place=user_place(),
            )
    return given


def _overlap(left: np.ndarray | None, right: np.ndarray | None) -> bool:
    return left is not None and right is not None and share_memory(left, right)
