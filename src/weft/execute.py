"""Running graphs: what every user-facing room calls.

A set of nodes becomes a `Computation`, once for each graph key. A computation runs in one
of three ways: tiny ones are interpreted at once; those whose data is addressable and fits
the limit run in core, as compiled segments; the rest are planned and streamed.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.compiler import CallPiece, Compiled, CompiledPiece, Piece, ViewPiece, compile_segment
from weft.config import Settings, settings
from weft.errors import InternalError, MemoryLimitError
from weft.frontend.graph import Node
from weft.frontend.key import Walk, graph_key
from weft.frontend.trace import trace
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.access import span_slice
from weft.fun.interpret import interpret
from weft.ops import routines
from weft.ops.dtypes import DType
from weft.plan.protocols import Source
from weft.plan.seams import LAYOUT_CHANGES
from weft.plan.segment import Layout
from weft.runtime import threads as runtime_threads
from weft.runtime.devices.cpu import CpuDevice
from weft.runtime.incore import (
    HostStep,
    InCore,
    SegmentStep,
    Step,
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

    # ------------------------------------------------------------ without a compiler

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
        return routines.lookup(expr.routine).run(*arguments, out=out, **dict(expr.options))

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
            extents = tuple(number(extent) for extent, _ in dims)
            index = np.full(extents, number(offset))
            for d, (_, stride) in enumerate(dims):
                along = (1,) * d + (-1,) + (1,) * (len(dims) - d - 1)
                index += number(stride) * np.arange(extents[d]).reshape(along)
            return value[index]
        case _:
            raise InternalError(f"{type(expr).__name__} is not a layout change")


# ---------------------------------------------------------------- graphs

_computations: dict[Any, Computation] = {}
_making = threading.Lock()


def computation_of(outputs: Sequence[Node]) -> tuple[Computation, Walk]:
    """The computation of nodes, shared by all graphs of one key, and this graph's data."""
    found_walk = graph_key(outputs)
    found = _computations.get(found_walk.key)
    if found is None:
        with _making:
            found = _computations.get(found_walk.key)
            if found is None:
                found = Computation(trace(outputs, walk=found_walk).program)
                _computations[found_walk.key] = found
    return found, found_walk


def compute(outputs: Sequence[Node], out: Sequence[NDArray | None] | None = None) -> list[Value]:
    """The values of nodes, as arrays of their own (rank 0 for scalars).

    Parameters
    ----------
    outputs : sequence of Node
    out : sequence of ndarray or None, optional
        Where to write each result: of its shape and dtype.
    """
    computation, found_walk = computation_of(outputs)
    inputs = [leaf.value for leaf in found_walk.leaves]
    return run(computation, found_walk.values, inputs, out)


def run(
    computation: Computation,
    sizes: Mapping[str, int],
    inputs: Sequence[Any],
    out: Sequence[NDArray | None] | None = None,
) -> list[Value]:
    """Run a computation in the way that suits its data and the settings."""
    current = settings()
    params = computation.program.params
    arrays = [direct_array(value, p.type.dtype) for value, p in zip(inputs, params, strict=True)]
    if all(array is not None for array in arrays):
        held = [array for array in arrays if array is not None]
        if out is None and sum(array.nbytes for array in held) < current.interpret_below:
            return computation.interpret(sizes, held)
        if CpuDevice.available():
            return computation.run_in_core(sizes, held, out, current)
    raise NotImplementedError


def persist(outputs: Sequence[Node]) -> list[Node]:
    """Nodes computed once: leaves that hold the values."""
    return [value_leaf(value) for value in compute(outputs)]


def direct_array(value: Any, dtype: DType) -> NDArray | None:
    """Data as addressable memory; None where it must be read into buffers."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, Source):
        return value.direct()
    return np.asarray(value, dtype.numpy)
