"""Rounds of a loop one by one, each as a plan of its own: arrays take turns to be read and made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.plan.nodes import Plan, PlannedStage, memory_sink
from weft.plan.protocols import Sink, is_source
from weft.plan.rounds import Buffer, Carried, Part, Rounds
from weft.runtime.scratch import scratch_array

if TYPE_CHECKING:
    from weft.runtime.executor import Running

Array: TypeAlias = npt.NDArray[Any]
Compute: TypeAlias = Callable[[Plan], list[Any]]

_PIECE = 4 << 20  # bytes of a result that are written to a file at once


def run_rounds(
    run: Running, planned: PlannedStage, rounds: Rounds, compute: Compute
) -> None:
    """Run a stage that is a loop; `compute` runs the plan of a round."""
    _Loop(run, planned, rounds, compute).run()


class _Loop:
    def __init__(
        self, run: Running, planned: PlannedStage, rounds: Rounds, compute: Compute
    ) -> None:
        self.run_, self.planned, self.rounds, self.compute = run, planned, rounds, compute
        self.own: dict[int, Array] = {}  # arrays that rounds may write, by their identity
        self.free: list[Array] = []
        self.state: list[Array] = []

    def run(self) -> None:
        self._begin()
        for number in self._numbers():
            self._round(number)
        self._give()

    def _begin(self) -> None:
        rounds, run = self.rounds, self.run_
        made: Iterator[Array] = iter(())
        if rounds.begin is not None:
            begun = [one for one in rounds.carried if one.begins == ""]
            made = iter(self._results(rounds.begin, list(map(self._sink, begun))))
        state: list[Array] = []
        for one in rounds.carried:
            if one.begins == "":
                state.append(next(made))
            elif isinstance(one.begins, str):
                state.append(run.array(one.begins))
            else:
                state.append(np.asarray(one.begins, one.dtype))
        self.state = state
        for name in rounds.donated:
            array = run.memory.pop(name)
            self.own[id(array)] = array

    def _numbers(self) -> Iterator[int]:
        """The numbers of the rounds, as long as there are any."""
        rounds = self.rounds
        if rounds.bounds is None:
            number = 0
            assert rounds.condition is not None
            while self._results(rounds.condition, [None])[0]:
                yield number
                number += 1
            return
        lower, upper = rounds.bounds
        known = dict(rounds.sizes)
        for name in lower.variables() | upper.variables():
            if name not in known:
                known[name] = int(self.run_.array(name))
        yield from range(lower.evaluate(known), upper.evaluate(known))

    def _round(self, number: int) -> None:
        rounds, before = self.rounds, self.state
        sinks = [self._sink(one) for one in rounds.carried if one.makes is not None]
        made = self._results(rounds.round, sinks, number)
        self.state = [
            before[one.kept] if one.makes is None else made[one.makes] for one in rounds.carried
        ]
        used = {id(array) for array in self.state}
        for array in {id(array): array for array in before}.values():
            if id(array) in self.own and id(array) not in used:
                self.free.append(array)

    # ------------------------------------------------------------ one program

    def _results(
        self, part: Part, sinks: Sequence[Buffer | None], number: int = 0
    ) -> list[Array]:
        """What a program gives for what is carried now: each in its buffer, or as a scalar."""
        carried = {c.name: a for c, a in zip(self.rounds.carried, self.state, strict=False)}
        inputs: dict[str, Any] = {}
        for name in part.params:
            if name in carried:
                inputs[name] = carried[name]
            elif name == self.rounds.index:
                inputs[name] = np.asarray(number, np.int64)
            else:
                source = self.run_.plan.inputs.get(name)
                inputs[name] = source if is_source(source) else self.run_.array(name)
        plan = part.plan if part.replan is None else part.replan(number, inputs, sinks)
        assert plan is not None
        values = self.compute(replace(plan, inputs=inputs, sinks=tuple(sinks)))
        return [
            np.asarray(value) if sink is None else sink.direct()
            for sink, value in zip(sinks, values, strict=True)
        ]

    def _sink(self, one: Carried) -> Buffer | None:
        """Where what is carried is made; None for a scalar."""
        return Buffer(self._array(one)) if one.shape else None

    def _array(self, one: Carried) -> Array:
        """An array for what is carried, which nobody reads."""
        for place, array in enumerate(self.free):
            if array.shape == one.shape and array.dtype == one.dtype:
                return self.free.pop(place)
        if one.spilled:
            array = scratch_array(one.shape, one.dtype)
        else:
            array = self.run_.pool.empty(one.shape, one.dtype)
        self.own[id(array)] = array
        return array

    # ------------------------------------------------------------ what the loop gives

    def _give(self) -> None:
        """Bring what was asked for to where it belongs."""
        run, planned = self.run_, self.planned
        self.free.clear()
        self.own = {id(array): array for array in self.state if id(array) in self.own}
        given: set[int] = set()
        for one, array in zip(self.rounds.carried, self.state, strict=True):
            name = one.result
            sinks = run.destinations.get(name, [])
            own = memory_sink(sinks)
            for sink in sinks:
                if sink is not None and sink is not own:
                    _write(sink, array)
            if name not in planned.kept:
                continue
            if own is not None:
                to = own.direct()
                assert to is not None
                np.copyto(to, array)
                array = to
            elif array.ndim and self._must_move(one, array, given):
                to = run.pool.empty(array.shape, array.dtype)
                np.copyto(to, array)
                array = to
            given.add(id(array))
            run.memory[name] = array

    def _must_move(self, one: Carried, array: Array, given: set[int]) -> bool:
        """Whether a result is no array of its own, or in a file where it should be in memory."""
        if id(array) not in self.own or id(array) in given:
            return True
        return one.spilled and one.result not in self.planned.spilled


def _write(sink: Sink, array: Array) -> None:
    """Write an array to a file, in pieces of whole chunks along the first axis."""
    if not array.ndim:
        sink.write((), array)
        return
    chunk = 1 if sink.chunks is None else sink.chunks[0]
    row = max(array.nbytes // max(len(array), 1), 1)
    step = max(_PIECE // row // chunk, 1) * chunk
    rest = tuple(slice(0, extent) for extent in array.shape[1:])
    for start in range(0, len(array), step):
        part = slice(start, min(start + step, len(array)))
        sink.write((part, *rest), array[part])
