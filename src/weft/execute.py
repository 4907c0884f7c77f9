"""Running graphs: what every user-facing room calls.

A set of nodes becomes a `Computation`, once for each graph key. A computation runs in one
of three ways: tiny ones are interpreted at once; those whose data is addressable and whose
results and temporaries fit the limit run in core, as compiled segments; the rest are planned
and streamed.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.config import Settings, settings
from weft.errors import ArgumentError, MemoryLimitError, SourceError, WeftError, user_place
from weft.frontend import extent
from weft.frontend.graph import Node, leaf
from weft.frontend.key import Walk, graph_key
from weft.frontend.trace import trace
from weft.fun import nodes as fun
from weft.launch import (
    CPU,
    INTERPRETER,
    Computation,
    device_limit,
    host_threads,
    target,
)
from weft.ops.dtypes import DType, from_numpy
from weft.plan.protocols import Sink, Source
from weft.runtime.memory import host_pool

# The compiler, the planner and files are imported when they are first needed, so that
# `import weft` stays quick.
if TYPE_CHECKING:
    from weft.plan.nodes import Plan
    from weft.plan.setting import Processor

NDArray: TypeAlias = npt.NDArray[Any]
Value: TypeAlias = Any

_computations: dict[Any, Computation] = {}
_making = threading.Lock()
_WORTH_BOXES = 2 << 20  # bytes of inputs that may be quicker in boxes
_PLANS = 16  # of a computation, that are kept


def computation_of(outputs: Sequence[Node]) -> tuple[Computation, Walk]:
    """The computation of nodes, shared by all graphs of one key, and this graph's data."""
    walk = graph_key(outputs)
    found = _computations.get(walk.key)
    if found is None:
        with _making:
            found = _computations.get(walk.key)
            if found is None:
                found = _computations[walk.key] = Computation(trace(outputs, walk=walk).program)
    return found, walk


class _Places:
    """Where errors of a shared computation are placed: in the graph that is run.

    A computation's statements name the lines of the graph that was the first of its key.
    Both give the same program but for its places, so statements correspond in order.
    """

    __slots__ = ("computation", "outputs", "walk")

    def __init__(self, computation: Computation, outputs: Sequence[Node], walk: Walk) -> None:
        self.computation = computation
        self.outputs = outputs
        self.walk = walk

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if not isinstance(error, WeftError) or error.place is None:
            return
        from weft.fun.walk import statements

        own = trace(self.outputs, walk=self.walk).program
        pairs = zip(statements(self.computation.program.body), statements(own.body), strict=True)
        for shared, let in pairs:
            if shared.place == error.place and let.place is not None:
                error.move_to(let.place)
                return


def compute(outputs: Sequence[Node], out: Sequence[NDArray | None] | None = None) -> list[Value]:
    """The values of nodes, as arrays of their own (rank 0 for scalars).

    Parameters
    ----------
    outputs : sequence of Node
    out : sequence of ndarray or None, optional
        Where to write each result: of its shape and dtype.
    """
    computation, walk = computation_of(outputs)
    with _Places(computation, outputs, walk):
        return run(computation, walk.values, [node.value for node in walk.leaves], out)


def run(
    computation: Computation,
    sizes: Mapping[str, int],
    inputs: Sequence[Any],
    out: Sequence[NDArray | None] | None = None,
) -> list[Value]:
    """Run a computation in the way that suits its data and the settings.

    Parameters
    ----------
    computation : Computation
    sizes : mapping of str to int
        The values of the program's size variables.
    inputs : sequence of ndarray, scalar or Source
        One for each parameter.
    out : sequence of ndarray or None, optional
    """
    current = settings()
    arrays = addressable(computation, inputs)
    if arrays is not None:
        small = sum(array.nbytes for array in arrays) < current.interpret_below
        try:
            if out is None and small and computation.is_small(sizes, current.interpret_below):
                return computation.interpret(sizes, arrays)
            where = target(current)
            if where != INTERPRETER and len(current.devices) == 1:
                return run_on(computation, sizes, arrays, out, current, where)
        except MemoryLimitError:
            pass  # what does not fit in core is cut into boxes
        except SourceError:
            from weft.runtime.executor import check_sources

            check_sources(inputs)
            raise
    return _run_planned(computation, sizes, inputs, out, current)


