"""A traced program that runs: in core, by the interpreter, or as the planner takes it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from weft.config import Settings, settings
from weft.errors import CompileError, MemoryLimitError
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.contractions import INTEGERS, NUMBERS
from weft.fun.vector_math import has_vector_math
from weft.io.held import may_share_memory
from weft.launch.artifacts import Artifact, ArtifactPiece, Artifacts, SegmentPiece
from weft.launch.device import (
    CPU,
    dialect_of,
    find,
    have_compiler,
    host_threads,
    is_gpu,
    left_out,
    load,
    load_together,
    on_own_cores,
)
from weft.launch.results import brought
from weft.plan.decisions import (
    Choices,
    Decided,
    decide,
    every_decision,
    for_device,
    in_room,
    most_sums,
    nothing,
    whole_columns,
)
from weft.plan.footprint import pointer_params
from weft.plan.seams import CallPiece, ViewPiece
from weft.plan.segment import Layout
from weft.plan.short_extents import Extents, constants, reduced_extents, with_constants
from weft.plan.work import has_short_rows, work
from weft.records import dataclass
from weft.runtime import tiers
from weft.runtime.garbage import few_collections
from weft.runtime.incore import InCore, SegmentStep, Step, derive, layout_of, strides_of
from weft.runtime.memory import format_bytes, host_pool
from weft.runtime.toolchain import Effort
from weft.runtime.watch import watched

NDArray: TypeAlias = npt.NDArray[Any]
Value: TypeAlias = Any

_LONG = 1 << 32
"""Scalar operations that take longer than compilers do."""

_BRIEF = 1 << 29
"""Scalar operations that take less time than what compilers save by less code."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A computation for one set of sizes and strides: steps, and what the results are."""

    steps: InCore
    artifact: Artifact
    plain: bool  # every result is a new array of its own, or all of one seen otherwise
    copied: int  # bytes of the results that are copies, of inputs and of one another


def _reductions(program: fun.Program) -> int:
    """How many there are that are in no other."""
    return sum(isinstance(let.expr, fun.Reduce) for let in walk.sequential(program.body))


class _NoCodeError(Exception):
    """A piece has no form for the device, and there is no C compiler for the CPU."""


def _choices(artifacts: Artifacts, where: str) -> Choices:
    """What a launch decides; where that is not known yet, a compiler starts meanwhile."""
    if where == CPU and settings().quick_start and artifacts.are_new:
        tiers.expect()
    return artifacts.choices


def _needs_c(artifact: Artifact) -> bool:
    return any(
        isinstance(piece, SegmentPiece) and piece.segment.dialect == "c"
        for piece in artifact.pieces
    )


