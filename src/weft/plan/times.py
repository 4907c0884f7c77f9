"""How long stages take, for `explain`: on the host, and on several devices together.

What a host does of a stage takes as long as its operations, or as the memory that it reads and
writes, whichever is longer; files are read ahead and written behind, beside that, where there are
several boxes; and boxes, and kernels, cost something however small they are. It is a matter of
factors: how quick a file is, and a cache, nobody has measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from weft.fun import nodes as fun
from weft.fun import walk
from weft.ops import table
from weft.ops.factorisations import FACTORISATIONS
from weft.plan import device_boxes
from weft.plan.extents import overlap
from weft.plan.nodes import Boxes, PlannedStage
from weft.plan.protocols import is_source
from weft.plan.work import work
from weft.records import dataclass

if TYPE_CHECKING:
    from weft.plan.schedule import Scheduler

_WEIGHTS = {"cheap": 1.0, "moderate": 12.0, "expensive": 96.0}
"""Operations that one of the table's is worth."""

_CALLED = 600.0  # that an element is worth which a library sorts, transforms or looks for

_IN_CACHE = 1 << 20  # bytes for each thread, of what a box makes and uses up, that stay near a core


@dataclass(frozen=True, slots=True)
class HostRates:
    """How quick a host is.

    Attributes
    ----------
    operations, called : float
        That a core does in a second, in code of its own and in library calls.
    memory, together : float
        Bytes that a core reads or writes in a second, and that all of them do.
    files : float
        Bytes that are read from files in a second, or written to them.
    launch, box : float
        Seconds of a kernel, and of a box, however small.
    """

    operations: float = 2e10
    called: float = 6e10
    memory: float = 1e10
    together: float = 1e11
    files: float = 1e9
    launch: float = 5e-6
    box: float = 5e-5


HOST = HostRates()
"""A usual one, roughly."""

BEGUN_BY_C = replace(HOST, box=0.0)
"""Where no box is begun by Python."""


@dataclass(frozen=True, slots=True)
class HostWork:
    """What all boxes of a stage together ask of a host.

    Attributes
    ----------
    operations, called : float
    touched : float
        Bytes of memory that are read and written.
    read, written : float
        Bytes of files.
    boxes, kernels : int
        And kernels of one box.
    """

    operations: float = 0.0
    called: float = 0.0
    touched: float = 0.0
    read: float = 0.0
    written: float = 0.0
    boxes: int = 1
    kernels: int = 1


def host_seconds(
    asked: HostWork, threads: int, beside: bool, rates: HostRates | None = None
) -> float:
    """How long a host takes.

    Parameters
    ----------
    asked : HostWork
    threads : int
        That compute, together or each a box of its own.
    beside : bool
        Whether files are read and written while other boxes are computed.
    rates : HostRates, optional
        By default those of a usual host.
    """
    rates = rates or HOST
    computed = asked.operations / rates.operations + asked.called / rates.called
    moved = asked.touched / min(rates.memory * threads, rates.together)
    computed = max(computed / threads, moved)
    computed += asked.boxes * (rates.box + asked.kernels * rates.launch)
    parts = computed, asked.read / rates.files, asked.written / rates.files
    if not beside or asked.boxes < 2:
        return sum(parts)
    return max(parts) + (sum(parts) - max(parts)) / asked.boxes  # the first, and the last


def operations_of(let: fun.Let, sizes: Mapping[str, int]) -> float:
    """As `work`, with operations that take longer counted as several."""
    return work(let, sizes, lambda operation: _WEIGHTS[table.lookup(operation).cost])