def _run_planned(
    computation: Computation, sizes: Mapping[str, int], inputs: Sequence[Any],
    out: Sequence[NDArray | None] | None, current: Settings,
) -> list[Value]:  # fmt: skip
    """Run a computation in boxes."""
    from weft.runtime.executor import execute

    arrays = addressable(computation, inputs)
    plan = plan_of(computation, sizes, inputs, [None] * len(computation.results), current)
    on_device = any(
        stage.code.device is not None or (stage.shares and arrays is not None)
        for stage in plan.stages
    )
    pool = host_pool() if on_device else None  # results come from where they do in core
    results = [np.asarray(value) for value in execute(plan, pool=pool)]
    for k, given in enumerate(out or ()):
        if given is not None:
            np.copyto(given, results[k], casting="no")
            results[k] = given
    return results


def run_on(
    computation: Computation,
    sizes: Mapping[str, int],
    inputs: Sequence[NDArray],
    out: Sequence[NDArray | None] | None,
    current: Settings,
    where: str,
) -> list[Value]:
    """Run on arrays in memory, on one device: in core, or in boxes where that is quicker.

    Raises
    ------
    MemoryLimitError
        When results and temporaries do not fit the limit.
    """
    if where != CPU:
        from weft.launch.packed import packed_call

        packed = packed_call(computation, sizes, inputs, out)
        if packed is not None:
            return packed.call(_run_compiled, inputs, out)
    if where != CPU and out is None and current.slots != 1:
        plan = _quicker_in_boxes(computation, sizes, inputs, current)
        if plan is not None:
            from weft.runtime.executor import execute

            return [np.asarray(value) for value in execute(plan, pool=host_pool())]
    return computation.run_in_core(sizes, inputs, out, current, where)


def _quicker_in_boxes(
    computation: Computation, sizes: Mapping[str, int], inputs: Sequence[NDArray],
    current: Settings,
) -> Plan | None:  # fmt: skip
    """A plan whose boxes overlap on a device; None where one run is predicted to be quicker.

    It is one stage: what several give each other would go by the host.
    """
    plain = all(array.flags.carray and array.dtype.isnative for array in inputs)
    if not plain or sum(array.nbytes for array in inputs) < _WORTH_BOXES:
        return None
    try:
        plan = plan_of(computation, sizes, inputs, [None] * len(computation.results), current)
    except MemoryLimitError:
        return None  # in core, this is refused by name
    if len(plan.stages) != 1 or plan.stages[0].code.device is None:
        return None
    return plan if plan.stages[0].boxes.count > 1 else None


def plan_of(
    computation: Computation,
    sizes: Mapping[str, int],
    inputs: Sequence[Any],
    sinks: Sequence[Sink | None],
    current: Settings,
) -> Plan:
    """How the computation is streamed through boxes."""
    from weft.launch.stage import processors

    for name in current.devices:
        device_limit(name, current)  # from now on, also if the plan is one that was kept
    spread = processors(current)
    key = _plan_key(computation, sizes, inputs, sinks, current, spread)
    plan = computation.plans.get(key) if key is not None else None
    if plan is None:
        planned_for = inputs if key is None else [_without_memory(value) for value in inputs]
        plan = _planned(computation, sizes, planned_for, sinks, current, spread)
        if key is not None:
            while len(computation.plans) >= _PLANS:
                computation.plans.pop(next(iter(computation.plans)))
            computation.plans[key] = plan
    named = zip(computation.program.params, inputs, strict=True)
    return replace(plan, inputs={p.name: _input(v, p.type.dtype) for p, v in named})


def _plan_key(
    computation: Computation,
    sizes: Mapping[str, int],
    inputs: Sequence[Any],
    sinks: Sequence[Sink | None],
    current: Settings,
    spread: Sequence[Processor],
) -> Any:
    """What decides about a plan of arrays in memory on other devices; None for another.

    A call that is repeated is not planned again, which would take longer than many a call.
    """
    if current.devices == (CPU,) or any(sink is not None for sink in sinks):
        return None
    if any(isinstance(value, Source) for value in inputs):
        return None
    lie = tuple(getattr(value, "strides", None) for value in inputs)
    devices = tuple((p.device, p.kind, p.threads, p.limit) for p in spread)
    return tuple(sizes.items()), lie, current, devices