class Computation:
    """A traced program, compiled as its launches need it.

    Parameters
    ----------
    program : fun.Program
    replaced : mapping of str to int, optional
        Parameters that results of those numbers are to replace: a launch to which one array
        is given for both updates it in place where it can.
    """

    def __init__(self, program: fun.Program, replaced: Mapping[str, int] | None = None) -> None:
        self.program = program
        self.replaced = replaced or {}
        self.names = tuple(param.name for param in program.params)
        self.is_array = tuple(isinstance(p.type, fun.Array) for p in program.params)
        used = walk.free_names(program.body)
        self.is_read = tuple(param.name in used for param in program.params)  # not its shape alone
        self.results = program.body.results
        self.plans: dict[Any, Any] = {}  # in boxes; see `weft.launch.boxes`
        self.transfers: dict[Any, Any] = {}  # to a device, packed; see `weft.launch.packed`
        self.is_packed = False
        self._ready: dict[tuple[Any, ...], Ready] = {}
        self._compiled: dict[Any, tuple[Artifact, tuple[Step, ...]]] = {}
        self._most_sums: dict[tuple[int, ...], int] = {}
        self._of_few: dict[tuple[Any, ...], Artifacts] = {}

    @cached_property
    def pointers(self) -> frozenset[str]:
        """The parameters whose elements decide about boxes."""
        return pointer_params(self.program)

    @cached_property
    def parted(self) -> tuple[Computation, Computation, tuple[str, ...]] | None:
        """What computes lengths, and the rest, which has sizes of these names for them."""
        from weft.launch.lengths import part

        found = part(self.program)
        if found is None:
            return None
        return Computation(found.measure), Computation(found.rest, self.replaced), found.sizes

    @cached_property
    def artifacts(self) -> Artifacts:
        """The compiled forms of the program, for processors."""
        return Artifacts(self.program, INTEGERS)

    @cached_property
    def _reduced_extents(self) -> tuple[Extents, ...]:
        program = self.program
        if has_vector_math(program.body):
            from weft.passes.pipeline import optimise

            program = optimise(program)  # squares are no function's; reductions hold their elements
        return reduced_extents(program)

    @cached_property
    def _artifacts_for_gpus(self) -> Artifacts:
        return Artifacts(self.program, NUMBERS)

    def artifacts_for(self, where: str, sizes: Mapping[str, int] | None = None) -> Artifacts:
        """The compiled forms of the program for a device, and for those of the sizes that count."""
        gpu = is_gpu(where)
        general = self._artifacts_for_gpus if gpu else self.artifacts
        if sizes is None or not (gpu or have_compiler()):  # what was built ahead is for all sizes
            return general
        known = derive(sizes, self.program.derived)
        few = constants(self.program, self._reduced_extents, known)
        if not few:
            return general
        key = (gpu, *few.items())
        if key not in self._of_few:
            written = with_constants(self.program, few)
            made = Artifacts(written, NUMBERS if gpu else INTEGERS)
            # On GPUs one group for several rows is as good, unless some are folded in others.
            gains = not gpu or _reductions(made.fused) < _reductions(general.fused)
            self._of_few[key] = made if gains else general
        return self._of_few[key]

    def run_in_core(
        self,
        sizes: Mapping[str, int],
        inputs: Sequence[NDArray],
        out: Sequence[NDArray | None] | None = None,
        current: Settings | None = None,
        where: str = CPU,
    ) -> list[Value]:
        """Run on addressable inputs (scalars as arrays of rank 0), on the device `where`.

        Raises
        ------
        MemoryLimitError
            When results and temporaries do not fit the limit.
        """
        current = settings() if current is None else current
        try:
            if where == CPU and current.devices[0] != CPU:
                with on_own_cores(current):
                    return self._run_in_core(sizes, inputs, out, current, where)
            return self._run_in_core(sizes, inputs, out, current, where)
        finally:
            tiers.begin()

    def _run_in_core(
        self,
        sizes: Mapping[str, int],
        inputs: Sequence[NDArray],
        out: Sequence[NDArray | None] | None,
        current: Settings,
        where: str,
    ) -> list[Value]:
        threads = host_threads(current)
        if where != CPU:
            find(where, current)  # under its limit
        try:
            donated = self.donated(inputs, out) if where == CPU else {}
            ready, inputs = self.ready(sizes, inputs, threads, current.optimise, where, donated)
        except _NoCodeError:
            return brought(self.interpret(sizes, inputs, current.optimise), out, threads)
        steps = ready.steps
        targets: dict[str, NDArray] = {}
        if out is not None:
            targets = {
                name: given.reshape(shape)
                for name, number, shape in self.targets(ready, inputs, out)
                if (given := out[number]) is not None
            }
        needed = steps.peak_bytes + ready.copied
        if needed > current.limit and targets:
            needed = steps.peak(targets) + ready.copied
        if needed > current.limit:
            raise MemoryLimitError(
                f"this computation needs {format_bytes(needed)} in core",
                f"at most the memory limit, {format_bytes(current.limit)}",
            )
        held = dict(zip(self.names, inputs, strict=True))
        if out is None:
            values = steps.call(held, host_pool(), threads)
            if ready.plain:
                return values
            return self._results(ready, values, held)
        try:
            values = steps.call(held, host_pool(), threads, targets or None)
        except MemoryLimitError as error:
            error.has_begun, error.has_written = bool(donated), bool(targets)
            raise
        return brought(self._results(ready, values, held), out, threads)

    def ready(
        self,
        sizes: Mapping[str, int],
        inputs: Sequence[NDArray],
        threads: int,
        optimise: str = "",
        where: str = CPU,
        donated: Mapping[str, int] | None = None,
    ) -> tuple[Ready, Sequence[NDArray]]:
        """The steps for these sizes and strides, and the inputs as they take them."""
        donated = donated or {}
        key: tuple[Any, ...] = (threads, optimise, where, *donated, *sizes.values())
        layouts: dict[str, Layout] = {}
        strides: dict[str, int] = {}
        any_layout = where == CPU and have_compiler()  # what was built ahead has one
        for place, array in enumerate(inputs):
            layout = layout_of(array)
            if layout == "contiguous" or not self.is_array[place]:
                continue
            if layout is None or not any_layout:
                inputs = [*inputs]
                inputs[place] = np.array(array, array.dtype.newbyteorder("="), order="C")
            else:
                layouts[self.names[place]] = layout
                strides |= strides_of(self.names[place], array, layout)
        if strides:
            key = (*key, *strides.items())
        found = self._ready.get(key)
        if found is None:
            values = {**sizes, **strides, "threads": threads}
            with few_collections():
                found = self._prepare(values, layouts, optimise, where, donated)
            self._ready[key] = found
        return found, inputs

    def donated(
        self, inputs: Sequence[NDArray], out: Sequence[NDArray | None] | None
    ) -> dict[str, int]:
        """Parameters that may be overwritten: the results that replace them go there too."""
        if out is None or not self.replaced:
            return {}
        held = dict(zip(self.names, inputs, strict=True))
        copied = not have_compiler()  # unless they are row-major: see `ready`
        return {
            name: number
            for name, number in self.replaced.items()
            if out[number] is held[name] and (copied or _is_orderly(held[name]))
        }

    def targets(
        self, ready: Ready, inputs: Sequence[NDArray], out: Sequence[NDArray | None]
    ) -> list[tuple[str, int, tuple[int, ...]]]:
        """Results that can be written straight to the caller's arrays, apart from what is read.

        Devices with memory of their own copy to arrays that lie in any way. Each: what a step
        calls the result, the number of the array in `out`, and the shape that it has there.
        """
        read = [array for array, yes in zip(inputs, self.is_read, strict=True) if yes]
        targets: list[tuple[str, int, tuple[int, ...]]] = []
        roots = ready.artifact.roots
        shown = Counter(roots.get(n, n) for n in ready.artifact.results if isinstance(n, str))
        for number, (name, given) in enumerate(zip(ready.artifact.results, out, strict=True)):
            if given is None or not isinstance(name, str) or shown[roots.get(name, name)] > 1:
                continue
            origin, shape = name, given.shape
            if name in roots:
                if name not in ready.steps.origins or not given.flags.carray:
                    continue
                origin, shape = ready.steps.origins[name]
            if (
                (given.flags.carray or ready.steps.is_copied(origin))
                and not any(may_share_memory(given, array) for array in read)
            ):
                targets.append((origin, number, shape))
        return targets

    def every_artifact(self) -> Iterator[Artifact]:
        """The program compiled to C for all that a launch may decide, as far as that is few.

        Of arrays that lie row-major, and may be overwritten where results replace them.
        """
        for decided in every_decision(self.artifacts.choices):
            yield self.artifacts.artifact(decided, {}, donated=self.replaced)

    def _prepare(
        self, values: dict[str, int], layouts: Mapping[str, Layout], optimise: str, where: str,
        donated: Mapping[str, int],
    ) -> Ready:  # fmt: skip
        artifacts = self.artifacts_for(where, values)
        choices = _choices(artifacts, where)
        decided = (
            decide(choices, values, optimise)
            if where == CPU
            else for_device(choices, values, optimise)
        )
        key = (artifacts, decided, optimise, where, *layouts.items(), *donated)
        compiled = self._compiled.get(key)
        if compiled is None:
            effort = self._effort(values)
            compiled = self._compiled[key] = self._compile(
                artifacts, decided, layouts, optimise, where, donated, effort
            )
        artifact, steps = compiled
        names = dict.fromkeys(
            name for name in artifact.results if isinstance(name, str) and name not in self.names
        )
        roots = {artifact.roots.get(name, name) for name in names} - set(self.names)
        plain = len(roots) == len(artifact.results)
        in_core = InCore(steps, derive(values, artifact.derived), tuple(names))
        return Ready(in_core, artifact, plain, 0 if plain else self._copied(artifact, values))

    def _copied(self, artifact: Artifact, sizes: Mapping[str, int]) -> int:
        """Bytes of the results that are made of memory which is not theirs; see `_results`."""
        known, taken, copied = derive(sizes, self.program.derived), set(self.names), 0
        for result, atom in zip(artifact.results, self.program.body.results, strict=True):
            if isinstance(result, str):
                root = artifact.roots.get(result, result)
                if root in taken and isinstance(atom.type, fun.Array):
                    shape = (extent.evaluate(known) for extent in atom.type.shape)
                    copied += math.prod(shape) * atom.type.dtype.itemsize
                taken.add(root)
        return copied

    def _compile(
        self, artifacts: Artifacts, decided: Decided, layouts: Mapping[str, Layout],
        optimise: str, where: str, donated: Mapping[str, int], effort: Effort,
    ) -> tuple[Artifact, tuple[Step, ...]]:  # fmt: skip
        without = left_out(where, optimise)
        artifact = artifacts.artifact(decided, layouts, without, dialect_of(where), donated)
        if where != CPU and _needs_c(artifact) and not have_compiler():
            raise _NoCodeError
        needed = (piece.segment for piece in artifact.pieces if _is_surely_needed(piece))
        load_together(needed, effort)
        try:
            return artifact, tuple(step_of(piece, where, effort) for piece in artifact.pieces)
        except CompileError:
            plain = replace(nothing(artifacts.choices), contract=decided.contract)
            if have_compiler() or decided == plain:
                raise
            # What was built ahead.
            return self._compile(artifacts, plain, layouts, optimise, where, donated, effort)

    def _effort(self, values: Mapping[str, int]) -> Effort:
        """How much compilers are to do before the first call, by how long that will take."""
        if not settings().quick_start:
            return Effort.FULL
        known = derive(values, self.program.derived)
        body = self.program.body
        operations = sum(work(let, known) for let in body.statements)
        if operations > _LONG:
            return Effort.FULL
        brief = operations < _BRIEF and not has_short_rows(body, known)
        return Effort.LEAST if brief else Effort.LESS

    def _results(
        self, ready: Ready, values: Sequence[Value], held: Mapping[str, Value]
    ) -> list[Value]:
        """One array for each result, sharing memory neither with inputs nor with each other."""
        known = {**held, **dict(zip(ready.steps.results, values, strict=True))}
        taken: set[str] = set(self.names)
        results = []
        for result in ready.artifact.results:
            if isinstance(result, fun.Const):
                results.append(np.array(result.value, result.dtype.numpy))
                continue
            value = known[result]
            root = ready.artifact.roots.get(result, result)
            if root in taken:
                value = _copied(value)
            taken.add(root)
            results.append(value)
        return results

    # ------------------------------------------------------------ other ways to run

    def streamed(
        self, sizes: Mapping[str, int], threads: int, where: str = CPU, spread: bool = False,
        optimise: str = "", room: int | None = None,
    ) -> fun.Program:  # fmt: skip
        """The program as the planner takes it: optimised as for these sizes.

        `spread`: for several devices. `room`: bytes that boxes may take on a device.

        Its loops stay as they are: the planner's stages come before tiles in the cache. It has no
        empty arrays, which would have to be whole.
        """
        values = {**sizes, "threads": threads}
        artifacts = self.artifacts_for(where, values)
        choices = artifacts.choices
        decided = (
            decide(choices, values, f"{optimise} no-time-tiles no-reduce-ahead")
            if where == CPU
            else for_device(choices, values, f"{optimise} no-time-tiles")
        )
        if spread:
            decided = whole_columns(choices, decided, values)
        if room is not None:
            decided = in_room(choices, decided, values, room)
        return artifacts.streamed(decided)

    def most_sums(self, sizes: Mapping[str, int]) -> int:
        """The elements of the largest contraction, for these sizes."""
        key = tuple(sizes.values())
        found = self._most_sums.get(key)
        if found is None:
            choices = _choices(self.artifacts_for(CPU, sizes), CPU)
            found = self._most_sums[key] = most_sums(choices, sizes)
        return found

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

    def interpret(
        self, sizes: Mapping[str, int], inputs: Sequence[Value], optimise: str = ""
    ) -> list[Value]:
        """Run with the interpreter, in memory."""
        from weft.fun.interpret import interpret

        contracted = "contract" in optimise.split()
        program = self.artifacts.contracted if contracted else self.program
        with watched(inputs):
            return [np.asarray(value) for value in interpret(program, inputs, sizes)]


