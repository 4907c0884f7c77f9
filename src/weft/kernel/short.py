"""Calls of a kernel like one that has run, by a short way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.frontend.containers import unflatten
from weft.jit.variants import MISSED, Ready, Result
from weft.kernel.assertions import Assertions
from weft.kernel.outputs import Outputs
from weft.launch import Direct, DirectUpdate, Repeated, direct_update, repeat
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class ShortWay:
    """A call by the short way: what fills in its inputs, what runs, and what becomes of results.

    `only_written`: arguments of which the program takes nothing. `repeated`: the call, for
    arguments that the pool finds to be alike. `floats`: arguments that become numbers of these
    types. `outputs` and `structure`: what the function returns, beside what it writes.
    `assertions`: the last value says which of them failed.
    """

    ready: Ready
    run: Direct | DirectUpdate
    only_written: tuple[int, ...]
    repeated: Repeated | None
    floats: tuple[tuple[int, np.dtype[Any]], ...]
    outputs: tuple[Result, ...]
    structure: Any
    assertions: Assertions | None

    def call(self, args: tuple[Any, ...]) -> Any:
        data = [np.asarray(arg) if isinstance(arg, np.generic) else arg for arg in args]
        for number, dtype in self.floats:
            data[number] = np.asarray(args[number], dtype)
        inputs = self.ready.inputs(data)
        inputs += [data[number] for number in self.only_written]
        return self._given(self.run.call(inputs))

    def repeat(self, args: tuple[Any, ...]) -> Any:
        assert self.repeated is not None
        return self._given(self.repeated.call(args))

    def _given(self, values: Sequence[Any] | None) -> Any:
        if values is None:
            return MISSED
        if self.assertions is not None:
            self.assertions.require(values[-1])
        if not self.outputs:
            return None
        leaves = [
            int(value) if output.is_int else value if value.shape else value[()]
            for value, output in zip(values, self.outputs, strict=False)
        ]
        return leaves[0] if self.structure is None else unflatten(self.structure, iter(leaves))


def short_way(
    ready: Ready, args: tuple[Any, ...], data: list[Any],
    floats: tuple[tuple[int, np.dtype[Any]], ...],
) -> ShortWay | None:  # fmt: skip
    """The short way of calls like one that has run; None where it has none."""
    layout = Outputs.of(ready.variant)
    outputs = tuple(output for output in layout.rest if isinstance(output, Result))
    gives_none = layout.structure is None and layout.rest == (None,)
    if not gives_none and (not outputs or len(outputs) < len(layout.rest)):
        return None  # it gives arguments, or what is no array
    run: Direct | DirectUpdate | None = ready.direct
    only_written = ready.only_written(layout.written)
    inputs = ready.inputs(data) + [data[number] for number in only_written]
    origins = ready.origins(layout.written)
    if layout.written:
        places = {number: place for place, number in origins.items()}
        written = [places[number] for number in layout.written]
        run = direct_update(
            ready.variant.computation, ready.sizes, inputs, written, layout.returned
        )
    if run is None:
        return None
    repeated = repeat(run, inputs, args, origins, layout.written)
    return ShortWay(
        ready, run, only_written, repeated, floats, outputs, layout.structure, layout.assertions
    )


def short_key(args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Shapes and types of arrays and numbers, and what is a size or decides branches.

    None where there is anything else.
    """
    key: list[Any] = []
    for value in args:
        kind = type(value)
        if kind is np.ndarray:
            if not value.shape:
                return None  # another array of it runs
            key.append((value.shape, value.dtype, value.strides))
        elif kind is int:
            key.append(value)
        elif kind is bool:
            key.append((kind, value))  # 1 is equal to True
        elif kind is float or kind is complex or issubclass(kind, np.number | np.bool_):
            key.append(kind)
        else:
            return None
    return tuple(key)