def _without_memory(value: Any) -> Any:
    """What a plan knows of an array: its shape, dtype and strides. (A kept plan keeps no data.)"""
    if not isinstance(value, np.ndarray):
        return value
    return np.lib.stride_tricks.as_strided(np.empty(1, value.dtype), value.shape, value.strides)


def _planned(
    computation: Computation,
    sizes: Mapping[str, int],
    inputs: Sequence[Any],
    sinks: Sequence[Sink | None],
    current: Settings,
    spread: Sequence[Processor],
) -> Plan:
    from weft.launch.stage import stage_code
    from weft.plan.planner import plan_program

    threads = host_threads(current)
    where = target(current)
    unlike = not all(processor.is_host for processor in spread)
    on = next((p.device for p in spread if not p.is_host), where) if unlike else where
    program = computation.streamed(sizes, threads, on, bool(spread))
    code = partial(stage_code, current=current, where=where, threads=threads)
    named = {p.name: _input(v, p.type.dtype) for p, v in zip(program.params, inputs, strict=True)}
    on_device = device_limit(where, current)
    try:
        return plan_program(
            program, sizes, named, sinks, current.limit, threads, code,
            device_limit=on_device, processors=spread,
        )  # fmt: skip
    except MemoryLimitError:
        if on_device is None or spread or any(isinstance(v, Source) for v in named.values()):
            raise
        found = _in_panels(program, sizes, named, sinks, current, code, on_device)
        if found is not None:
            return found
        if not computation.on_host_too:
            raise
    from weft.launch.apart import compile_apart

    on_cpu = partial(stage_code, current=current, where=CPU, threads=threads)
    return plan_program(
        program, sizes, named, sinks, current.limit, threads, code, device_limit=on_device,
        apart=partial(compile_apart, run=_run_compiled, on_cpu=on_cpu),
    )  # fmt: skip


def _run_compiled(
    computation: Computation, sizes: Mapping[str, int], inputs: Sequence[Any],
    out: Sequence[NDArray | None] | None = None,
) -> list[Value]:  # fmt: skip
    """Run a part of a call on the device: in core, or in boxes if it has to."""
    current = settings()
    try:
        return run_on(computation, sizes, inputs, out, current, target(current))
    except MemoryLimitError:
        return _run_planned(computation, sizes, inputs, out, current)


def _in_panels(
    program: fun.Program, sizes: Mapping[str, int], named: Mapping[str, Any],
    sinks: Sequence[Sink | None], current: Settings, code: Any, on_device: int,
) -> Plan | None:  # fmt: skip
    """The program cut along two axes, for a device; None where that does not help."""
    from weft.launch.panels import plan_panels
    from weft.plan.planner import plan_program

    threads = host_threads(current)

    def inner(part: fun.Program, known: Mapping[str, int], arrays: Mapping[str, NDArray]) -> Plan:
        results: list[Sink | None] = [None] * len(part.body.results)
        return plan_program(
            part, known, arrays, results, current.limit, threads, code, device_limit=on_device
        )

    def outer(panel: Any, most: int) -> Plan:
        return plan_program(
            program, sizes, named, sinks, current.limit, threads, panel,
            box_bytes=most, small=on_device // 8,
        )  # fmt: skip

    touched = sum(np.asarray(value).nbytes for value in named.values())
    return plan_panels(program, touched, outer, inner)


def _input(value: Any, dtype: DType) -> Any:
    return value if isinstance(value, np.ndarray | Source) else np.asarray(value, dtype.numpy)


def addressable(computation: Computation, inputs: Sequence[Any]) -> list[NDArray] | None:
    """The inputs as addressable memory; None where one must be read into buffers."""
    arrays = []
    for value, param in zip(inputs, computation.program.params, strict=True):
        if isinstance(value, Source):
            value.check()
            value = value.direct()
            if value is None:
                return None
        elif not isinstance(value, np.ndarray):
            value = np.asarray(value, param.type.dtype.numpy)
        arrays.append(value)
    return arrays


