"""From programs to steps that run: compiled segments, library calls and views.

A `Computation` runs a traced program in core; `stage_code` gives what the executor runs on
each box of a plan. Both compile through `weft.compiler` and run through `weft.runtime`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.compiler import (
    CallPiece,
    Compiled,
    CompiledPiece,
    Decisions,
    Piece,
    ViewPiece,
    compile_segment,
)
from weft.config import Settings, settings
from weft.errors import InternalError, MemoryLimitError
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.access import span_slice
from weft.fun.interpret import interpret
from weft.ops import routines
from weft.plan.nodes import StageCode
from weft.plan.seams import LAYOUT_CHANGES
from weft.plan.segment import Layout, Segment
from weft.runtime import threads as runtime_threads
from weft.runtime.devices.cpu import CpuDevice, LoadedSegment
from weft.runtime.incore import (
    HostStep,
    InCore,
    SegmentStep,
    Step,
    check_bounds,
    derive,
    layout_of,
    strides_of,
)
from weft.runtime.memory import format_bytes, host_pool
from weft.sizes import Size

NDArray: TypeAlias = npt.NDArray[Any]
Value: TypeAlias = Any

_device = CpuDevice()


@dataclass(frozen=True, slots=True)
class Ready:
    """A computation for one set of sizes and strides: steps, and what the results are."""

    steps: InCore
    atoms: tuple[fun.Atom, ...]  # of the results, in the version that runs
    roots: Mapping[str, str]  # of each result that is a view: what it is a view of
    plain: bool  # every result is a new array of its own


class Computation:
    """A traced program, compiled as its launches need it."""

    def __init__(self, program: fun.Program) -> None:
        self.program = program
        self.names = tuple(param.name for param in program.params)
        self.is_array = tuple(isinstance(p.type, fun.Array) for p in program.params)
        self.results = program.body.results
        self.compiled = Compiled(program)
        self._ready: dict[tuple[Any, ...], Ready] = {}
        self._steps: dict[tuple[Any, ...], tuple[Step, ...]] = {}

    def run_in_core(
        self,
        sizes: Mapping[str, int],
        inputs: Sequence[NDArray],
        out: Sequence[NDArray | None] | None = None,
        current: Settings | None = None,
    ) -> list[Value]:
        """Run on addressable inputs (scalars as arrays of rank 0).

        Raises
        ------
        MemoryLimitError
            When results and temporaries do not fit the limit.
        """
        current = settings() if current is None else current
        threads = current.threads or runtime_threads.threads()
        ready, inputs = self.ready(sizes, inputs, threads)
        steps = ready.steps
        if steps.peak_bytes > current.limit:
            raise MemoryLimitError(
                f"this computation needs {format_bytes(steps.peak_bytes)} in core",
                f"at most the memory limit, {format_bytes(current.limit)}",
            )
        held = dict(zip(self.names, inputs, strict=True))
        if out is None:
            values = steps.call(held, host_pool(), threads)
            if ready.plain:
                return values
            return self._results(ready, values, held)
        targets = _targets(ready, inputs, out)
        values = steps.call(held, host_pool(), threads, targets)
        results = self._results(ready, values, held)
        for k, given in enumerate(out):
            if given is not None and results[k] is not given:
                np.copyto(given, results[k], casting="no")
                results[k] = given
        return results

    def ready(
        self, sizes: Mapping[str, int], inputs: Sequence[NDArray], threads: int
    ) -> tuple[Ready, Sequence[NDArray]]:
        """The steps for these sizes and strides, and the inputs as they take them."""
        key: tuple[Any, ...] = (threads, *sizes.values())
        layouts: dict[str, Layout] = {}
        strides: dict[str, int] = {}
        for place, array in enumerate(inputs):
            if not array.flags.carray and self.is_array[place]:
                layout = layout_of(array)
                if layout is None:
                    inputs = [*inputs]
                    inputs[place] = np.array(array, array.dtype.newbyteorder("="), order="C")
                elif layout != "contiguous":
                    layouts[self.names[place]] = layout
                    strides |= strides_of(self.names[place], array, layout)
        if strides:
            key = (*key, *strides.items())
        found = self._ready.get(key)
        if found is None:
            found = self._ready[key] = self._prepare(
                {**sizes, **strides, "threads": threads}, layouts
            )
        return found, inputs

    def _prepare(self, values: dict[str, int], layouts: Mapping[str, Layout]) -> Ready:
        decisions = self.compiled.decide(values)
        version = self.compiled.version(decisions)
        key = (decisions, *layouts.items())
        steps = self._steps.get(key)
        if steps is None:
            steps = tuple(_step(piece, layouts) for piece in version.pieces)
            self._steps[key] = steps
        values = derive(values, version.program.derived)
        atoms = version.program.body.results
        names = dict.fromkeys(
            a.name for a in atoms if isinstance(a, fun.Var) and a.name not in self.names
        )
        roots = view_roots(version.program)
        plain = len(names) == len(atoms) and not any(name in roots for name in names)
        return Ready(InCore(steps, values, tuple(names)), atoms, roots, plain)

    def _results(
        self, ready: Ready, values: Sequence[Value], held: Mapping[str, Value]
    ) -> list[Value]:
        """One array for each result, sharing memory neither with inputs nor with each other."""
        known = {**held, **dict(zip(ready.steps.results, values, strict=True))}
        taken: set[str] = set(self.names)
        results = []
        for atom in ready.atoms:
            if isinstance(atom, fun.Const):
                results.append(np.array(atom.value, atom.dtype.numpy))
                continue
            value = known[atom.name]
            root = ready.roots.get(atom.name, atom.name)
            if root in taken:
                value = _copied(value)
            taken.add(root)
            results.append(value)
        return results

    # ------------------------------------------------------------ other ways to run

    def streamed(self) -> fun.Program:
        """The program as the planner takes it: optimised, reductions split."""
        return self.compiled.version(Decisions()).program

    def is_small(self, sizes: Mapping[str, int], limit: int) -> bool:
        """Whether no array of the program takes `limit` bytes or more."""
        known = derive(sizes, self.program.derived)
        try:
            return all(
                math.prod(extent.evaluate(known) for extent in var.type.shape)
                * var.type.dtype.itemsize
                < limit
                for let in self.program.body.statements
                for var in let.pattern
                if isinstance(var.type, fun.Array)
            )
        except KeyError:  # an extent that only running the program tells
            return False

    def interpret(self, sizes: Mapping[str, int], inputs: Sequence[Value]) -> list[Value]:
        """Run with the interpreter, in memory."""
        return [np.asarray(value) for value in interpret(self.program, inputs, sizes)]


def view_roots(program: fun.Program) -> dict[str, str]:
    """For each outermost layout change, the array that it is a view of."""
    roots: dict[str, str] = {}
    for let in program.body.statements:
        if isinstance(let.expr, LAYOUT_CHANGES) and isinstance(let.expr.array, fun.Var):
            roots[let.pattern[0].name] = roots.get(let.expr.array.name, let.expr.array.name)
    return roots


def _copied(value: NDArray) -> NDArray:
    copy = host_pool().empty(value.shape, value.dtype)
    np.copyto(copy, value)
    return copy


def _targets(
    ready: Ready, inputs: Sequence[NDArray], out: Sequence[NDArray | None]
) -> dict[str, NDArray]:
    """Results that kernels can write straight to the caller's arrays."""
    targets: dict[str, NDArray] = {}
    for atom, given in zip(ready.atoms, out, strict=True):
        if (
            given is not None
            and isinstance(atom, fun.Var)
            and atom.name not in ready.roots
            and atom.name not in targets
            and given.flags.carray
            and not any(np.may_share_memory(given, array) for array in inputs)
        ):
            targets[atom.name] = given
    return targets


