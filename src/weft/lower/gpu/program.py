"""FUNMEM to IMP for a device: kernels, and the steps by which the host launches them.

Removes every FUNMEM expression; adds kernels whose work items are the indices of a parallel
statement, and steps around them. Requires memory, with that of threads expanded
(`weft.mem.expand`, interleaved). A `Kernel` and the rows of a `Scan` of the program's own
statements become launches, also inside its loops and branches, which become the host's; what
is inside of them is sequential, and so is what stands between them, in kernels of one item.

    let y = kernel (i < n) { let t = x[i] * 2 in t }
    =>  kernel map0 (item; n) { if (item < n) y[item] = x[item] * 2 },  launch map0 over n

A scalar of the program's own statements lies in the workspace; the host reads those that
decide what it launches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from weft.fun import nodes as fun
from weft.fun import walk
from weft.imp import nodes as imp
from weft.imp.walk import holds
from weft.lower import copies, cpu, kernels, reductions, shapes
from weft.lower.emitter import Emitter
from weft.lower.gpu import (
    apart,
    control,
    groups,
    items,
    lanes,
    lookback,
    overlapped,
    products,
    row_scans,
    rows,
    scans,
    scatters,
    time_tiles,
    vectors,
    whole_rows,
)
from weft.lower.gpu.batches import by_batches
from weft.lower.gpu.chunks import by_chunks
from weft.lower.gpu.host import Host
from weft.lower.gpu.transposes import by_transposes
from weft.lower.segment import describe
from weft.lower.unit import memory
from weft.mem.lay_within import Within
from weft.mem.nodes import Program
from weft.plan import launches
from weft.plan.segment import Dialect, Segment
from weft.sizes import ONE, Size

_ARRAYS = (fun.Kernel, fun.Scan, fun.Scatter, fun.Concat, fun.Update, fun.LmadUpdate, fun.Copy)


def compile_segment(
    memory_program: Program,
    name: str,
    dialect: Dialect,
    print_kernels: Callable[[Sequence[imp.Kernel]], str],
    within: Sequence[Within] = (),
    on_processor: bool = False,
) -> Segment:
    """The segment of a program, as kernels; `within`: what copies go to, and from, in a block.

    `on_processor`: the device is known to be one, and has no use for forms of GPUs.

    Raises
    ------
    UnsupportedError
        For dtypes that the dialect has not.
    """
    host = Host(memory_program, dialect, lower_statement, whole_rows.lower)
    host.program()
    if on_processor:
        host.steps = launches.on_processors(host.steps)
        used = launches.kernels_of(host.steps)
        host.kernels = [kernel for kernel in host.kernels if kernel.name in used]
    failing = frozenset(k.name for k in host.kernels if holds(k.body, imp.Fail))
    late = launches.launched_after(host.steps, failing)
    source = print_kernels([replace(k, follows_failures=k.name in late) for k in host.kernels])
    segment = describe(memory_program, name, source, host.unit, host.unit.workspace, within)
    return replace(segment, dialect=dialect, steps=tuple(host.steps))


def lower_statement(host: Host, e: Emitter, let: fun.Let) -> None:
    """One statement, of the program's own if `e` is the host's, else of a kernel."""
    if e is not host.e or host.sequential:
        items.lower_item(e, let)
        return
    match let.expr:
        case fun.Apply() if let.pattern[0].name in host.switches:
            host.define(let.pattern[0].name, host.switches[let.pattern[0].name])
        case fun.SizeValue(size) if host.is_known(size):
            e.definitions[let.pattern[0].name] = "is", (size,)
            host.define(let.pattern[0].name, size)
        case fun.Kernel() if products.suits(host, let.expr):
            products.lower(host, let)
        case fun.Kernel() as kernel:
            _lower_kernel(host, let, flatten(kernel))
        case fun.Reduce(space, reduced) if reduced < len(space):
            outer, e.of_reduction = e.of_reduction, True
            host.statement(e, reductions.as_kernel(e, let))
            e.of_reduction = outer
        case fun.Reduce((_,), 1, counter=True) as reduce if groups.counted(host, let, reduce):
            pass
        case fun.Scan((dim,), body) if host.is_sized(dim.extent) and shapes.is_flat(body):
            exact = lookback.suits(let.expr)
            if not (exact and lookback.lower(host, let, let.expr)):
                scans.lower_long(host, let)
        case fun.Scan() as scan:
            row_scans.lower(host, let, scan)
        case fun.Scatter() if scatters.suits(let.expr):
            scatters.lower(host, let, let.expr)
        case fun.If() if not _is_sequential(let):
            control.lower_branch(host, let, let.expr)
        case fun.Loop() if not _is_sequential(let):
            _lower_loop(host, let, let.expr)
        case fun.Reduce() | fun.Scatter() | fun.If() | fun.Loop():
            with host.by_one_item():
                items.lower_item(e, let)
            host.computed(let)
        case _:
            cpu.lower_statement(e, let)
            host.computed(let)


def flatten(kernel: fun.Kernel) -> fun.Kernel:
    """The kept dimensions of a reduction that is each index's result, as the kernel's own.

    kernel (t < c) { let q: [n] = reduce (j < n, i < e) 1 { .. } in q }
    =>  kernel (t < c, j < n) { let q = reduce (i < e) 1 { .. } in q }
    """
    *before, last = kernel.body.statements or (None,)
    if last is None or last.pattern != kernel.body.results:
        return kernel
    match last.expr:
        case fun.Reduce(space, reduced) as reduce if reduced < len(space) and all(
            isinstance(var.type, fun.Scalar) for let in before if let for var in let.pattern
        ):
            kept = len(space) - reduced
            inner = replace(reduce, space=space[kept:])
            names = tuple(
                fun.Var(var.name, fun.Scalar(memory(var).dtype)) for var in last.pattern
            )
            statements = (*(let for let in before if let), replace(last, pattern=names, expr=inner))
            return fun.Kernel((*kernel.space, *space[:kept]), fun.Body(statements, names))
        case _:
            return kernel


def _lower_kernel(host: Host, let: fun.Let, kernel: fun.Kernel) -> None:
    """A kernel by groups, by vectors or by items; on a processor by lanes or rows, if it suits."""

    def otherwise_by_items(gpu: Size) -> None:
        done = by_chunks(host, let, kernel)
        left = groups.grouped(host, let, kernel, done)
        if left == ONE:
            left = vectors.by_vectors(host, let, kernel, gpu) * (1 - done)
            left = by_transposes(host, let, kernel, left, gpu)
            left = by_batches(host, let, kernel, left, gpu)
        by_items(left)

    def by_items(whether: Size | None) -> None:
        if whether is not None:
            inside = partial(kernels.lower_results, let=let, kernel=kernel)
            host.launch(let, "map", kernel.space, inside, whether)

    if host.dialect == "opencl":
        with host.inside() as vectorised:
            few = lanes.by_lanes(host, let, kernel)
            by_items(few)
            done = few is not None or rows.by_rows(host, let, kernel)
        if done:
            with host.inside() as otherwise:
                otherwise_by_items(ONE)
            host.by_device(vectorised, otherwise)
            return
    otherwise_by_items(1 - host.is_processor)


def _lower_loop(host: Host, let: fun.Let, loop: fun.Loop) -> None:
    """A loop; in tiles in time, where it asks for them: of a processor's kind or a GPU's."""

    tiling = time_tiles.tiling(host, loop)
    if tiling is None:
        control.lower_loop(host, let, loop)
        return

    def of_gpus() -> None:
        if not apart.by_elements(host, let, tiling):
            overlapped.lower(host, let, tiling, lambda: control.lower_loop(host, let, loop))

    if host.dialect == "cuda":
        of_gpus()
        return
    with host.inside() as on_processor:
        time_tiles.lower(host, let, tiling)
    with host.inside() as otherwise:
        of_gpus()
    host.by_device(on_processor, otherwise)


def _is_sequential(let: fun.Let) -> bool:
    """Whether a loop or branch makes no arrays, so that one item may do it all.

    It may write elements one by one, each of which would be a launch.
    """
    return not any(
        (isinstance(inner.expr, _ARRAYS) and not _is_of_element(inner)) or (
            isinstance(inner.expr, fun.Reshape | fun.Broadcast) and not copies.is_view(inner)
        ) or isinstance(inner.expr, fun.Reduce)
        for body in walk.bodies(let.expr)
        for inner in walk.statements(body)
    )  # fmt: skip


def _is_of_element(let: fun.Let) -> bool:
    """Whether a statement writes one element of an array, in its place."""
    expr = let.expr
    if not isinstance(expr, fun.Update) or any(isinstance(d, fun.Span) for d in expr.dims):
        return False
    return memory(let.pattern[0]) == memory(expr.array)
