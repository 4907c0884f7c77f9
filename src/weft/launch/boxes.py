"""A computation on one device or in boxes: which is quicker, and the plans of boxes, kept.

What fits a device's memory runs there in core, or in boxes where these overlap copies with
kernels; what does not fit is planned in boxes, along one axis, or in tiles along several. Parts
that no device can do in boxes run on the CPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from weft.config import Settings, settings
from weft.errors import MemoryLimitError
from weft.fun import nodes as fun
from weft.launch.computation import Computation
from weft.launch.device import CPU, accelerator, device_limit, host_threads, target
from weft.launch.results import brought
from weft.launch.several import in_less_memory
from weft.ops.dtypes import DType
from weft.plan.nodes import ArrayForm, SeveralStages
from weft.plan.pointers import digest
from weft.plan.protocols import DecodingSource, FileSink, Sink, is_source
from weft.plan.rounds import Buffer
from weft.runtime.garbage import few_collections
from weft.runtime.incore import derive
from weft.runtime.memory import host_pool

# The compiler, the planner and files are imported when they are first needed, so that
# `import weft` stays quick.
if TYPE_CHECKING:
    from weft.plan.nodes import Plan
    from weft.plan.setting import Processor

NDArray: TypeAlias = npt.NDArray[Any]
Value: TypeAlias = Any

_WORTH_BOXES = 2 << 20  # bytes of inputs that may be quicker in boxes
_WORTH_NEAR = 64 << 20  # bytes that are made and used up: more than stay in caches
_MANY_SUMS = _WORTH_NEAR // 8  # elements of a contraction that may be as much
_PLANS = 16  # of a computation, that are kept
_KEPT_BOXES = 1 << 12  # of a plan that is: what is known of each takes memory


def addressable(computation: Computation, inputs: Sequence[Any]) -> list[NDArray] | None:
    """The inputs as addressable memory; None where one must be read into buffers."""
    arrays = []
    for value, param in zip(inputs, computation.program.params, strict=True):
        if is_source(value):
            value.check()
            value = value.direct()
            if value is None:
                return None
        elif not isinstance(value, np.ndarray):
            value = np.asarray(value, param.type.dtype.numpy)
        arrays.append(value)
    return arrays


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

        packed = packed_call(computation, sizes, inputs, out, device_limit(where, current))
        if packed is not None:
            return packed.call(_run_part, inputs, out)
    plan = None
    if where != CPU:
        plan = _quicker_in_boxes(computation, sizes, inputs, out, current)
    elif out is None:
        plan = nearer_in_boxes(computation, sizes, inputs, current)
    if plan is None:
        return computation.run_in_core(sizes, inputs, out, current, where)
    from weft.runtime.executor import execute

    try:
        values = execute(plan, pool=host_pool())
    except MemoryLimitError as error:
        error.has_written = any(sink is not None for sink in plan.sinks)
        raise
    places = out or [None] * len(values)
    return [
        np.asarray(value) if given is None else given
        for value, given in zip(values, places, strict=True)
    ]


def _quicker_in_boxes(
    computation: Computation, sizes: Mapping[str, int], inputs: Sequence[NDArray],
    out: Sequence[NDArray | None] | None, current: Settings,
) -> Plan | None:  # fmt: skip
    """A plan whose boxes overlap on a device; None where one run is predicted to be quicker.

    It is one stage: what several give each other would go by the host. Nothing that is read is
    written: a device that fails leaves the call to others, as it was.
    """
    few = sum(array.nbytes for array in inputs) < _WORTH_BOXES
    if few or current.slots == 1:
        return None
    sinks = _apart(computation, sizes, inputs, out)
    if sinks is None:
        return None
    plan = _in_one_stage(computation, sizes, inputs, sinks, current)
    return None if plan is None or plan.stages[0].code.device is None else plan


def nearer_in_boxes(
    computation: Computation, sizes: Mapping[str, int], inputs: Sequence[NDArray],
    current: Settings,
) -> Plan | None:  # fmt: skip
    """A plan whose boxes use up what they make while it is near a core; None where it is little.

    Of all that a program makes, this is what fusion leaves: sums of products, which are computed
    in tiles, by whatever uses them.
    """
    if current.devices != (CPU,) or computation.most_sums(sizes) < _MANY_SUMS:
        return None
    plan = _in_one_stage(computation, sizes, inputs, [None] * len(computation.results), current)
    if plan is None:
        return None
    (stage,) = plan.stages
    return plan if stage.workspace * stage.boxes.count >= _WORTH_NEAR else None


def _apart(
    computation: Computation, sizes: Mapping[str, int], inputs: Sequence[NDArray],
    out: Sequence[NDArray | None] | None,
) -> list[Sink | None] | None:  # fmt: skip
    """Where results go that lie apart from what is read; None where one does not."""
    if out is None:
        return [None] * len(computation.results)
    known = derive(sizes, computation.program.derived)
    for given, type_ in zip(out, computation.program.result_types, strict=True):
        extents = type_.shape if isinstance(type_, fun.Array) else ()
        if given is not None and given.shape != tuple(each.evaluate(known) for each in extents):
            return None
    # Seen as plain arrays: those of files are no more complete after it than they are in core.
    plain = [None if given is None else given.view(np.ndarray) for given in out]
    sinks = _memory_sinks(computation, inputs, plain)
    pairs = zip(plain, sinks, strict=True)
    return sinks if all(given is None or _is_memory(sink) for given, sink in pairs) else None


def _in_one_stage(
    computation: Computation, sizes: Mapping[str, int], inputs: Sequence[NDArray],
    sinks: Sequence[Sink | None], current: Settings,
) -> Plan | None:  # fmt: skip
    """A plan of several boxes, and one stage, for arrays as they lie; None where there is none."""
    from weft.io.memory import MemorySource

    if any(MemorySource(array).direct() is None for array in inputs):
        return None
    try:
        plan = plan_of(computation, sizes, inputs, sinks, current, in_one_stage=True)
    except (SeveralStages, MemoryLimitError):
        return None  # in core, what does not fit is refused by name
    return plan if len(plan.stages) == 1 and plan.stages[0].boxes.count > 1 else None


def run_in_boxes(
    computation: Computation, sizes: Mapping[str, int], inputs: Sequence[Any],
    out: Sequence[NDArray | None] | None, current: Settings,
    late: Sequence[NDArray | None] | None = None,
) -> list[Value]:  # fmt: skip
    """Run a computation in boxes.

    `late`: where the caller brings results that it takes without `out`.
    """
    from weft.launch.waiting import with_files
    from weft.runtime.executor import execute

    arrays = addressable(computation, inputs)

    def run(plan: Plan) -> list[Value]:
        plan, waiting = with_files(plan)
        on_device = any(
            stage.on_device and (not stage.shares or arrays is not None) for stage in plan.stages
        )
        pool = host_pool() if on_device else None  # results come from where they do in core
        results: list[Value] = [np.asarray(value) for value in execute(plan, pool=pool)]
        for k, sink in enumerate(plan.sinks):
            if k in waiting:
                results[k] = waiting[k]
            elif sink is not None and out is not None:
                results[k] = out[k]  # boxes have written it
        return results

    places = out if late is None else late
    results = in_less_memory(
        lambda: plan_into(computation, sizes, inputs, places, settings()), run
    )
    return brought(results, out, host_threads(current))


def plan_into(
    computation: Computation, sizes: Mapping[str, int], inputs: Sequence[Any],
    out: Sequence[NDArray | None] | None, current: Settings,
) -> Plan:  # fmt: skip
    """How a computation is streamed whose results go to arrays that may be read until the end.

    Those wait in memory; where that is too small, in scratch files.
    """
    from weft.launch.waiting import Waiting

    sinks = sinks_for(computation, inputs, out, current)
    try:
        return plan_of(computation, sizes, inputs, sinks, current)
    except MemoryLimitError as error:
        if out is None or all(given is None for given in out):
            raise
        waiting = [
            sink if sink is not None or given is None
            else Waiting.like(given.shape, given.dtype.newbyteorder("="))
            for sink, given in zip(sinks, out, strict=True)
        ]  # fmt: skip
        try:
            return plan_of(computation, sizes, inputs, waiting, current)
        except MemoryLimitError:
            raise error from None


def sinks_for(
    computation: Computation, inputs: Sequence[Any], out: Sequence[NDArray | None] | None,
    current: Settings,
) -> list[Sink | None]:  # fmt: skip
    """Where boxes write each result: to the array given for it, if nothing that is read lies there.

    None for a new array.
    """
    if out is None or current.devices != (CPU,):  # a plan for files is made for each call
        return [None] * len(computation.results)
    return _memory_sinks(computation, inputs, out)


def _memory_sinks(
    computation: Computation, inputs: Sequence[Any], out: Sequence[NDArray | None]
) -> list[Sink | None]:
    """The arrays given for results, but those where something lies that is read."""
    from weft.io.held import overlap
    from weft.io.memory import MemorySink

    read = [value for value, yes in zip(inputs, computation.is_read, strict=True) if yes]
    sinks = [None if given is None else MemorySink(given) for given in out]
    return [None if sink is None or overlap([sink], read) else sink for sink in sinks]


def _run_part(
    computation: Computation, sizes: Mapping[str, int], inputs: Sequence[Any],
    out: Sequence[NDArray | None] | None = None,
) -> list[Value]:  # fmt: skip
    """Run a part of a call on the device: in core, or in boxes if it has to."""
    current = settings()
    try:
        return run_on(computation, sizes, inputs, out, current, target(current))
    except MemoryLimitError as error:
        try:
            return run_in_boxes(computation, sizes, inputs, out, current)
        except MemoryLimitError as failure:
            # Results may be in their places, which the part does not read, but the whole does.
            failure.has_begun = error.has_written
            raise


def plan_of(
    computation: Computation,
    sizes: Mapping[str, int],
    inputs: Sequence[Any],
    sinks: Sequence[Sink | None],
    current: Settings,
    *,
    in_one_stage: bool = False,
) -> Plan:
    """How the computation is streamed through boxes.

    Raises
    ------
    SeveralStages
        Where one is not enough, though it was asked for.
    """
    from weft.launch.stage import processors

    for name in current.devices:
        device_limit(name, current)  # from now on, also if the plan is one that was kept
    if computation.parted is not None:
        measure, rest, names = computation.parted
        given = dict(zip(computation.names, inputs, strict=True))
        read = [given[name] for name in measure.names]
        lengths = run_in_boxes(measure, sizes, read, None, current)
        sizes = {**sizes, **dict(zip(names, map(int, lengths), strict=True))}
        return plan_of(rest, sizes, inputs, sinks, current, in_one_stage=in_one_stage)
    spread = processors(current)
    pointers = {
        name: value for name, value in zip(computation.names, inputs, strict=True)
        if name in computation.pointers and isinstance(value, np.ndarray)
    }  # fmt: skip
    key = _plan_key(sizes, inputs, sinks, current, spread, pointers)
    is_kept = not _has_files(inputs, sinks, current)
    plan = computation.plans.get(key)
    if isinstance(plan, MemoryLimitError):
        raise copy(plan)
    if plan is None:
        if in_one_stage and key in computation.plans:
            raise SeveralStages
        forms, places = inputs, sinks
        if is_kept:
            forms = [
                value if name in pointers else _without_memory(value)
                for name, value in zip(computation.names, inputs, strict=True)
            ]
            places = [Buffer.like(s.shape, s.dtype) if _is_memory(s) else s for s in sinks]
        try:
            with few_collections():
                plan = _planned(computation, sizes, forms, places, current, spread, in_one_stage)
        except SeveralStages:
            _keep(computation, key, None)
            raise
        except MemoryLimitError as error:
            if spread:  # another way is gone then, in later calls, too
                _keep(computation, key, copy(error))
            raise
        if is_kept and sum(stage.boxes.count for stage in plan.stages) <= _KEPT_BOXES:
            _keep(computation, key, replace(plan, inputs={}, sinks=()))
    named = zip(computation.program.params, inputs, strict=True)
    given = {p.name: _as_array(v, p.type.dtype) for p, v in named}
    return replace(plan, inputs=given, sinks=tuple(sinks))


def _keep(computation: Computation, key: Any, plan: Plan | MemoryLimitError | None) -> None:
    """Keep a plan; why it is refused; or None: it has several stages, and is not made."""
    while len(computation.plans) >= _PLANS:
        computation.plans.pop(next(iter(computation.plans)), None)  # another thread may do the same
    computation.plans[key] = plan


def _has_files(inputs: Sequence[Any], sinks: Sequence[Sink | None], current: Settings) -> bool:
    """Whether a plan holds on to files: where boxes are chosen while it runs, on other devices."""
    in_files = any(is_source(value) for value in inputs) or any(
        sink is not None and not _is_memory(sink) for sink in sinks
    )
    return current.devices != (CPU,) and in_files


def _plan_key(
    sizes: Mapping[str, int],
    inputs: Sequence[Any],
    sinks: Sequence[Sink | None],
    current: Settings,
    spread: Sequence[Processor],
    pointers: Mapping[str, NDArray],
) -> Any:
    """What decides about a plan: how data lies, and of it pointers.

    A call that is repeated is not planned again, which would take longer than many a call.
    """
    current = replace(current, progress=False)
    devices = tuple((p.device, p.kind, p.threads, p.limit) for p in spread)
    return (
        tuple(sizes.items()), tuple(map(_input_key, inputs)), tuple(map(_sink_key, sinks)),
        current, current.limit, host_threads(current), devices, digest(pointers),
    )  # fmt: skip


def _input_key(value: Any) -> Any:
    if not is_source(value):
        return getattr(value, "strides", None), value is None, None, None
    array = value.direct()
    decoding = value.decoding if isinstance(value, DecodingSource) else 0
    return getattr(array, "strides", None), array is None, value.chunks, decoding


def _sink_key(sink: Sink | None) -> Any:
    if sink is None:
        return None
    is_file = isinstance(sink, FileSink) and sink.file() is not None
    return sink.direct() is not None, is_file, sink.chunks


def _is_memory(sink: Sink | None) -> TypeGuard[Sink]:
    """Whether a sink is an array in memory, of which a plan needs no more than its form."""
    from weft.io.memory import MemorySink

    return isinstance(sink, MemorySink) and sink.direct() is not None


def _without_memory(value: Any) -> Any:
    """What a plan knows of an array. (A kept plan keeps no data.)"""
    return ArrayForm.of(value) if isinstance(value, np.ndarray) else value


def _planned(
    computation: Computation,
    sizes: Mapping[str, int],
    inputs: Sequence[Any],
    sinks: Sequence[Sink | None],
    current: Settings,
    spread: Sequence[Processor],
    in_one_stage: bool,
) -> Plan:
    from weft.launch.stage import stage_code
    from weft.plan.planner import plan_program

    threads = host_threads(current)
    where = target(current)
    unlike = not all(processor.is_host for processor in spread)
    on = next((p.device for p in spread if not p.is_host), where) if unlike else where
    limits = (device_limit(name, current) for name in current.devices)
    room = min((limit for limit in limits if limit is not None), default=None)
    program = computation.streamed(sizes, threads, on, bool(spread), current.optimise, room)
    code = partial(stage_code, current=current, where=where, threads=threads)
    pairs = zip(program.params, inputs, strict=True)
    named = {p.name: _as_array(value, p.type.dtype) for p, value in pairs}
    on_device = device_limit(where, current)
    rates = None if on_device is None else accelerator(where, current).rates
    plan = partial(
        plan_program, program, sizes, named, sinks, current.limit, threads, code,
        device_limit=on_device, rates=rates, processors=spread, in_one_stage=in_one_stage,
    )  # fmt: skip
    if on_device is None or spread or in_one_stage:
        return plan()
    from weft.launch.apart import compile_apart

    on_cpu = partial(stage_code, current=current, where=CPU, threads=threads)
    apart = partial(compile_apart, on_cpu=on_cpu)
    spared: set[str] = set()
    with suppress(MemoryLimitError):
        return plan(spared=spared)
    try:
        return plan(spared=spared, apart=apart)
    except MemoryLimitError:
        if not spared:
            raise
    with suppress(MemoryLimitError):  # what was spared the device is better than nothing
        return plan()
    return plan(apart=apart)


def _as_array(value: Any, dtype: DType) -> Any:
    is_array = isinstance(value, np.ndarray | ArrayForm) or is_source(value)
    return value if is_array else np.asarray(value, dtype.numpy)
