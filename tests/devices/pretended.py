"""A device with memory of its own, pretended on the CPU: every call of it can be made to fail."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt

from weft.config import Settings
from weft.launch import stage
from weft.launch.stage import SegmentStage, processors, stage_code
from weft.plan.code import Rates
from weft.plan.setting import Processor
from weft.runtime import threads as runtime_threads

Array = npt.NDArray[Any]


_numbers = count()


class PretendedDevice:
    """Counts the calls of each kind, and raises an error at the n-th of one of them.

    The kinds are those of every device: "compile", "allocate", "copy in", "launch", "wait",
    "copy out".
    """

    def __init__(self, limit: int = 1 << 30, slots: int = 2) -> None:
        self.name, self.limit, self.slots = f"pretended:{next(_numbers)}", limit, slots
        self.calls: dict[str, int] = {}
        self.fault: tuple[str, int, BaseException] | None = None
        self.boxes = 0
        self.asked = threading.Event()  # a box has been given to it

    def note(self, kind: str) -> None:
        """One more call of a kind."""
        self.calls[kind] = self.calls.get(kind, 0) + 1
        if self.fault is not None and self.fault[:2] == (kind, self.calls[kind]):
            self.asked.set()
            raise self.fault[2]

    def processor(self) -> Processor:
        """The device, as the planner takes it."""

        def compiled(program: Any, layouts: Any, private: Any = ()) -> PretendedCode:
            self.note("compile")
            return PretendedCode(self, stage_code(program, ["contiguous"] * len(layouts)))

        return Processor(self.name, "pretended", False, 1, compiled)


class PretendedCode:
    """A stage on a pretended device: copies its arguments, and computes on the copies."""

    def __init__(self, on: PretendedDevice, code: Any) -> None:
        self.on = on
        self.name, self.limit, self.slots = on.name, on.limit, on.slots
        self.items = runtime_threads.threads()  # its kernels are the CPU's
        self.rates = Rates(1e10, 1e10, 1e11, 1e-5, 1e-4, 1, True)
        self._code = code
        self.device = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._code, name)

    def launches(self, values: Mapping[str, Any]) -> int:
        return 1

    def idle(self, values: Mapping[str, Any]) -> float:
        return 1.0

    def memory(self, values: Mapping[str, Any]) -> Any:
        return self._code.workspace.evaluate(values)

    def page_locked(self, results: Sequence[int]) -> int:
        return 0

    def hold(self, inputs: Mapping[int, Array], flanks: Any = (), room: int = 0) -> Any:
        self.on.asked.set()
        copies = {}
        for number, array in inputs.items():
            self.on.note("allocate")
            self.on.note("copy in")
            copies[number] = array.copy()
        return PretendedHeld(copies)

    def prepare(self, integers: Any) -> bool:
        return False

    def start(
        self, integers: Any, inputs: Sequence[Array], outputs: Sequence[Array], held: Any,
        behind: Any = None, after: Any = (),
    ) -> Any:  # fmt: skip
        self.on.asked.set()
        self.on.note("allocate")
        copies = []
        for number, array in enumerate(inputs):
            if number in held.copies:
                copies.append(held.copies[number])
            else:
                self.on.note("copy in")
                copies.append(np.ascontiguousarray(array).reshape(array.shape))
        results = [np.empty(array.shape, array.dtype) for array in outputs]
        self.on.note("launch")
        workspace = np.empty(1 << 20, np.uint8)
        self._code.run(integers, copies, results, workspace)
        self.on.boxes += 1
        return PretendedRun(self.on, results, outputs)


class PretendedHeld:
    def __init__(self, copies: dict[int, Array]) -> None:
        self.copies = copies

    def release(self) -> None:
        self.copies = {}


class PretendedRun:
    def __init__(
        self, on: PretendedDevice, results: Sequence[Array], outputs: Sequence[Array]
    ) -> None:
        self.on, self.results, self.outputs = on, results, outputs

    def wait(self) -> None:
        self.on.note("wait")
        for result, out in zip(self.results, self.outputs, strict=True):
            self.on.note("copy out")
            out[...] = result

    def abandon(self) -> None:
        self.results = ()


@contextmanager
def spread_over(*devices: str | PretendedDevice) -> Iterator[None]:
    """Programs are spread over parts of the CPU, by name, and over pretended devices."""

    def made(current: Settings) -> tuple[Processor, ...]:
        known = {p.device: p for p in processors(replaced)}
        return tuple(
            d.processor() if isinstance(d, PretendedDevice) else known[d] for d in devices
        )

    replaced = Settings(devices=("cpu:0", "cpu:1"))
    asked = [d.asked for d in devices if isinstance(d, PretendedDevice)]
    run = SegmentStage.run

    def patient(self: Any, *arguments: Any) -> None:
        if threading.current_thread().name == "weft-worker-0":
            for event in asked:
                event.wait(5)  # or else the CPU might have done everything before
                event.set()
        run(self, *arguments)

    with (
        mock.patch.object(stage, "processors", made),
        mock.patch.object(SegmentStage, "run", patient),
    ):
        yield