def _step(piece: Piece, layouts: Mapping[str, Layout]) -> Step:
    match piece:
        case CompiledPiece(program, results):
            names = tuple(param.name for param in program.params)
            segment = compile_segment(program, {n: layouts[n] for n in names if n in layouts})
            return SegmentStep(segment, _device.load(segment), names, results)
        case CallPiece(let) | ViewPiece(let):
            return _host_step(let)


def _host_step(let: fun.Let) -> HostStep:
    """A library call, or a view, as NumPy does it."""
    names = tuple(sorted(walk.used_names(let.expr)))
    expr = let.expr
    variables = {a.name: a for a in walk.operands(expr)[0] if isinstance(a, fun.Var)}
    params = tuple(variables[name] for name in names if name in variables)

    def allocated(sizes: Mapping[str, int]) -> int:
        if not isinstance(expr, fun.Call):
            return 0
        return sum(
            math.prod(extent.evaluate(sizes) for extent in walk.type_sizes(var.type))
            * var.type.dtype.itemsize
            for var in let.pattern
        )

    def run(values: Sequence[Value], sizes: Mapping[str, int]) -> Sequence[Value]:
        if not isinstance(expr, fun.Call):
            return (view(expr, values[0], sizes),)
        held = dict(zip((param.name for param in params), values, strict=True))
        arguments = [
            held[atom.name]
            if isinstance(atom, fun.Var)
            else np.asarray(atom.value, atom.dtype.numpy)
            for atom in expr.arguments
        ]
        out = tuple(
            host_pool().empty(
                tuple(extent.evaluate(sizes) for extent in walk.type_sizes(var.type)),
                var.type.dtype.numpy,
            )
            for var in let.pattern
        )
        return routines.routine(expr.routine).run(*arguments, out=out, **dict(expr.options))

    return HostStep(
        tuple(param.name for param in params), tuple(v.name for v in let.pattern), run, allocated
    )


