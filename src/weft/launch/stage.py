"""Stages of a plan, as what the executor runs on each box."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.config import Settings, settings
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.interpret import interpret
from weft.launch.artifacts import ArtifactPiece, segment_of, segment_piece, view_roots
from weft.launch.computation import step_of
from weft.launch.device import (
    CPU,
    INTERPRETER,
    accelerator,
    dialect_of,
    find,
    have_compiler,
    host_threads,
    left_out,
    load,
    targets,
)
from weft.launch.host import call_library, view
from weft.ops import routines
from weft.passes.side_by_side import side_by_side
from weft.passes.tile_time import tile_time
from weft.plan import launch_counts, launches
from weft.plan.calls import bytes_beside
from weft.plan.code import (
    DeviceCode,
    FlankPlace,
    Held,
    HostCode,
    Pending,
    Rates,
    StageCode,
    Wholes,
)
from weft.plan.seams import CallPiece, CompiledPiece, cut_at_calls
from weft.plan.segment import Better, Inset, Layout, Segment
from weft.plan.setting import Processor
from weft.records import dataclass
from weft.runtime.boxes import Table
from weft.runtime.devices.cpu import LoadedSegment, is_cpu
from weft.runtime.devices.protocol import FAILURE_BYTES, Accelerator
from weft.runtime.devices.protocol import LoadedSegment as LoadedKernels
from weft.runtime.incore import InCore, check_bounds, check_collisions, derive, strides_of
from weft.runtime.memory import host_pool
from weft.runtime.profile import in_event
from weft.runtime.threads import CancelFlag
from weft.runtime.toolchain import Effort
from weft.runtime.watch import watched
from weft.sizes import ZERO, Size, product

NDArray: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Better:
    """The version of a segment that copies less, for boxes whose sizes allow it."""

    plain: Segment
    version: Better
    load: Callable[[], Any]  # when a box first wants it

    def integers(self, given: Sequence[int], room: int) -> list[int] | None:
        """What it takes in place of the plain segment's integers; None where it does not suit.

        It has as many bytes of workspace as the plain one was given.
        """
        known = dict(zip(self.plain.integers, given, strict=True))
        if not self.version.suits(known):
            return None
        own, computed = self.version.segment, {entry.name for entry in self.plain.derived}
        known = derive({n: v for n, v in known.items() if n not in computed}, own.derived)
        if own.workspace.evaluate(known) > room:
            return None
        check_bounds(own.checks, known)
        check_collisions(own.collisions, known)
        return [known[name] for name in own.integers]


class SegmentStage(HostCode):
    """A stage that is one compiled segment; each box takes the version that suits its sizes."""

    def __init__(
        self, segment: Segment, load: Callable[[], LoadedSegment], threads: int | None = None,
        better: _Better | None = None,
    ) -> None:  # fmt: skip
        self.segment = segment
        self.integers = segment.integers
        self.derived = segment.derived
        self.workspace: Size | None = segment.workspace
        self.kernels = segment.kernels
        self.remarks = segment.remarks
        count = len(segment.params)
        self.within = tuple(replace(each, slot=each.slot - count) for each in segment.insets)
        self._load = load
        self._threads = threads
        self._better = better

    @property
    def _loaded(self) -> LoadedSegment:
        return self._load()

    def compile(self) -> None:
        """Load the segment, which compiles it where no cache has it."""
        self._load()

    def run(
        self,
        integers: npt.NDArray[np.int64],
        inputs: Sequence[NDArray],
        outputs: Sequence[NDArray],
        workspace: npt.NDArray[np.uint8],
        cancel: Any = None,
    ) -> None:
        pointers = [array.__array_interface__["data"][0] for array in inputs]
        pointers += [array.__array_interface__["data"][0] for array in outputs]
        pointers.append(workspace.__array_interface__["data"][0] if workspace.size else 0)
        loaded, values = self._loaded, integers.tolist()
        other = None if self._better is None else self._better.integers(values, workspace.nbytes)
        if self._better is not None and other is not None:
            loaded, values = self._better.load(), other
        loaded.call(values, pointers, self._threads, cancel)

    def check(self, values: Mapping[str, Any], wholes: Wholes) -> None:
        check_bounds(self.segment.checks, values, wholes)
        check_collisions(self.segment.collisions, values)


class PlainStage(SegmentStage):
    """A stage that is one compiled segment in one version, which suits boxes of any sizes."""

    def run_boxes(self, table: Table, cancel: CancelFlag) -> None:
        """Compute boxes side by side, and write them."""
        self._loaded.call_boxes(table, cancel)


class DeviceStage:
    """A stage that is one segment on a device with memory of its own; versions as on the CPU."""

    workspace: Size | None = ZERO  # none of it is the host's
    within: tuple[Inset, ...] = ()  # nor what is within the device's own
    strided = False

    def __init__(
        self, segment: Segment, device: Accelerator, load: Callable[[], LoadedKernels],
        better: _Better | None = None,
    ) -> None:  # fmt: skip
        self.segment = segment
        self.integers = segment.integers
        self.derived = segment.derived
        self.kernels = tuple(f"{kernel} on {device.name}" for kernel in segment.kernels)
        self.remarks = segment.remarks
        self.device: DeviceCode | None = self
        self.name, self.slots, self.limit = device.name, device.slots, device.limit
        self.items, self.together = device.items, device.together
        self._on = device
        self._load = load
        self._better = better
        slots = (*segment.params, *segment.results)
        self._within = [
            product(slots[inset.slot].shape) * slots[inset.slot].dtype.itemsize
            for inset in segment.insets
        ]

    @property
    def _loaded(self) -> LoadedKernels:
        return self._load()

    def compile(self) -> None:
        """Load the segment, which compiles it where no cache has it."""
        self._load()

    def run(
        self,
        integers: npt.NDArray[np.int64],
        inputs: Sequence[NDArray],
        outputs: Sequence[NDArray],
        workspace: npt.NDArray[np.uint8],
        cancel: Any = None,
    ) -> None:
        self.start(integers, inputs, outputs, None).wait()

    def start(
        self,
        integers: npt.NDArray[np.int64],
        inputs: Sequence[NDArray],
        outputs: Sequence[NDArray],
        held: Any,
        behind: Any = None,
        after: Sequence[Any] = (),
    ) -> Pending:
        """Begin a box; arrays are in use until it has ended."""
        loaded, values = self._version(integers)
        return loaded.start(values, inputs, outputs, held, behind, after)

    def prepare(self, integers: npt.NDArray[np.int64]) -> bool:
        """Compile what a box with these integers needs; whether anything was to be compiled."""
        loaded, values = self._version(integers)
        return loaded.prepare(values)

    def _version(self, integers: npt.NDArray[np.int64]) -> tuple[LoadedKernels, list[int]]:
        """What runs a box, and the integers that it takes."""
        values: list[int] = integers.tolist()
        if self._better is not None:
            known = dict(zip(self.integers, values, strict=True))
            other = self._better.integers(values, self._workspace(known))
            if other is not None:
                return self._better.load(), other
        return self._loaded, values

    def takes(self, array: NDArray) -> bool:
        """Whether it copies an array as it lies, and back to there."""
        return self._on.takes(array)

    def page_locked(self, results: Sequence[int]) -> int:
        """Bytes of the host's memory that a slot's copies go through: `results` have so many."""
        return self._on.page_locked(results)

    def hold(
        self, inputs: Mapping[int, NDArray], flanks: Sequence[FlankPlace] = (), room: int = 0
    ) -> Held:  # fmt: skip
        """Copy inputs that are the same for all boxes; make room for flanks."""
        return self._loaded.hold(inputs, flanks, room)

    @property
    def rates(self) -> Rates:
        """What its time is predicted from."""
        return self._on.rates

    def launches(self, values: Mapping[str, Any]) -> int:
        """How many kernels a box launches."""
        return launch_counts.count(self.segment.steps, self._on_device(values))

    def idle(self, values: Mapping[str, Any]) -> float:
        """How many times as long they take as if no processor waited for the others."""
        if self.rates.processors == 1:
            return 1.0
        groups = launch_counts.most_groups(self.segment.steps, self._on_device(values))
        return self.rates.idle(groups)

    def memory(self, values: Mapping[str, Any]) -> Any:
        """Bytes of a run besides its arguments; less than none where these lie within them."""
        own = self._workspace(values) + FAILURE_BYTES
        return own - sum(bytes_.evaluate(values) for bytes_ in self._within)

    def check(self, values: Mapping[str, Any], wholes: Wholes) -> None:
        check_bounds(self.segment.checks, values, wholes)
        check_collisions(self.segment.collisions, values)

    def _workspace(self, values: Mapping[str, Any]) -> Any:
        return self.segment.workspace.evaluate(self._on_device(values))

    def _on_device(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The integers of a run, with what the device is."""
        return {**values, launches.PROCESSOR: int(self._on.is_processor)}


