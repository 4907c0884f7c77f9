"""What a call would do in core, told without running it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.config import Settings
from weft.fun import nodes as fun
from weft.launch.computation import Computation, Ready
from weft.launch.device import CPU, host_threads
from weft.plan.at_once import AtOnce
from weft.plan.nodes import Value
from weft.plan.times import BEGUN_BY_C, host_seconds, whole_work
from weft.runtime.incore import InCore, Launch, derive

NDArray: TypeAlias = npt.NDArray[Any]


def at_once(
    computation: Computation, sizes: Mapping[str, int], inputs: Sequence[NDArray],
    out: Sequence[NDArray | None], current: Settings,
) -> AtOnce | None:  # fmt: skip
    """The call in core that has arrays for some of its results; None where it does not fit."""
    threads = host_threads(current)
    donated = computation.donated(inputs, out)
    ready, inputs = computation.ready(sizes, inputs, threads, current.optimise, CPU, donated)
    straight = {name for name, _, _ in computation.targets(ready, inputs, out)}
    peak = ready.steps.peak(straight) + ready.copied
    if peak > current.limit:
        return None
    kernels, remarks = _told(ready.steps)
    named = zip(computation.names, inputs, computation.is_read, strict=True)
    read = [Value(n, a.dtype, a.shape) for n, a, is_read in named if is_read and a.ndim]
    places = _places(computation, ready, inputs, out)
    found = AtOnce(
        computation.program.name, threads, read, places, kernels, remarks, peak, current.limit
    )
    asked = whole_work(
        computation.program, sizes, found.bytes_moved, ready.steps.peak(straight), len(kernels)
    )
    return replace(found, seconds=host_seconds(asked, threads, False, BEGUN_BY_C))


def _told(steps: InCore) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A line for each kernel and library call, and what memory passes say."""
    kernels: list[str] = []
    remarks: list[str] = []
    for step in steps.steps:
        if isinstance(step, Launch):
            kernels += (f"kernel {kernel}" for kernel in step.step.segment.kernels)
            remarks += step.step.segment.remarks
        elif any(step.step.bytes(steps.values)) or step.step.over is not None:
            kernels.append(f"call {step.step.results[0]} (by NumPy)")
    return tuple(kernels), tuple(remarks)


def _places(
    computation: Computation, ready: Ready, inputs: Sequence[NDArray],
    out: Sequence[NDArray | None],
) -> list[tuple[Value, str]]:  # fmt: skip
    """Each result, and where it goes."""
    known = derive(ready.steps.values, computation.program.derived)
    replaced = {number: name for name, number in computation.replaced.items()}
    over = _lies_in(ready.steps)
    straight = {number for _, number, _ in computation.targets(ready, inputs, out)}
    places: list[tuple[Value, str]] = []
    results = zip(ready.artifact.results, computation.program.body.results, out, strict=True)
    for number, (result, atom, given) in enumerate(results):
        shape: tuple[int, ...] = ()
        if isinstance(atom.type, fun.Array):
            shape = tuple(int(extent.evaluate(known)) for extent in atom.type.shape)
        name = atom.name if isinstance(atom, fun.Var) else f"constant {number}"
        value = Value(name, np.dtype(atom.type.dtype.numpy), shape)
        target = replaced.get(number)
        root = ready.artifact.roots.get(result, result) if isinstance(result, str) else None
        if given is None:
            place = "to a new array"
        elif target is not None and root is not None and over.get(root, root) == target:
            place = f"in place of {target}"
        else:
            place = f"to {target or 'the array given for it'}"
            place += ", computed there" if number in straight else ", copied there"
        places.append((value, place))
    return places


def _lies_in(steps: InCore) -> dict[str, str]:
    """For each value that is made over an array, which that is."""
    over: dict[str, str] = {}
    for step in steps.steps:
        if isinstance(step, Launch):
            for result, param in step.step.segment.donated:
                taken = step.step.params[param]
                over[step.step.results[result]] = over.get(taken, taken)
        elif step.step.over is not None:
            over[step.step.results[0]] = over.get(step.step.over, step.step.over)
    return over
