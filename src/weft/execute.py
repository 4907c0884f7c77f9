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
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.config import Settings, settings
from weft.errors import (
    ArgumentError,
    MemoryLimitError,
    SourceError,
    WeftError,
    place_at_caller,
    user_place,
)
from weft.frontend import extent
from weft.frontend.graph import Node, leaf
from weft.frontend.guards import tracing
from weft.frontend.key import Walk, graph_key
from weft.frontend.trace import trace
from weft.launch import CPU, INTERPRETER, Computation, host_threads, target
from weft.launch.boxes import addressable, plan_into, plan_of, run_in_boxes, run_on
from weft.launch.results import brought
from weft.launch.several import by_any, by_one, in_less_memory
from weft.ops.dtypes import from_numpy
from weft.plan.protocols import Sink, Source

# The compiler, the planner and files are imported when they are first needed, so that
# `import weft` stays quick.
if TYPE_CHECKING:
    from weft.plan.at_once import AtOnce
    from weft.plan.nodes import Plan

NDArray: TypeAlias = npt.NDArray[Any]
Value: TypeAlias = Any

_computations: dict[Any, Computation] = {}
_making = threading.Lock()


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
        if not isinstance(error, WeftError):
            return
        if error.place is None:
            place_at_caller(error)
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

    Notes
    -----
    While a function is traced, what is done with the values holds for the sizes that they were
    computed of, those of data excepted, which is part of the program.
    """
    computation, walk = computation_of(outputs)
    if tracing():
        data = {length.poly.variable for node in walk.leaves for length in node.shape}
        extent.settle(name for name in walk.names if name not in data)
    with _Places(computation, outputs, walk):
        return run(computation, walk.values, [node.value for node in walk.leaves], out)


def run(
    computation: Computation,
    sizes: Mapping[str, int],
    inputs: Sequence[Any],
    out: Sequence[NDArray | None] | None = None,
    *,
    interpretable: bool = True,
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
    interpretable : bool
        Whether tiny data may be interpreted, which rounds sums in another order.
    """
    current = settings()
    inputs = [_native(value) for value in inputs]
    if out is None and interpretable:
        found = _interpreted(computation, sizes, inputs, current)
        if found is not None:
            return found
    if len(current.devices) == 1:
        return _run(computation, sizes, inputs, out)
    try:  # what is read stays as it is until the results are there: others may have to begin anew
        results = by_any(lambda: _run(computation, sizes, inputs, None, out))
    except MemoryLimitError as error:
        if out is None:
            raise
        return by_one(lambda: _run(computation, sizes, inputs, out), error)
    return brought(results, out, host_threads(current))


def _interpreted(
    computation: Computation, sizes: Mapping[str, int], inputs: Sequence[Any], current: Settings
) -> list[Value] | None:
    """The results, where all there is is tiny; else None."""
    arrays = addressable(computation, inputs)
    if arrays is None or sum(array.nbytes for array in arrays) >= current.interpret_below:
        return None
    try:
        if computation.is_small(sizes, current.interpret_below):
            return computation.interpret(sizes, arrays, current.optimise)
    except MemoryLimitError:
        pass  # what does not fit in core is cut into boxes
    except SourceError:
        _check_sources(inputs)
        raise
    return None


def _run(
    computation: Computation,
    sizes: Mapping[str, int],
    inputs: Sequence[Any],
    out: Sequence[NDArray | None] | None,
    late: Sequence[NDArray | None] | None = None,
) -> list[Value]:
    """`late`: where results are brought that are taken without `out`."""
    current = settings()
    arrays = addressable(computation, inputs)
    where = target(current)
    if arrays is not None and where != INTERPRETER and len(current.devices) == 1:
        try:
            return run_on(computation, sizes, arrays, out, current, where)
        except MemoryLimitError as error:
            if error.has_begun:
                raise
            # What does not fit in core is cut into boxes.
        except SourceError:
            _check_sources(inputs)
            raise
    return run_in_boxes(computation, sizes, inputs, out, current, late)


def _check_sources(inputs: Sequence[Any]) -> None:
    from weft.runtime.executor import check_sources

    check_sources(inputs)


def _native(value: Any) -> Any:
    """An array of another byte order as programs take it; what else there is, as it is."""
    if isinstance(value, np.ndarray) and not value.dtype.isnative:
        return value.astype(value.dtype.newbyteorder("="))
    return value


def plan_of_call(
    computation: Computation,
    sizes: Mapping[str, int],
    inputs: Sequence[Any],
    out: Sequence[NDArray | None],
) -> Plan | AtOnce:
    """What a call would do that has arrays for some of its results: at once where that fits."""
    return _at_once(computation, sizes, inputs, out) or plan_call(computation, sizes, inputs, out)


def plan_call(
    computation: Computation,
    sizes: Mapping[str, int],
    inputs: Sequence[Any],
    out: Sequence[NDArray | None] | None = None,
) -> Plan | AtOnce:
    """The plan that a call on arrays in memory would follow, with what it transfers packed.

    Where there is no memory for boxes, which more is needed for, what it does at once.
    """
    try:
        return by_any(lambda: _plan_call(computation, sizes, inputs, out))
    except MemoryLimitError:
        if computation.parted is not None:
            raise
        given = [None] * len(computation.results) if out is None else out
        found = _at_once(computation, sizes, inputs, given)
        if found is None:
            raise
        return found