class InterpretedStage(HostCode):
    """A stage that the interpreter runs, where there is no compiler."""

    workspace: Size | None = None

    def __init__(self, program: fun.Program) -> None:
        self.program = program
        self.integers = (*program.sizes, *(entry.name for entry in program.derived))
        self.derived = program.derived
        self.kernels = tuple(
            f"{type(let.expr).__name__.lower()} {let.pattern[0].name} (by NumPy)"
            for let in program.body.statements
            if not isinstance(let.expr, fun.LAYOUT_CHANGES)
        )

    def run(
        self,
        integers: npt.NDArray[np.int64],
        inputs: Sequence[NDArray],
        outputs: Sequence[NDArray],
        workspace: npt.NDArray[np.uint8],
        cancel: Any = None,
    ) -> None:
        sizes = dict(zip(self.integers, integers.tolist(), strict=True))
        with watched(inputs):
            results = interpret(self.program, inputs, sizes)
        for output, result in zip(outputs, results, strict=True):
            np.copyto(output, result, casting="no")

    def check(self, values: Mapping[str, Any], wholes: Wholes) -> None:
        """The interpreter checks every access when it comes to it."""


class StepsStage(HostCode):
    """A stage of library calls, and of what is compiled around them: steps, as in core."""

    workspace: Size | None = None  # at most what an interpreter would make

    def __init__(
        self, program: fun.Program, layouts: Mapping[str, Layout], current: Settings, threads: int
    ) -> None:
        self.program = program
        self.integers = (*program.sizes, *(entry.name for entry in program.derived))
        self.derived = program.derived
        self._layouts = layouts
        self._threads = threads
        without = left_out(CPU, current.optimise)
        kernels: list[str] = []
        pieces: list[ArtifactPiece] = []
        for piece in cut_at_calls(program):
            if isinstance(piece, CompiledPiece):
                made = segment_piece(piece, layouts, partial(segment_of, optimise=without))
                kernels += made.segment.kernels
                pieces.append(made)
            else:
                if isinstance(piece, CallPiece):
                    kernels.append(f"call {piece.let.pattern[0].name} (by NumPy)")
                pieces.append(piece)
        self.kernels = tuple(kernels)
        self._steps = tuple(step_of(piece, CPU, Effort.FULL) for piece in pieces)
        results = program.body.results
        self._names = tuple(dict.fromkeys(a.name for a in results if isinstance(a, fun.Var)))
        self._roots = view_roots(program)

    def run(
        self,
        integers: npt.NDArray[np.int64],
        inputs: Sequence[NDArray],
        outputs: Sequence[NDArray],
        workspace: npt.NDArray[np.uint8],
        cancel: Any = None,
    ) -> None:
        sizes = dict(zip(self.integers, integers.tolist(), strict=True))
        held = dict(zip((param.name for param in self.program.params), inputs, strict=True))
        for name, layout in self._layouts.items():
            sizes |= strides_of(name, held[name], layout)
        atoms = self.program.body.results
        places = {
            atom.name: output
            for atom, output in zip(atoms, outputs, strict=True)
            if isinstance(atom, fun.Var) and atom.name not in self._roots
        }
        steps = InCore(self._steps, {**sizes, "threads": self._threads}, self._names)
        with in_event():
            values = steps.call(held, host_pool(), self._threads, places)
        known = dict(zip(self._names, values, strict=True))
        for atom, output in zip(atoms, outputs, strict=True):
            value = known[atom.name] if isinstance(atom, fun.Var) else atom.value
            if value is not output:
                np.copyto(output, value, casting="no" if isinstance(atom, fun.Var) else "unsafe")

    def check(self, values: Mapping[str, Any], wholes: Wholes) -> None:
        """Steps check their accesses for each box."""


