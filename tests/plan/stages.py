"""Running plans with stages evaluated by the FUN interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.fun import nodes as fun
from weft.fun.check import check
from weft.fun.interpret import interpret
from weft.plan.code import HostCode, Wholes
from weft.plan.planner import plan_program
from weft.plan.setting import Processor
from weft.runtime.executor import execute


class InterpretedStage(HostCode):
    """Stage code that is the interpreter."""

    workspace = None
    kernels = ()

    def __init__(
        self, program: fun.Program, layouts: Sequence[str], private: Sequence[str] = ()
    ) -> None:
        assert len(layouts) == len(program.params)
        check(program, after="partition")
        self.program = program
        self.integers = (*program.sizes, *(derived.name for derived in program.derived))
        self.derived = program.derived

    def run(
        self, integers: Any, inputs: Any, outputs: Any, workspace: Any, cancel: Any = None
    ) -> None:
        sizes = dict(zip(self.integers, map(int, integers), strict=True))
        results = interpret(self.program, inputs, sizes)
        for out, result in zip(outputs, results, strict=True):
            assert out.shape == np.shape(result), (self.program, out.shape, np.shape(result))
            out[...] = result

    def check(self, values: Mapping[str, Any], wholes: Wholes) -> None:
        pass


class ListedSource:
    """An array that is only read box by box, and remembers what was read."""

    def __init__(self, array: Any, chunks: tuple[int, ...] | None = None) -> None:
        self.array = array
        self.shape = array.shape
        self.dtype = array.dtype
        self.chunks = chunks
        self.bytes = 0
        self.boxes: list[Any] = []

    def direct(self) -> None:
        return None

    def check(self) -> None:
        pass

    def read(self, box: Any, out: Any) -> None:
        out[...] = self.array[box]
        self.bytes += out.nbytes
        self.boxes.append(box)

    def describe(self) -> str:
        return "list"


class ListedSink:
    """A sink that checks that every element is written once."""

    def __init__(self, shape: Any, dtype: Any, chunks: tuple[int, ...] | None = None) -> None:
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.chunks = chunks
        self.array = np.zeros(shape, dtype)
        self.times = np.zeros(shape, int)
        self.state = "open"
        self.bytes = 0

    def direct(self) -> None:
        return None

    def write(self, box: Any, data: Any) -> None:
        if self.chunks is not None:
            for side, chunk, extent in zip(box, self.chunks, self.shape, strict=True):
                assert side.start % chunk == 0
                assert side.stop % chunk == 0 or side.stop == extent
        self.array[box] = data
        self.times[box] += 1
        self.bytes += data.nbytes

    def done(self, box: Any) -> bool:
        return False

    def finish(self) -> None:
        assert (self.times == 1).all()
        self.state = "finished"

    def abort(self) -> None:
        self.state = "aborted"

    def describe(self) -> str:
        return "list"


def streamed(
    program: fun.Program,
    sizes: Mapping[str, int],
    inputs: Mapping[str, Any],
    sinks: Sequence[Any] | None = None,
    box_bytes: int = 1 << 10,
    limit: int = 1 << 40,
    small: int = 64,
    devices: int = 1,
) -> tuple[Any, list[Any]]:
    """The plan of a program and its results, with small boxes, spread over so many devices."""
    processors = [
        Processor(f"cpu:{k}", "one thread", True, 1, InterpretedStage) for k in range(devices)
    ]
    plan = plan_program(
        program, sizes, inputs, sinks or [None] * len(program.body.results), limit, 2,
        InterpretedStage, allowance=0, box_bytes=box_bytes, small=small,
        processors=processors if devices > 1 else (),
    )  # fmt: skip
    return plan, execute(plan)