def _at_once(
    computation: Computation,
    sizes: Mapping[str, int],
    inputs: Sequence[Any],
    out: Sequence[NDArray | None],
) -> AtOnce | None:
    """What a call does at once, on the CPU, where that fits."""
    current = settings()
    arrays = addressable(computation, inputs)
    if arrays is None or target(current) != CPU or len(current.devices) > 1:
        return None
    from weft.launch.at_once import at_once

    return at_once(computation, sizes, arrays, out, current)


def _plan_call(
    computation: Computation,
    sizes: Mapping[str, int],
    inputs: Sequence[Any],
    out: Sequence[NDArray | None] | None,
) -> Plan:
    current = settings()
    where = target(current)
    arrays = addressable(computation, inputs)
    if arrays is not None and where not in (CPU, INTERPRETER) and len(current.devices) == 1:
        from weft.launch.device import device_limit
        from weft.launch.packed import packed_call

        packed = packed_call(computation, sizes, arrays, out, device_limit(where, current))
        if packed is not None:
            made = packed.computation
            plan = plan_of(
                made, packed.sizes, packed.inputs(arrays), [None] * len(made.results), current
            )
            return replace(plan, transfers=tuple(packed.lines()))
    return plan_into(computation, sizes, inputs, out, current)


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
    from weft.launch.waiting import bring, with_files
    from weft.runtime.executor import computed, finished

    computation, walk = computation_of(outputs)
    inputs = [node.value for node in walk.leaves]
    try:
        _refuse_overlaps(sinks)
        # What is read until the end is not written before: such results wait.
        late = [sink for sink in sinks if overlap([sink], inputs)]
    except BaseException:
        for sink in sinks:
            sink.abort()
        raise
    direct = [None if sink in late else sink for sink in sinks]

    def run(plan: Plan) -> list[Value]:
        plan, waiting = with_files(plan)
        return [waiting.get(k, value) for k, value in enumerate(computed(plan, progress=progress))]

    def attempt() -> list[Value]:
        return in_less_memory(
            lambda: _plan_around(computation, walk.values, inputs, sinks, late), run
        )

    with finished(late):
        places = _Places(computation, outputs, walk)
        with places, finished(sink for sink in direct if sink is not None):
            values = by_any(attempt)
        for sink, value in zip(sinks, values, strict=True):
            if sink in late:
                bring(sink, value)


def _refuse_overlaps(sinks: Sequence[Sink]) -> None:
    from weft.io.held import overlap, same_place

    for number, sink in enumerate(sinks):
        if any(same_place(sink, earlier) for earlier in sinks[:number]):
            raise ArgumentError(
                f"target {number} ({sink.describe()}) is made where an earlier one is",
                "a file for each target, or components of a file that is there",
                "store one after another",
                user_place(),
            )
        if overlap([sink], sinks[:number]):
            raise ArgumentError(
                f"target {number} ({sink.describe()}) overlaps an earlier one",
                "targets that share no element",
                place=user_place(),
            )


def _plan_around(
    computation: Computation, sizes: Mapping[str, int], inputs: Sequence[Any],
    sinks: Sequence[Sink | None], late: Sequence[Sink],
) -> Plan:  # fmt: skip
    """The plan of a program some of whose results wait until its inputs have been read.

    They wait in memory; where that is too small, in scratch files.
    """
    from weft.launch.waiting import Waiting

    direct = [None if sink in late else sink for sink in sinks]
    try:
        return plan_of(computation, sizes, inputs, direct, settings())
    except MemoryLimitError as error:
        if not late:
            raise
        waiting = [
            Waiting.like(s.shape, s.dtype) if s is not None and s in late else s for s in sinks
        ]
        try:
            return plan_of(computation, sizes, inputs, waiting, settings())
        except MemoryLimitError:
            raise error from None


def plan_nodes(
    outputs: Sequence[Node], sinks: Sequence[Sink | None] | None = None
) -> Plan | AtOnce:
    """The plan that computing nodes would follow; nothing runs.

    Parameters
    ----------
    outputs : sequence of Node
    sinks : sequence of (Sink or None), optional
        Where results go; if not given, to memory, or where that is too small, to plain files.
    """
    from weft.io.held import overlap

    computation, walk = computation_of(outputs)
    inputs = [node.value for node in walk.leaves]
    shapes = [tuple(length.value for length in node.shape) for node in outputs]
    with _Places(computation, outputs, walk):
        if sinks is not None:
            late = [s for s in sinks if s is not None and overlap([s], inputs)]
            return by_any(
                lambda: _plan_around(computation, walk.values, inputs, sinks, late)
            )
        if sum(map(_bytes, outputs)) > settings().limit:
            return plan_stored(computation, walk.values, inputs, shapes)
        try:
            return plan_call(computation, walk.values, inputs)
        except MemoryLimitError:
            return plan_stored(computation, walk.values, inputs, shapes)


def plan_stored(
    computation: Computation, sizes: Mapping[str, int], inputs: Sequence[Any],
    shapes: Sequence[tuple[int, ...]],
) -> Plan:  # fmt: skip
    """The plan of a call whose results, of these shapes, went to plain files."""
    from weft.io.nowhere import Nowhere

    pairs = zip(shapes, computation.program.result_types, strict=True)
    nowhere = [Nowhere(shape, type_.dtype.numpy) for shape, type_ in pairs]
    return by_any(lambda: plan_of(computation, sizes, inputs, nowhere, settings()))


def _bytes(node: Node) -> int:
    """Bytes that the values of a node take."""
    return math.prod(length.value for length in node.shape) * node.dtype.itemsize


def as_source(value: Any) -> Source:
    """A source over a path, several paths, or an object that holds an array."""
    from weft.io.open import open_source

    return open_source(value)
