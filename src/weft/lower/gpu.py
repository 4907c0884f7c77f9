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

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

from weft.errors import InternalError
from weft.fun import nodes as fun
from weft.fun import walk
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.imp.walk import free_variables, views
from weft.lower import (
    copies,
    cpu,
    gpu_groups,
    gpu_items,
    gpu_lanes,
    gpu_lookback,
    gpu_products,
    gpu_rows,
    gpu_scans,
    gpu_scatters,
    gpu_time_tiles,
    kernels,
    parts,
    reductions,
    shapes,
)
from weft.lower.emitter import Emitter
from weft.lower.segment import describe, integers, unit_of
from weft.lower.unit import memory
from weft.mem.nodes import THREAD, THREADS, MemArray, Program
from weft.ops.dtypes import DType
from weft.plan import launches
from weft.plan.segment import Dialect, Segment
from weft.sizes import ONE, ZERO, Derived, Poly, Size, as_poly, product

GROUP = 64
"""Work items that run together."""

_ARRAYS = (fun.Kernel, fun.Scan, fun.Scatter, fun.Concat, fun.Update, fun.LmadUpdate, fun.Copy)


def compile_segment(
    memory_program: Program,
    name: str,
    dialect: Dialect,
    print_kernels: Callable[[Sequence[imp.Kernel]], str],
) -> Segment:
    """The segment of a program, as kernels.

    Raises
    ------
    UnsupportedError
        For dtypes that the dialect has not.
    """
    host = Host(memory_program, dialect)
    host.program()
    source = print_kernels(host.kernels)
    segment = describe(memory_program, name, source, host.unit, host.unit.workspace)
    return replace(segment, dialect=dialect, steps=tuple(host.steps))