def view(expr: fun.Expr, value: Value, sizes: Mapping[str, int]) -> Value:
    """A layout change of an array in memory: a view where NumPy has one."""

    def number(size: Size) -> int:
        return size.evaluate(sizes)

    match expr:
        case fun.Slice(_, dims):
            index = tuple(
                span_slice(number(dim.start), number(dim.extent), dim.step)
                if isinstance(dim, fun.Span)
                else number(dim)
                for dim in dims
            )
            return value[index]
        case fun.Permute(_, axes):
            return value.transpose(axes)
        case fun.Reshape(_, shape):
            return value.reshape(tuple(map(number, shape)))
        case fun.Broadcast(_, shape):
            return np.broadcast_to(value, tuple(map(number, shape)))
        case fun.LmadSlice(_, offset, dims):
            places: NDArray = np.asarray(number(offset))
            for extent, stride in dims:
                places = places[..., None] + number(stride) * np.arange(number(extent))
            return value[places]
        case _:
            raise InternalError(f"{type(expr).__name__} is not a layout change")


# ---------------------------------------------------------------- stages of a plan


class SegmentStage:
    """A stage that is one compiled segment."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.integers = segment.integers
        self.workspace: Size | None = segment.workspace
        self.kernels = segment.kernels
        self._loaded: LoadedSegment = _device.load(segment)

    def run(
        self,
        integers: npt.NDArray[np.int64],
        inputs: Sequence[NDArray],
        outputs: Sequence[NDArray],
        workspace: npt.NDArray[np.uint8],
    ) -> None:
        pointers = [array.__array_interface__["data"][0] for array in inputs]
        pointers += [array.__array_interface__["data"][0] for array in outputs]
        pointers.append(workspace.__array_interface__["data"][0] if workspace.size else 0)
        self._loaded.call(integers.tolist(), pointers)

    def check(self, values: Mapping[str, Any]) -> None:
        check_bounds(self.segment.checks, values)


class InterpretedStage:
    """A stage that the interpreter runs: library calls, or no compiler."""

    workspace: Size | None = None

    def __init__(self, program: fun.Program) -> None:
        self.program = program
        self.integers = (*program.sizes, *(entry.name for entry in program.derived))
        self.kernels = tuple(
            f"{type(let.expr).__name__.lower()} {let.pattern[0].name} (by NumPy)"
            for let in program.body.statements
            if not isinstance(let.expr, LAYOUT_CHANGES)
        )

    def run(
        self,
        integers: npt.NDArray[np.int64],
        inputs: Sequence[NDArray],
        outputs: Sequence[NDArray],
        workspace: npt.NDArray[np.uint8],
    ) -> None:
        sizes = dict(zip(self.integers, integers.tolist(), strict=True))
        results = interpret(self.program, inputs, sizes)
        for output, result in zip(outputs, results, strict=True):
            np.copyto(output, result, casting="no")

    def check(self, values: Mapping[str, Any]) -> None:
        """The interpreter checks every access when it comes to it."""


def stage_code(program: fun.Program, layouts: Sequence[Layout]) -> StageCode:
    """What runs a stage of a plan on one box.

    Parameters
    ----------
    program : fun.Program
    layouts : sequence of Layout
        How each parameter lies in memory.
    """
    calls = any(isinstance(let.expr, fun.Call) for let in walk.statements(program.body))
    if calls or not have_compiler():
        return InterpretedStage(program)
    named = {p.name: layout for p, layout in zip(program.params, layouts, strict=True)}
    return SegmentStage(compile_segment(program, named))


_warned = False


def have_compiler() -> bool:
    """Whether programs can be compiled; the first time they cannot, warn how to get speed."""
    global _warned
    if CpuDevice.available():
        return True
    if not _warned:
        _warned = True
        warnings.warn(
            "Weft found no C compiler and interprets programs with NumPy, which is slow; "
            "install gcc or clang, or `pip install weft[cc]`",
            RuntimeWarning,
            stacklevel=2,
        )
    return False
