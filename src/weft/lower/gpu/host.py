"""What the host of a device does: it launches kernels, and knows the integers that decide which."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from weft.errors import InternalError
from weft.fun import nodes as fun
from weft.fun import walk
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.imp.point_to_rows import point_to_rows
from weft.imp.unroll_short import unroll_short
from weft.imp.walk import free_variables, views
from weft.lower import parts, spaces
from weft.lower.emitter import Emitter
from weft.lower.segment import integers, unit_of
from weft.lower.unit import LINES, memory
from weft.mem.nodes import THREAD, THREADS, MemArray, Program
from weft.ops.dtypes import DType
from weft.plan import launches
from weft.plan.segment import Dialect
from weft.sizes import ONE, ZERO, Derived, Poly, Size, as_poly, product

GROUP = 64
"""Work items that run together."""


class Host:
    """The program's own statements.

    `e` emits what is sequential; when something is launched that has to come after, it becomes
    a kernel of one item (`flush`).
    """

    def __init__(
        self,
        memory_program: Program,
        dialect: Dialect,
        statement: Callable[[Host, Emitter, fun.Let], None],
        run: Callable[[Host, fun.Body, int, frozenset[int]], int],
    ) -> None:
        self.memory_program, self.dialect = memory_program, dialect
        self._statement, self._run = statement, run
        self.unit = unit_of(memory_program, self.statement)
        self.unit.batched = dialect == "cuda"
        self.unit.aligned = False  # drivers' compilers take longer for masks than is won
        self.e = Emitter(self.unit)
        self.steps: list[launches.Step] = []
        self.kernels: list[imp.Kernel] = []
        self.names: dict[str, str] = {}  # IMP variable -> the host's integer
        self.slots: dict[str, str] = {}  # IMP variable -> the block that holds the scalar
        self.sequential = False  # inside of a statement that one item does
        self.pending: list[str] = []  # scalars that the sequential code has computed
        self.switches: dict[str, Size] = {}  # scalars that the host computes, see `control`
        for name in integers(memory_program):
            self.host_integer(name)
        if dialect == "opencl":  # what a region takes may depend on it, and where others begin
            self.host_integer(launches.PROCESSOR)
        self.names[self.unit.lines.name] = LINES
        self.e.bind(LINES, self.unit.lines)
        self.e.bind(THREAD, imp.ZERO)  # sequential code has the first item's memory

    @property
    def is_processor(self) -> Size:
        """1 where the device is a processor, else 0."""
        return ZERO if self.dialect == "cuda" else Poly.var(launches.PROCESSOR)

    def by_device(
        self, on_processor: Sequence[launches.Step], otherwise: Sequence[launches.Step]
    ) -> None:
        """Some steps where the device is a processor, others where it is not."""
        both = tuple(on_processor), tuple(otherwise)
        self.steps.append(launches.Branch(launches.PROCESSOR, *both))

    def host_integer(self, name: str, dtype: DType = DType.I64) -> None:
        """The integer `name`, which the host knows here."""
        var = self.unit.var("n", dtype)
        self.names[var.name] = name
        self.e.bind(name, var)

    def define(self, name: str, size: Size) -> None:
        """The integer `name`, which the host computes."""
        self.steps.append(launches.Define(name, size))
        self.host_integer(name)

    def slot(self, dtype: DType, block: str | None = None) -> imp.Var:
        """A variable whose value lies in memory: a new line of it, if no block is named."""
        var = self.unit.var("s", dtype)
        self.slots[var.name] = block or self.unit.scratch()
        return var

    def program(self) -> None:
        """All of it."""
        program = self.memory_program.program
        for param in program.params:
            if isinstance(param.type, fun.Scalar):
                self.e.bind(param.name, self.slot(param.type.dtype, param.name))
        self.body(program.body)
        for k, (result, target) in enumerate(
            zip(program.body.results, self.memory_program.destinations, strict=True)
        ):
            if isinstance(target, fun.Scalar):
                self.set(f"result_{k}", target.dtype, self.e.atom(result))
        self.flush()

    def body(self, body: fun.Body) -> None:
        checks = parts.checks(body)
        done = 0  # statements: those of a run are launched together
        for position, let in enumerate(body.statements):
            if position < done:
                continue
            for part in checks.get(position, ()):
                parts.check(self.e, part)
            done = position + self._run(self, body, position, frozenset(checks))
            if done == position:
                self.e.place = let.place or self.e.place
                self.statement(self.e, let)

    def statement(self, e: Emitter, let: fun.Let) -> None:
        """One statement, of the program's own if `e` is the host's, else of a kernel."""
        self._statement(self, e, let)

    @contextmanager
    def by_one_item(self) -> Iterator[None]:
        """Inside, statements of the host's emitter are sequential code."""
        self.sequential = True
        yield
        self.sequential = False

    def computed(self, let: fun.Let) -> None:
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
            moved[name] = self.slot(value.dtype)
            self.set(self.slots[moved[name].name], value.dtype, value)
        self.pending = []
        (statements,) = e.levels
        if any(not isinstance(s, imp.View | imp.Declare) for s in statements):
            self.add(e, "task", self.unit.integer("item"), ONE, 1)
        e.levels = [[]]
        e.pointers, e.polynomials, e.depths = {}, {}, {}
        for name, var in moved.items():
            e.bind(name, var)

    def set(self, block: str, dtype: DType, value: imp.Expr) -> None:
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
                spaces.decode(k, space, number)
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
        self.unit.kernels.append(spaces.describe(kind, space, let.pattern))
        self.add(k, kind, item, whether * (Poly.var(THREADS) if shared else count), GROUP)

    def add(
        self, k: Emitter, kind: str, item: imp.Var, items: Size, group: int, resident: int = 0
    ) -> None:
        """A kernel of what `k` has emitted, and its launch.

        `resident`: the groups that have their registers at once, 0 where the compiler decides.
        """
        (statements,) = k.levels
        loads: list[imp.Stmt] = []
        for name, var in free_variables(statements).items():
            if name in self.slots:
                pointer = self.unit.pointer("p", var.dtype)
                view = k.view(pointer, self.unit.blocks[self.slots[name]])
                loads += [replace(view, alone=False), imp.Declare(var, imp.Load(pointer, imp.ZERO))]
        body = (*loads, *statements)
        if self.dialect == "opencl":
            body = unroll_short(point_to_rows(body))
        known = dict.fromkeys(v for v in free_variables(body).values() if v.name in self.names)
        kernel = imp.Kernel(
            f"{kind}{len(self.kernels)}", item, views(body), tuple(known), body,
            resident=(group, resident) if resident else (0, 0),
        )  # fmt: skip
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

    def is_known(self, size: Size) -> bool:
        known = (self.e.scalars.get(name) for name in size.variables())
        return all(isinstance(v, imp.Var) and v.name in self.names for v in known)

    def know(self, *sizes: Size) -> None:
        """The host reads the scalars that sizes name."""
        for name in sorted({name for size in sizes for name in size.variables()}):
            if not self.is_known(Poly.var(name)):
                self.read(name)

    def read(self, name: str) -> None:
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


def _has_memory_of_items(let: fun.Let) -> bool:
    """Whether arrays inside of a statement are in memory of each item's own."""
    return any(
        isinstance(var.type, MemArray)
        and any(THREAD in size.variables() for size in (memory(var).index.offset,))
        for body in walk.bodies(let.expr)
        for inner in walk.statements(body)
        for var in inner.pattern
    )