class CallStage(HostCode):
    """A stage that is one library call on views: NumPy writes to where its results belong."""

    strided = True

    def __init__(
        self, program: fun.Program, views: Sequence[fun.Let], let: fun.Let, threads: int
    ) -> None:
        self.integers = (*program.sizes, *(entry.name for entry in program.derived))
        self.derived = program.derived
        self.kernels = (f"call {let.pattern[0].name} (by NumPy)",)
        self._params = tuple(param.name for param in program.params)
        self._views = tuple(views)
        self._let = let
        self._threads = threads
        self.workspace: Size | None = bytes_beside(let)

    @staticmethod
    def of(program: fun.Program, threads: int) -> CallStage | None:
        """The stage of a program that is nothing but a call, and views of what it takes."""
        *views, let = program.body.statements
        if not isinstance(let.expr, fun.Call) or program.body.results != let.pattern:
            return None
        for view_ in views:
            if not isinstance(view_.expr, fun.LAYOUT_CHANGES):
                return None
            if isinstance(view_.expr, fun.LmadSlice) or not isinstance(view_.expr.array, fun.Var):
                return None
        return CallStage(program, views, let, threads)

    def run(
        self,
        integers: npt.NDArray[np.int64],
        inputs: Sequence[NDArray],
        outputs: Sequence[NDArray],
        workspace: npt.NDArray[np.uint8],
        cancel: Any = None,
    ) -> None:
        sizes = dict(zip(self.integers, integers.tolist(), strict=True))
        held: dict[str, Any] = dict(zip(self._params, inputs, strict=True))
        for let in self._views:
            assert isinstance(let.expr, fun.LAYOUT_CHANGES)
            assert isinstance(let.expr.array, fun.Var)
            held[let.pattern[0].name] = view(let, held[let.expr.array.name], sizes)
        call = self._let.expr
        assert isinstance(call, fun.Call)
        arguments = [
            held[a.name] if isinstance(a, fun.Var) else np.asarray(a.value, a.dtype.numpy)
            for a in call.arguments
        ]
        call_library(
            routines.routine(call.routine), arguments, tuple(outputs), dict(call.options),
            self._let.place, self._threads,
        )  # fmt: skip

    def check(self, values: Mapping[str, Any], wholes: Wholes) -> None:
        """What is cut is inside what it is cut from."""