class Host:
    """The program's own statements.

    `e` emits what is sequential; when something is launched that has to come after, it becomes
    a kernel of one item (`flush`).
    """

    def __init__(self, memory_program: Program, dialect: Dialect) -> None:
        self.memory_program, self.dialect = memory_program, dialect
        self.unit = unit_of(memory_program, self.statement)
        self.e = Emitter(self.unit)
        self.steps: list[launches.Step] = []
        self.kernels: list[imp.Kernel] = []
        self.names: dict[str, str] = {}  # IMP variable -> the host's integer
        self.slots: dict[str, str] = {}  # IMP variable -> the block that holds the scalar
        self.sequential = False  # inside of a statement that one item does
        self.pending: list[str] = []  # scalars that the sequential code has computed
        self.switches: dict[str, Size] = {}  # scalars that the host computes, see `_switches`
        for name in integers(memory_program):
            self.host_integer(name)
        self.e.bind(THREAD, imp.ZERO)  # sequential code has the first item's memory

    def host_integer(self, name: str, dtype: DType = DType.I64) -> None:
        """The integer `name`, which the host knows here."""
        var = self.unit.var("n", dtype)
        self.names[var.name] = name
        self.e.bind(name, var)

    def define(self, name: str, size: Size) -> None:
        """The integer `name`, which the host computes."""
        self.steps.append(launches.Define(name, size))
        self.host_integer(name)

    def _slot(self, dtype: DType, block: str | None = None) -> imp.Var:
        """A variable whose value lies in memory: a new line of it, if no block is named."""
        var = self.unit.var("s", dtype)
        self.slots[var.name] = block or self.unit.scratch()
        return var

    def program(self) -> None:
        """All of it."""
        program = self.memory_program.program
        for param in program.params:
            if isinstance(param.type, fun.Scalar):
                self.e.bind(param.name, self._slot(param.type.dtype, param.name))
        self._body(program.body)
        for k, (result, target) in enumerate(
            zip(program.body.results, self.memory_program.destinations, strict=True)
        ):
            if isinstance(target, fun.Scalar):
                self._set(f"result_{k}", target.dtype, self.e.atom(result))
        self.flush()

    def _body(self, body: fun.Body) -> None:
        checks = parts.checks(body)
        for position, let in enumerate(body.statements):
            for part in checks.get(position, ()):
                parts.check(self.e, part)
            self.e.place = let.place or self.e.place
            self.statement(self.e, let)

    def statement(self, e: Emitter, let: fun.Let) -> None:
        """One statement, of the program's own if `e` is the host's, else of a kernel."""
        if e is not self.e or self.sequential:
            gpu_items.lower_item(e, let)
            return
        match let.expr:
            case fun.Apply() if let.pattern[0].name in self.switches:
                self.define(let.pattern[0].name, self.switches[let.pattern[0].name])
            case fun.SizeValue(size) if self._is_known(size):
                e.definitions[let.pattern[0].name] = "is", (size,)
                self.define(let.pattern[0].name, size)
            case fun.Kernel() if gpu_products.suits(self, let.expr):
                gpu_products.lower(self, let)
            case fun.Kernel() as kernel:
                self._kernel(let, kernel)
            case fun.Reduce(space, reduced) if reduced < len(space):
                outer, e.of_reduction = e.of_reduction, True
                self.statement(e, reductions.as_kernel(e, let))
                e.of_reduction = outer
            case fun.Scan((dim,), body) if self.is_sized(dim.extent) and shapes.is_flat(body):
                exact = gpu_lookback.suits(let.expr)
                if not (exact and gpu_lookback.lower(self, let, let.expr)):
                    gpu_scans.lower_long(self, let)
            case fun.Scan(space) as scan:
                self.launch(
                    let, "scan", space[:-1],
                    lambda k: gpu_items.lower_scan(k, let, scan, space[-1:]),
                )  # fmt: skip
            case fun.Scatter() if gpu_scatters.suits(let.expr):
                gpu_scatters.lower(self, let, let.expr)
            case fun.If() if not _is_sequential(let):
                self._branch(let, let.expr)
            case fun.Loop() if not _is_sequential(let):
                self._loop_in_tiles(let, let.expr)
            case fun.Reduce() | fun.Scatter() | fun.If() | fun.Loop():
                with self.by_one_item():
                    gpu_items.lower_item(e, let)
                self._computed(let)
            case _:
                cpu.lower_statement(e, let)
                self._computed(let)

    def _kernel(self, let: fun.Let, kernel: fun.Kernel) -> None:
        """A kernel by groups, or by items; on a processor by lanes or rows, where that suits it."""

        def by_items(whether: Size | None) -> None:
            if whether is not None:
                inside = partial(kernels.lower_results, let=let, kernel=kernel)
                self.launch(let, "map", kernel.space, inside, whether)

        if self.dialect == "opencl":
            with self.inside() as vectorised:
                few = gpu_lanes.by_lanes(self, let, kernel)
                by_items(few)
                done = few is not None or gpu_rows.by_rows(self, let, kernel)
            if done:
                with self.inside() as otherwise:
                    by_items(gpu_groups.grouped(self, let, kernel))
                both = tuple(vectorised), tuple(otherwise)
                self.steps.append(launches.Branch(launches.PROCESSOR, *both))
                return
        by_items(gpu_groups.grouped(self, let, kernel))

    @contextmanager
    def by_one_item(self) -> Iterator[None]:
        """Inside, statements of the host's emitter are sequential code."""
        self.sequential = True
        yield
        self.sequential = False

    def _computed(self, let: fun.Let) -> None:
        self.pending += [v.name for v in let.pattern if isinstance(v.type, fun.Scalar)]

    # ------------------------------------------------------------ kernels

    def flush(self) -> None:
        """The sequential code so far, as a kernel of one item; its scalars go to memory."""
        e = self.e
        moved: dict[str, imp.Var] = {}
        for name in dict.fromkeys(self.pending):
            value = e.scalars[name]
            kept = isinstance(value, imp.Var) and (
                value.name in self.names or value.name in self.slots
            )
            if isinstance(value, imp.Const) or kept:
                continue
            moved[name] = self._slot(value.dtype)
            self._set(self.slots[moved[name].name], value.dtype, value)
        self.pending = []
        (statements,) = e.levels
        if any(not isinstance(s, imp.View | imp.Declare) for s in statements):
            self.add(e, "task", self.unit.integer("item"), ONE, 1)
        e.levels = [[]]
        e.pointers, e.polynomials, e.depths = {}, {}, {}
        for name, var in moved.items():
            e.bind(name, var)

    def _set(self, block: str, dtype: DType, value: imp.Expr) -> None:
        self.e.emit(imp.Store(self.e.pointer(block, dtype), imp.ZERO, value))

    def kernel_emitter(self) -> Emitter:
        """An emitter that knows what the host's does."""
        self.flush()
        k = Emitter(self.unit)
        k.scalars, k.ranges = dict(self.e.scalars), dict(self.e.ranges)
        k.definitions, k.comparisons = dict(self.e.definitions), dict(self.e.comparisons)
        k.known, k.conditional, k.place = self.e.known, self.e.conditional, self.e.place
        return k

    def launch(
        self,
        let: fun.Let,
        kind: str,
        space: tuple[fun.Range, ...],
        inside: Callable[[Emitter], None],
        whether: Size = ONE,
    ) -> None:
        """`inside` for every index of the space, each by a work item; none if `whether` is 0."""
        count = product(r.extent for r in space)
        self.know(count)
        k = self.kernel_emitter()
        item = self.unit.integer("item")
        points = k.named(count)
        shared = _has_memory_of_items(let)
        k.bind(THREAD, item)

        def index(number: imp.Expr) -> None:
            with ExitStack() as scopes:
                for r in space:
                    scopes.enter_context(k.index(r.index.name, imp.ZERO, ZERO, r.extent))
                kernels.decode(k, space, number)
                inside(k)

        if shared:  # as many items as there is memory for, each of several indices
            number = k.mutable(DType.I64, item, "index")
            with k.level() as body:
                k.depths[number.name] = k.depth
                index(number)
                step = machine("+", number, k.poly(Poly.var(THREADS)))
                k.emit(imp.Assign(number, step))
            k.emit(imp.While(machine("<", number, points), tuple(body)))
        else:
            with k.branch(machine("<", item, points)):
                index(item)
        self.unit.kernels.append(kernels.describe(kind, space, let.pattern))
        self.add(k, kind, item, whether * (Poly.var(THREADS) if shared else count), GROUP)

    def add(self, k: Emitter, kind: str, item: imp.Var, items: Size, group: int) -> None:
        """A kernel of what `k` has emitted, and its launch."""
        (statements,) = k.levels
        loads: list[imp.Stmt] = []
        for name, var in free_variables(statements).items():
            if name in self.slots:
                pointer = self.unit.pointer("p", var.dtype)
                view = k.view(pointer, self.unit.blocks[self.slots[name]])
                loads += [replace(view, alone=False), imp.Declare(var, imp.Load(pointer, imp.ZERO))]
        body = (*loads, *statements)
        known = dict.fromkeys(v for v in free_variables(body).values() if v.name in self.names)
        kernel = imp.Kernel(f"{kind}{len(self.kernels)}", item, views(body), tuple(known), body)
        self.kernels.append(kernel)
        self.steps.append(
            launches.Launch(
                kernel.name, items, group, kernel.blocks, tuple(self.names[v.name] for v in known)
            )
        )

    # ------------------------------------------------------------ what the host knows

    def is_sized(self, size: Size) -> bool:
        """Whether a launch of the segment knows the size before anything runs."""
        return size.variables() <= self.unit.sizes

    def derive(self, entry: Derived) -> Size:
        """A size that the launch computes."""
        if entry not in self.unit.derived:
            self.unit.derived.append(entry)
            self.host_integer(entry.name)
        return Poly.var(entry.name)

    def _is_known(self, size: Size) -> bool:
        known = (self.e.scalars.get(name) for name in size.variables())
        return all(isinstance(v, imp.Var) and v.name in self.names for v in known)

    def know(self, *sizes: Size) -> None:
        """The host reads the scalars that sizes name."""
        for name in sorted({name for size in sizes for name in size.variables()}):
            if not self._is_known(Poly.var(name)):
                self._read(name)

    def _read(self, name: str) -> None:
        if name in self.pending:
            self.flush()
        value = self.e.scalars[name]
        if isinstance(value, imp.Const):
            constant = as_poly(int(value.value.real))
            self.steps.append(launches.Define(name, constant))
        elif isinstance(value, imp.Var) and value.name in self.names:
            self.steps.append(launches.Define(name, Poly.var(self.names[value.name])))
        elif isinstance(value, imp.Var) and value.name in self.slots:
            placed = self.unit.blocks[self.slots[value.name]]
            dtype = value.dtype.numpy.str
            self.steps.append(launches.Read(name, dtype, placed.buffer, placed.offset))
        else:
            raise InternalError(f"lower: a scalar that is nowhere: {name}")
        self.host_integer(name, value.dtype)

    @contextmanager
    def inside(self) -> Iterator[list[launches.Step]]:
        """Steps of a loop or branch; what the host reads there, it knows there alone."""
        self.flush()
        e = self.e
        outer, self.steps = self.steps, []
        scalars, known = dict(e.scalars), (e.known, e.conditional, dict(e.ranges))
        yield self.steps
        self.flush()
        self.steps = outer
        e.scalars.update(scalars)
        e.known, e.conditional, e.ranges = known

    # ------------------------------------------------------------ branches and loops

    def _branch(self, let: fun.Let, expr: fun.If) -> None:
        name = self._condition(expr.condition)
        slots = [
            self._slot(var.type.dtype) if isinstance(var.type, fun.Scalar) else None
            for var in let.pattern
        ]
        branches = []
        for body in (expr.then, expr.otherwise):
            with self.inside() as steps:
                self.e.conditional = True
                self._body(body)
                self._assign(slots, body.results)
            branches.append(tuple(steps))
        self.steps.append(launches.Branch(name, branches[0], branches[1]))
        self._bind(let.pattern, slots)

    def _condition(self, atom: fun.Atom) -> str:
        """The host's integer that is the condition."""
        if isinstance(atom, fun.Var):
            if not self._is_known(Poly.var(atom.name)):
                self._read(atom.name)
            return atom.name
        name = self.unit.fresh("condition.")
        self.steps.append(launches.Define(name, as_poly(int(bool(atom.value)))))
        return name

    def _assign(self, slots: Sequence[imp.Var | None], results: Sequence[fun.Atom]) -> None:
        for slot, result in zip(slots, results, strict=True):
            if slot is not None:
                self._set(self.slots[slot.name], slot.dtype, self.e.atom(result))

    def _bind(self, pattern: Sequence[fun.Var], slots: Sequence[imp.Var | None]) -> None:
        for var, slot in zip(pattern, slots, strict=True):
            if slot is not None:
                self.e.bind(var.name, slot)

    def _loop_in_tiles(self, let: fun.Let, loop: fun.Loop) -> None:
        """A loop; on processors in tiles in time, where it asks for them."""
        tiling = gpu_time_tiles.tiling(self, loop) if self.dialect == "opencl" else None
        if tiling is None:
            self._loop(let, loop)
            return
        with self.inside() as in_tiles:
            gpu_time_tiles.lower(self, let, tiling)
        with self.inside() as by_rounds:
            self._loop(let, loop)
        self.steps.append(launches.Branch(launches.PROCESSOR, tuple(in_tiles), tuple(by_rounds)))

    def _loop(self, let: fun.Let, loop: fun.Loop) -> None:
        switches = _switches(loop)
        self.switches |= {
            result: 1 - Poly.var(loop.params[k].name) for k, (_, result) in switches.items()
        }
        slots = [
            self._slot(var.type.dtype)
            if isinstance(var.type, fun.Scalar) and k not in switches
            else None
            for k, var in enumerate(loop.params)
        ]
        self._assign(slots, loop.initial)
        self.flush()
        for k, (first, _) in switches.items():
            self.define(loop.params[k].name, as_poly(first))
        match loop.form:
            case fun.For(index, lower, upper):
                self.know(lower, upper)
                with self.inside() as steps:
                    self.host_integer(index.name)
                    self.e.ranges[index.name] = (lower, upper)
                    self._round(loop, slots, switches)
                self.steps.append(launches.Repeat(index.name, lower, upper, tuple(steps)))
            case fun.While(condition):
                with self.inside() as before:
                    self.e.conditional = True
                    self._bind(loop.params, slots)
                    self._body(condition)
                    name = self._condition(condition.results[0])
                with self.inside() as steps:
                    self.e.conditional = True
                    self._round(loop, slots, switches)
                self.steps.append(launches.While(tuple(before), name, tuple(steps)))
        self._bind(let.pattern, slots)
        for k in switches:
            self.define(let.pattern[k].name, Poly.var(loop.params[k].name))

    def _round(
        self, loop: fun.Loop, slots: Sequence[imp.Var | None], switches: dict[int, tuple[int, str]]
    ) -> None:
        self._bind(loop.params, slots)
        self._body(loop.body)
        self.flush()  # slots are read before any of them changes
        self._assign(slots, loop.body.results)
        self.flush()
        for k, (_, result) in switches.items():
            self.steps.append(launches.Define(loop.params[k].name, Poly.var(result)))