def host_work(scheduler: Scheduler, planned: PlannedStage) -> HostWork:
    """What the boxes of a stage ask of the host."""
    analysis, draft, boxes = scheduler.analysis, scheduler.draft, planned.boxes
    sizes, again = {**analysis.sizes, **scheduler.windowed.fixed}, 1.0
    if draft is None:
        lets = list(scheduler.program.body.statements)
    else:
        lets = [draft.statement(position).let for position in draft.members]
        if not any(output.more for output in planned.stage.outputs):  # tiles compute nothing twice
            again = overlap(scheduler, boxes.extent)
    calls, others = _apart(lets)
    touched = written = 0.0
    for window in planned.stage.windows:
        size = scheduler.window_bytes(window, boxes)
        touched += float(size.max(initial=0) if window.axis is None else size.sum())
    for number, output in enumerate(planned.stage.outputs):
        size = np.asarray(scheduler.output_bytes(output, boxes, number, True))
        given = float(size.max(initial=0) if output.carry else size.sum())
        sinks = scheduler.setting.sinks.get(output.array, ())
        to_files = sum(sink is not None and sink.direct() is None for sink in sinks)
        touched += given * (1 + to_files)
        written += given * to_files
    near = _IN_CACHE * (1 if planned.abreast else scheduler.threads)
    if planned.workspace > near:  # it is written, and read again
        touched += 2.0 * planned.workspace * boxes.count
    read = sum(
        size for name, size in planned.read.items() if is_source(scheduler.setting.inputs.get(name))
    )
    return HostWork(
        again * sum(operations_of(let, sizes) for let in others),
        _called(calls, sizes), touched, read, written, boxes.count, len(planned.kernels),
    )  # fmt: skip


def whole_work(
    program: fun.Program, sizes: Mapping[str, int], moved: int, allocated: int, kernels: int
) -> HostWork:
    """What a program asks of the host that runs in core.

    Parameters
    ----------
    program : fun.Program
    sizes : mapping of str to int
    moved : int
        Bytes of its inputs and results.
    allocated : int
        Bytes of what it makes besides.
    kernels : int
    """
    known = dict(sizes)
    for entry in program.derived:
        known[entry.name] = entry.evaluate(known)
    calls, others = _apart(program.body.statements)
    return HostWork(
        sum(operations_of(let, known) for let in others), _called(calls, known),
        moved + 2 * allocated, kernels=kernels,
    )  # fmt: skip


def _apart(lets: Sequence[fun.Let]) -> tuple[list[fun.Let], list[fun.Let]]:
    """Library calls, and what is compiled."""
    calls = [let for let in lets if isinstance(let.expr, fun.Call)]
    return calls, [let for let in lets if not isinstance(let.expr, fun.Call)]


def _called(lets: Sequence[fun.Let], sizes: Mapping[str, int]) -> float:
    """The operations of library calls: products multiply and add."""
    found = 0.0
    for let in lets:
        assert isinstance(let.expr, fun.Call)
        each = 2.0 if let.expr.routine == "matmul" else _CALLED
        if let.expr.routine in FACTORISATIONS:
            each = 2.0 * int(walk.type_sizes(let.expr.arguments[0].type)[-1].evaluate(sizes))
        found += each * work(let, sizes)
    return found


def on_host(scheduler: Scheduler, planned: PlannedStage) -> PlannedStage:
    """The stage with how long it takes on the host."""
    asked, threads = host_work(scheduler, planned), max(planned.abreast, scheduler.threads)
    rates = BEGUN_BY_C if planned.abreast else HOST
    beside = max(planned.depth, planned.abreast) > 1
    return replace(
        planned, seconds=host_seconds(asked, threads, beside, rates),
        serial_seconds=host_seconds(asked, threads, False, rates),
    )  # fmt: skip


def alone_seconds(
    scheduler: Scheduler, boxes: Boxes, slots: int, brought: int | None = None
) -> float:
    """How long one of several devices would take for all boxes of a stage.

    `brought`: bytes that are copied to it, where boxes keep some for others.
    """
    device = scheduler.code.device
    if device is None:
        return host_seconds(
            host_work(scheduler, scheduler.with_depth(boxes, 1, 1)), scheduler.threads, slots > 1
        )
    asked = device_boxes.work_of(scheduler, device, boxes)
    if brought is not None:
        asked = replace(asked, bytes_in=brought)
    return device_boxes.seconds(asked, device.rates, slots)


def together(seconds: Sequence[float]) -> float:
    """How long devices take that would take so long alone, and share by how quick they are."""
    return 1 / sum(1 / max(each, 1e-9) for each in seconds) if seconds else 0.0