def stage_code(
    program: fun.Program,
    layouts: Sequence[Layout],
    private: Sequence[str] = (),
    current: Settings | None = None,
    where: str = CPU,
    threads: int | None = None,
) -> StageCode:
    """What runs a stage of a plan on one box.

    Parameters
    ----------
    program : fun.Program
    layouts : sequence of Layout
        How each parameter lies in memory.
    private : sequence of str
        Parameters (on a device), and "result_k", that each box has for itself: they may lie within
        its workspace.
    current : Settings, optional
        Which memory passes to leave out, how much memory a device has.
    where : str
        The device that it runs on.
    threads : int, optional
        Of the CPU; by default those of the settings.
    """
    current = current or settings()
    calls = any(isinstance(let.expr, fun.Call) for let in walk.statements(program.body))
    named = {p.name: layout for p, layout in zip(program.params, layouts, strict=True)}
    if calls or where == INTERPRETER:
        host = threads or host_threads(current)
        stage: CallStage | InterpretedStage | StepsStage | None = CallStage.of(program, host)
        if stage is None and (where == INTERPRETER or not have_compiler()):
            stage = InterpretedStage(program)
        if stage is None:
            stage = StepsStage(program, named, current, host)
        if calls and where != INTERPRETER and not is_cpu(where):
            stage.remarks = (*stage.remarks, "runs on the cpu: it is a call of the host's library")
        return stage
    if "no-time-tiles" not in current.optimise.split():
        program = tile_time(program)
    if is_cpu(where):
        program = side_by_side(program)
    segment = segment_of(
        program, named, left_out(where, current.optimise), dialect_of(where), private
    )
    if segment.dialect == "c" and not have_compiler():
        return InterpretedStage(program)
    loaded: Callable[[], Any] = cache(lambda: load(segment, where, current))
    better = None
    if segment.better is not None:
        version = segment.better.segment
        better = _Better(segment, segment.better, cache(lambda: load(version, where, current)))
    if segment.dialect != "c":
        return DeviceStage(segment, accelerator(where, current), loaded, better)
    if better is None:
        return PlainStage(segment, loaded, threads)
    return SegmentStage(segment, loaded, threads, better)


def _rates(name: str, current: Settings) -> Rates:
    return accelerator(name, current).rates


def processors(current: Settings) -> tuple[Processor, ...]:
    """The devices that boxes are spread over; none where there is one alone."""
    names = targets(current)
    if len(names) < 2:
        return ()
    found = []
    for name in names:
        device, on_host = find(name, current), is_cpu(name)
        code = partial(stage_code, current=current, where=name, threads=device.threads)
        kind = device.describe().removeprefix(f"{name}: ")
        limit = device.limit if on_host else None
        rates = None if on_host else partial(_rates, name, current)
        found.append(Processor(name, kind, on_host, device.threads, code, limit, rates))
    return tuple(found)