def plan_call(
    computation: Computation,
    sizes: Mapping[str, int],
    inputs: Sequence[Any],
    out: Sequence[NDArray | None] | None = None,
) -> Plan:
    """The plan that a call on arrays in memory would follow, with what it transfers packed."""
    current = settings()
    where = target(current)
    arrays = addressable(computation, inputs)
    if arrays is not None and where not in (CPU, INTERPRETER) and len(current.devices) == 1:
        from weft.launch.packed import packed_call

        packed = packed_call(computation, sizes, arrays, out)
        if packed is not None:
            made = packed.computation
            plan = plan_of(
                made, packed.sizes, packed.inputs(arrays), [None] * len(made.results), current
            )
            return replace(plan, transfers=tuple(packed.lines()))
    return plan_of(computation, sizes, inputs, [None] * len(computation.results), current)


def persist(outputs: Sequence[Node]) -> list[Node]:
    """Nodes computed once: leaves that hold the values."""
    leaves = []
    for value in compute(outputs):
        shape = tuple(extent.variable(length) for length in value.shape)
        leaves.append(leaf(value if value.shape else value[()], shape, from_numpy(value.dtype)))
    return leaves


def store(
    outputs: Sequence[Node],
    sinks: Sequence[Sink],
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Run nodes into sinks, all in one pass; see `weft.store`."""
    from weft.io.held import overlap
    from weft.runtime.executor import execute

    computation, walk = computation_of(outputs)
    inputs = [node.value for node in walk.leaves]
    late: list[Sink] = []
    try:
        _refuse_overlaps(sinks)
        # What is read until the end is not written before: such results wait in memory.
        late += [sink for sink in sinks if overlap([sink], inputs)]
        direct = [None if sink in late else sink for sink in sinks]
        with _Places(computation, outputs, walk):
            plan = _plan_around(late, computation, walk.values, inputs, direct)
    except BaseException:
        for sink in sinks:
            sink.abort()
        raise
    try:
        with _Places(computation, outputs, walk):
            values = execute(plan, progress=progress)
        for sink, value in zip(sinks, values, strict=True):
            if sink in late:
                sink.write(tuple(slice(0, extent) for extent in value.shape), value)
                sink.finish()
    except BaseException:
        for sink in late:
            sink.abort()
        raise


def _refuse_overlaps(sinks: Sequence[Sink]) -> None:
    from weft.io.held import overlap

    for number, sink in enumerate(sinks):
        if overlap([sink], sinks[:number]):
            raise ArgumentError(
                f"target {number} ({sink.describe()}) overlaps an earlier one",
                "targets that share no element",
                place=user_place(),
            )


def _plan_around(
    late: Sequence[Sink], computation: Computation, sizes: Mapping[str, int],
    inputs: Sequence[Any], sinks: Sequence[Sink | None],
) -> Plan:  # fmt: skip
    """The plan of a program some of whose results are kept until its inputs have been read."""
    try:
        return plan_of(computation, sizes, inputs, sinks, settings())
    except MemoryLimitError as error:
        if not late:
            raise
        raise MemoryLimitError(
            f"{late[0].describe()} is read and written, so that its new values wait in memory: "
            f"{error.found}",
            error.expected,
            "store into another target, or raise memory_limit",
            error.place,
        ) from None


def plan_nodes(outputs: Sequence[Node], sinks: Sequence[Sink | None] | None = None) -> Plan:
    """The plan that computing nodes would follow; nothing runs.

    Parameters
    ----------
    outputs : sequence of Node
    sinks : sequence of (Sink or None), optional
        Where results go; if not given, to memory, or where that is too small, to targets as
        `weft.store` takes them.
    """
    from weft.io.nowhere import Nowhere

    computation, walk = computation_of(outputs)
    inputs = [node.value for node in walk.leaves]
    current = settings()
    nowhere = [
        Nowhere(tuple(length.value for length in node.shape), node.dtype.numpy) for node in outputs
    ]
    with _Places(computation, outputs, walk):
        if sinks is not None:
            return plan_of(computation, walk.values, inputs, sinks, current)
        if sum(map(_bytes, outputs)) > current.limit:
            return plan_of(computation, walk.values, inputs, nowhere, current)
        try:
            return plan_call(computation, walk.values, inputs)
        except MemoryLimitError:
            return plan_of(computation, walk.values, inputs, nowhere, current)


def _bytes(node: Node) -> int:
    """Bytes that the values of a node take."""
    return math.prod(length.value for length in node.shape) * node.dtype.itemsize


def as_source(value: Any) -> Source:
    """A source over a path, several paths, or an object that holds an array."""
    from weft.io.open import open_source

    return open_source(value)