def _switches(loop: fun.Loop) -> dict[int, tuple[int, str]]:
    """Parameters that are 0 and 1 in turn, which say which of two buffers is which.

    loop (.., s = 0) { .. let r = subtract(1, s) in .., r }  =>  {position of s: (0, "r")}
    """
    found: dict[int, tuple[int, str]] = {}
    made = {let.pattern[0].name: let.expr for let in loop.body.statements}
    for k, (param, first, result) in enumerate(
        zip(loop.params, loop.initial, loop.body.results, strict=True)
    ):
        match first, made.get(result.name) if isinstance(result, fun.Var) else None:
            case fun.Const(value=0 | 1), fun.Apply("subtract", (fun.Const(value=1), other)):
                if other == param and param.type == fun.Scalar(DType.I64):
                    assert isinstance(result, fun.Var)
                    found[k] = int(first.value.real), result.name
    return found


def _is_sequential(let: fun.Let) -> bool:
    """Whether a loop or branch makes no arrays, so that one item may do it all."""
    return not any(
        isinstance(inner.expr, _ARRAYS) or (
            isinstance(inner.expr, fun.Reshape | fun.Broadcast) and not copies.is_view(inner)
        ) or isinstance(inner.expr, fun.Reduce)
        for body in walk.bodies(let.expr)
        for inner in walk.statements(body)
    )  # fmt: skip


def _has_memory_of_items(let: fun.Let) -> bool:
    """Whether arrays inside of a statement are in memory of each item's own."""
    return any(
        isinstance(var.type, MemArray)
        and any(THREAD in size.variables() for size in (memory(var).index.offset,))
        for body in walk.bodies(let.expr)
        for inner in walk.statements(body)
        for var in inner.pattern
    )
