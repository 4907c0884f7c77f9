"""Running a program whose data is all addressable: segments and library calls in turn.

A program in core is a list of steps over named values. What depends on sizes alone (the
integers a segment takes, the shapes of results, launch-time bounds) is worked out once for
each set of sizes and strides, so that a repeated call only fills in pointers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import reduce
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.errors import OutOfBoundsError, called
from weft.lmad import exact
from weft.plan.code import Wholes
from weft.plan.segment import BoundsCheck, CollisionCheck, Layout, Segment
from weft.records import dataclass
from weft.runtime import profile
from weft.runtime.address import SMALL, SmallWorkspace, address_of
from weft.runtime.devices.cpu import LoadedSegment
from weft.runtime.devices.protocol import LoadedSegment as LoadedKernels
from weft.runtime.memory import Pool
from weft.sizes import Derived

NDArray: TypeAlias = npt.NDArray[Any]
Value: TypeAlias = Any  # an ndarray, or a NumPy scalar


@dataclass(frozen=True, slots=True)
class SegmentStep:
    """One compiled segment; its parameters and results go by name.

    `load()` gives its library, which is made once a launch needs it; `better()` is the step
    of the segment's better version.
    """

    segment: Segment
    load: Callable[[], LoadedSegment | LoadedKernels]
    params: tuple[str, ...]
    results: tuple[str, ...]
    better: Callable[[], SegmentStep] | None = None


HostRun: TypeAlias = Callable[[Sequence[Value], Mapping[str, NDArray] | None], Sequence[Value]]
"""(values, out) -> results; `out` are arrays that results may be written to, by name."""


@dataclass(frozen=True, slots=True)
class HostStep:
    """A library call or a view: `bind(sizes)` gives what makes the named results.

    `bytes(sizes)` is what each of them takes, unless its one result takes the memory of `over`;
    `workspace(sizes)` what the call makes besides.
    `reshapes`: the result is the same memory in another shape, where that is row-major.
    """

    params: tuple[str, ...]
    results: tuple[str, ...]
    bind: Callable[[Mapping[str, int]], HostRun]
    bytes: Callable[[Mapping[str, int]], Sequence[int]]
    over: str | None = None
    reshapes: bool = False
    workspace: Callable[[Mapping[str, int]], int] | None = None


Step: TypeAlias = SegmentStep | HostStep


@dataclass(frozen=True, slots=True)
class Launch:
    """A `SegmentStep` for one set of sizes and strides."""

    step: SegmentStep
    loaded: LoadedSegment | LoadedKernels
    integers: tuple[int, ...]
    results: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]
    workspace: int


@dataclass(frozen=True, slots=True)
class HostCall:
    """A `HostStep` for one set of sizes."""

    step: HostStep
    run: HostRun


def layout_of(array: NDArray) -> Layout | None:
    """How an array lies in memory; None where kernels cannot address it (copy it first)."""
    flags = array.flags
    if not flags.aligned or not array.dtype.isnative:
        return None
    if flags.c_contiguous:
        return "contiguous"
    itemsize = array.itemsize
    if any(stride % itemsize for stride in array.strides):
        return None
    return "rows" if array.strides[-1] == itemsize else "strided"


def strides_of(name: str, array: NDArray, layout: Layout) -> dict[str, int]:
    """The integers "<name>.stride<d>" that a layout leaves free, in elements."""
    if layout == "contiguous":
        return {}
    free = array.ndim if layout == "strided" else array.ndim - 1
    return {f"{name}.stride{d}": array.strides[d] // array.itemsize for d in range(free)}


def derive(sizes: Mapping[str, int], derived: Sequence[Derived]) -> dict[str, int]:
    """The sizes, with those that are computed from them."""
    values = dict(sizes)
    for entry in derived:
        values[entry.name] = entry.evaluate(values)
    return values


def check_bounds(
    checks: Sequence[BoundsCheck], values: Mapping[str, Any], wholes: Wholes | None = None
) -> None:
    """Raise `OutOfBoundsError` for an affine access that leaves its array.

    `values` gives an int, or an array with one element for each box, for every size; `wholes`
    what parameters are parts of.
    """
    for check in checks:
        used = np.asarray(True)
        for count in check.nonempty:
            used = used & (np.asarray(count.evaluate(values)) > 0)
        limits = (
            reduce(np.maximum, (limit.evaluate(values) for limit in check.lower)),
            reduce(np.minimum, (limit.evaluate(values) for limit in check.upper)),
            check.extent.evaluate(values),
        )
        lower, upper, extent = np.broadcast_arrays(*limits, used)[:3]
        outside = used & ((lower < 0) | (upper >= extent))
        if outside.any():
            first = np.unravel_index(int(outside.argmax()), outside.shape)
            here = (0, int(extent[first]))
            begin, total = (wholes or {}).get((check.array, check.axis), here)
            begin = np.broadcast_to(begin, outside.shape)[first]
            raise OutOfBoundsError(
                f"indices from {lower[first] + begin} to {upper[first] + begin} leave axis "
                f"{check.axis} of {called(check.array)}, which has {total} elements",
                f"0 <= index < {total}",
                "guard the access with wf.where or wf.cond, or read with a boundary rule",
                check.place,
            )


def check_collisions(checks: Sequence[CollisionCheck], values: Mapping[str, Any]) -> None:
    """Raise `ArgumentError` for an update that meets an element twice.

    `values` gives an int, or an array with one element for each box, for every size.
    """
    for check in checks:
        counts = [np.asarray(count.evaluate(values)) > 0 for count in check.nonempty]
        sizes = [check.offset, *(size for dim in check.dims for size in dim)]
        columns = np.broadcast_arrays(*counts, *(size.evaluate(values) for size in sizes))
        used = np.logical_and.reduce(columns[: len(counts)], axis=0) if counts else True
        rows = np.stack(columns[len(counts) :], axis=-1)[used].reshape(-1, len(sizes))
        for offset, *numbers in np.unique(rows, axis=0).tolist():
            dims = tuple(zip(numbers[::2], numbers[1::2], strict=True))
            exact.refuse_collision(offset, dims, called(check.array), check.place)


def prepare_launch(step: SegmentStep, values: Mapping[str, int]) -> Launch:
    """Everything about a segment that sizes, strides and "threads" decide."""
    segment = step.segment
    if segment.dialect != "c":
        kernels = step.load()
        assert not isinstance(kernels, LoadedSegment)
        values = {**values, "threads": kernels.device.items}
    known = derive(values, segment.derived)
    if step.better is not None and segment.better is not None and segment.better.suits(known):
        return prepare_launch(step.better(), values)
    check_bounds(segment.checks, known)
    check_collisions(segment.collisions, known)
    results = tuple(
        (tuple(extent.evaluate(known) for extent in slot.shape), slot.dtype)
        for slot in segment.results
    )
    return Launch(
        step,
        step.load(),
        tuple(known[name] for name in segment.integers),
        results,
        segment.workspace.evaluate(known) if segment.dialect == "c" else 0,
    )


class InCore:
    """The steps of a program for one set of sizes and strides, ready to be called.

    Parameters
    ----------
    steps : sequence of Step
    values : mapping of str to int
        Sizes, strides "<param>.stride<d>", and "threads".
    results : sequence of str
        Names of the program's results.

    Attributes
    ----------
    origins : dict of str to (str, tuple of int)
        For what segments give, and for that in other shapes, its name and shape there.
    """

    def __init__(
        self, steps: Sequence[Step], values: Mapping[str, int], results: Sequence[str]
    ) -> None:
        self.values = values
        self.results = tuple(results)
        self.steps: tuple[Launch | HostCall, ...] = tuple(
            prepare_launch(step, values)
            if isinstance(step, SegmentStep)
            else HostCall(step, step.bind(values))
            for step in steps
        )
        self.origins = self._origins()
        self.dead_after = self._last_uses()
        self.peak_bytes = self.peak()
        self.single = (
            self.steps[0]
            if len(self.steps) == 1
            and isinstance(self.steps[0], Launch)
            and self.steps[0].step.results == self.results
            else None
        )

    def _origins(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        origins: dict[str, tuple[str, tuple[int, ...]]] = {}
        for launch in self.steps:
            if isinstance(launch, Launch):
                results = zip(launch.step.results, launch.results, strict=True)
                origins.update((name, (name, shape)) for name, (shape, _) in results)
            elif launch.step.reshapes and launch.step.params[0] in origins:
                origins[launch.step.results[0]] = origins[launch.step.params[0]]
        return origins

    def _last_uses(self) -> tuple[tuple[str, ...], ...]:
        """For each step, the values that nothing after it needs."""
        needed = set(self.results)
        dead: list[tuple[str, ...]] = []
        for launch in reversed(self.steps):
            names = launch.step
            dead.append(tuple({*names.params, *names.results} - needed))
            needed.update(names.params)
        dead.reverse()
        return tuple(dead)

    def peak(self, given: Collection[str] = ()) -> int:
        """Bytes allocated at most: results of steps until their last use, and workspace.

        `given`: what goes to arrays that are there.
        """
        held: dict[str, int] = {}
        peak = 0
        for launch, dead in zip(self.steps, self.dead_after, strict=True):
            step, names, workspace = launch.step, launch.step.results, 0
            if isinstance(launch, Launch):
                for name, (shape, dtype) in zip(names, launch.results, strict=True):
                    held[name] = 0 if name in given else math.prod(shape) * dtype.itemsize
                for result, param in launch.step.segment.donated:
                    held[names[result]] = held.pop(step.params[param], 0)
                workspace = launch.workspace
            elif launch.step.over is not None:
                held[names[0]] = held.pop(launch.step.over, 0)
            else:
                made = zip(names, launch.step.bytes(self.values), strict=True)
                held.update((name, 0 if name in given else count) for name, count in made)
            if isinstance(launch, HostCall) and launch.step.workspace is not None:
                workspace = launch.step.workspace(self.values)
            peak = max(peak, sum(held.values()) + workspace)
            for name in dead:
                held.pop(name, None)
        return peak

    def is_copied(self, name: str) -> bool:
        """Whether a result is copied to where it belongs, from the memory of a device."""
        return any(
            isinstance(launch, Launch)
            and not isinstance(launch.loaded, LoadedSegment)
            and name in launch.step.results
            for launch in self.steps
        )

    def call(
        self,
        inputs: Mapping[str, Value],
        pool: Pool,
        threads: int,
        out: Mapping[str, NDArray] | None = None,
    ) -> list[Value]:
        """Run the steps.

        Parameters
        ----------
        inputs : mapping of str to ndarray or scalar
            The program's parameters; scalars as arrays of rank 0.
        pool : Pool
            Where results and workspace come from.
        threads : int
        out : mapping of str to ndarray, optional
            Results that are to be written to given arrays: row-major unless they are copied
            there (`is_copied`), of the result's shape and dtype, apart from all inputs.
        """
        if self.single is not None and out is None:
            names = self.single.step.params
            return run_launch(self.single, [inputs[name] for name in names], pool, threads)
        held: dict[str, Value] = dict(inputs)
        for launch, dead in zip(self.steps, self.dead_after, strict=True):
            results: Sequence[Value]
            made = launch.step.results
            values = [held[name] for name in launch.step.params]
            if isinstance(launch, Launch):
                places = [out.get(name) for name in made] if out else None
                results = run_launch(launch, values, pool, threads, places)
            else:
                results = launch.run(values, out)
            held.update(zip(made, results, strict=True))
            for name in dead:
                held.pop(name, None)
        return [held[name] for name in self.results]


def run_launch(
    launch: Launch,
    inputs: Sequence[NDArray],
    pool: Pool,
    threads: int,
    out: Sequence[NDArray | None] | None = None,
) -> list[NDArray]:
    """Call one segment; results in new arrays from the pool, in `out`, or in donated inputs."""
    places: list[NDArray | None] = [None] * len(launch.results) if out is None else list(out)
    for result, param in launch.step.segment.donated:
        places[result] = inputs[param]
    results = [
        pool.empty(shape, dtype) if place is None else place
        for place, (shape, dtype) in zip(places, launch.results, strict=True)
    ]
    loaded = launch.loaded
    if not isinstance(loaded, LoadedSegment):
        loaded.start(launch.integers, inputs, results).wait()
        return results
    pointers = [address_of(array) for array in (*inputs, *results)]
    start = perf_counter() if profile.recorder is not None else 0.0
    if launch.workspace == 0:
        loaded.call(launch.integers, (*pointers, 0), threads)
    elif launch.workspace <= SMALL:
        with SmallWorkspace() as workspace:
            loaded.call(launch.integers, (*pointers, workspace), threads)
    else:
        with pool.workspace(launch.workspace, results) as workspace:
            loaded.call(launch.integers, (*pointers, workspace), threads)
    if profile.recorder is not None:
        moved = sum(array.nbytes for array in (*inputs, *results))
        name = ", ".join(launch.step.segment.kernels) or launch.step.segment.entry
        profile.recorder.record(name, "cpu", start, perf_counter(), moved)
    return results