def _is_orderly(array: NDArray) -> bool:
    """Whether kernels can address an array, and no two of its indices are one element."""
    if layout_of(array) is None:
        return False
    reach = array.itemsize
    for extent, stride in sorted(zip(array.shape, array.strides, strict=True), key=lambda d: d[1]):
        if extent > 1 and stride < reach:
            return False
        reach = max(reach, extent * stride)
    return True


def _copied(value: NDArray) -> NDArray:
    copy = host_pool().empty(value.shape, value.dtype)
    np.copyto(copy, value)
    return copy


def _is_surely_needed(piece: ArtifactPiece) -> TypeGuard[SegmentPiece]:
    """Whether it is a segment of one version; else the first launch tells which is needed."""
    return isinstance(piece, SegmentPiece) and piece.segment.better is None


def _segment_step(piece: SegmentPiece, where: str, effort: Effort) -> SegmentStep:
    loaded = cache(lambda: load(piece.segment, where, settings(), effort))
    return SegmentStep(piece.segment, loaded, piece.params, piece.results)


def step_of(piece: ArtifactPiece, where: str, effort: Effort) -> Step:
    """A piece as a step that is called, with what it loads when it is needed."""
    match piece:
        case SegmentPiece(segment, params, results):
            step = _segment_step(piece, where, effort)
            if _is_surely_needed(piece) or not have_compiler():
                step.load()
            if segment.better is None:
                return step
            version = SegmentPiece(segment.better.segment, params, results)
            return replace(step, better=cache(lambda: _segment_step(version, where, effort)))
        case CallPiece(let, over):
            from weft.launch.host import host_step

            return host_step(let, over)
        case ViewPiece(let):
            from weft.launch.host import host_step

            return host_step(let)
