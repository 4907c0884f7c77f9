"""The IMP checker: every name declared once and before its use, every dtype as it must be."""

from __future__ import annotations

from typing import assert_never

from weft.errors import InternalError
from weft.imp import nodes as imp
from weft.imp.show import show_expr
from weft.ops import table
from weft.ops.dtypes import DType


def check(program: imp.Program) -> None:
    """Check a program.

    Raises
    ------
    InternalError
        At the first rule that is broken: what was found, and in which statement.
    """
    checker = _Checker(program.buffers)
    for var in program.integers:
        checker.declare(var, mutable=False)
    checker.block(program.body)


class _Checker:
    def __init__(self, buffers: int) -> None:
        self.buffers = buffers
        self.scope: dict[str, tuple[DType, bool]] = {}  # dtype, whether it may be assigned
        self.pointers: dict[str, DType] = {}
        self.taken: set[str] = set()
        self.in_tile, self.ordered = False, True
        self.locals: set[str] = set()
        self.loops = 0

    def require(self, holds: bool, what: str) -> None:
        if not holds:
            raise InternalError(f"IMP: {what}")

    def declare(self, var: imp.Var, mutable: bool) -> None:
        tile_argument = var.name == "thread"  # every parallel statement's
        self.require(tile_argument or var.name not in self.taken, f"{var.name} declared twice")
        self.taken.add(var.name)
        self.scope[var.name] = var.dtype, mutable

    def point(self, pointer: imp.Pointer) -> None:
        self.require(pointer.name not in self.taken, f"{pointer.name} declared twice")
        self.taken.add(pointer.name)
        self.pointers[pointer.name] = pointer.dtype

    def use(self, pointer: imp.Pointer) -> None:
        found = self.pointers.get(pointer.name)
        self.require(found is pointer.dtype, f"pointer {pointer.name} of {pointer.dtype}: {found}")

    # ------------------------------------------------------------ expressions

    def expr(self, expr: imp.Expr, wanted: DType | None = None) -> None:
        self._expr(expr)
        if wanted is not None and expr.dtype is not wanted:
            self.require(False, f"{show_expr(expr)} is {expr.dtype}, expected {wanted}")

    def _expr(self, expr: imp.Expr) -> None:
        match expr:
            case imp.Const() | imp.Optimised():
                pass
            case imp.Var(name, dtype):
                found = self.scope.get(name)
                self.require(found is not None, f"{name} is not declared")
                self.require(found is not None and found[0] is dtype, f"{name} is not {dtype}")
            case imp.Apply(operation, arguments, dtype):
                for argument in arguments:
                    self._expr(argument)
                given = table.lookup(operation).result(tuple(a.dtype for a in arguments))
                self.require(given is dtype, f"{show_expr(expr)} gives {given}, not {dtype}")
            case imp.Cast(_, argument):
                self._expr(argument)
            case imp.Rounded(argument):
                self._expr(argument)
                self.require(argument.dtype.kind == "f", f"{show_expr(argument)} is no float")
            case imp.Machine(operator, left, right):
                operand = DType.BOOL if operator in ("&&", "||") else None
                self.expr(left, operand)
                self.expr(right, operand)
                integers = {DType.I64, DType.I32}
                if operand is None:
                    fine = left.dtype in integers and right.dtype is left.dtype
                    self.require(fine, f"machine arithmetic on {show_expr(expr)}")
            case imp.Select(condition, then, otherwise):
                self.expr(condition, DType.BOOL)
                self._expr(then)
                self.expr(otherwise, then.dtype)
            case imp.Load(pointer, index):
                self.use(pointer)
                self.expr(index, DType.I64)
            case _:
                assert_never(expr)

    # ------------------------------------------------------------ statements

    def block(self, statements: tuple[imp.Stmt, ...]) -> None:
        scope, pointers = dict(self.scope), dict(self.pointers)
        for statement in statements:
            self.statement(statement)
        self.scope, self.pointers = scope, pointers

    def statement(self, statement: imp.Stmt) -> None:
        match statement:
            case imp.Declare(var, value, mutable):
                if value is not None:
                    self.expr(value, var.dtype)
                self.declare(var, mutable or value is None)
            case imp.Assign(var, value):
                found = self.scope.get(var.name)
                self.require(found == (var.dtype, True), f"{var.name} cannot be assigned here")
                self.expr(value, var.dtype)
            case imp.View() | imp.Local() | imp.Choose() | imp.Advance():
                self.pointing(statement)
            case (
                imp.Store() | imp.LoadVector() | imp.StoreVector() | imp.Flush() | imp.Roots()
                | imp.Columns() | imp.Prefetch()
            ):  # fmt: skip
                self.moving(statement)
            case imp.Await() | imp.Publish() | imp.Lock():
                self.meeting(statement)
            case imp.Shared() | imp.Barrier() | imp.Atomic() | imp.Ticket() | imp.Receive():
                self.require(False, "groups of items are a device's")
            case imp.If(condition, then, otherwise):
                self.expr(condition, DType.BOOL)
                self.block(then)
                self.block(otherwise)
            case imp.For():
                self.loop(statement)
            case imp.While(condition, body):
                self.expr(condition, DType.BOOL)
                self.loops += 1
                self.block(body)
                self.loops -= 1
            case imp.Break():
                self.require(self.loops > 0, "break outside of a loop")
            case imp.Parallel():
                self.parallel(statement)
            case imp.Poll():
                pass
            case imp.Fail(code, index, extent):
                self.require(code >= 16, f"failure code {code}")
                self.expr(index, DType.I64)
                self.expr(extent, DType.I64)
            case _:
                assert_never(statement)

    def pointing(self, statement: imp.View | imp.Local | imp.Choose | imp.Advance) -> None:
        """What begins a pointer."""
        match statement:
            case imp.View(_, block, offset):
                self.require(-1 <= block < self.buffers, f"there is no buffer {block}")
                self.expr(offset)
            case imp.Local(pointer, extent):
                self.require(extent > 0, f"{pointer.name} has no elements")
                self.locals.add(pointer.name)
            case imp.Choose(pointer, condition, near, far, index, in_line):
                if in_line:
                    self.local(near)
                self.expr(condition, DType.BOOL)
                self.require(pointer.dtype is near.dtype is far.dtype, f"{pointer.name}: dtypes")
                self.use(near)
                self.use(far)
                self.expr(index, DType.I64)
            case imp.Advance(pointer, base, index):
                self.require(pointer.dtype is base.dtype, f"{pointer.name}: dtypes")
                self.use(base)
                self.expr(index, DType.I64)
            case _:
                assert_never(statement)
        self.point(statement.pointer)

    def moving(
        self,
        statement: imp.Store | imp.LoadVector | imp.StoreVector | imp.Flush | imp.Roots
        | imp.Columns | imp.Prefetch,
    ) -> None:  # fmt: skip
        """What writes elements, or is about many at once."""
        match statement:
            case imp.Store(pointer, index, value):
                self.use(pointer)
                self.expr(index, DType.I64)
                self.expr(value, pointer.dtype)
            case imp.LoadVector(near, pointer, index, lanes) | imp.StoreVector(
                pointer, index, near, lanes
            ):
                self.local(near)
                self.require(pointer.dtype is near.dtype, f"{pointer.name}: dtypes")
                size = lanes * near.dtype.itemsize
                whole = lanes > 1 and size in (2, 4, 8, 16)
                self.require(whole, f"{near.name}: vectors of {size} bytes")
                self.use(near)
                self.use(pointer)
                self.expr(index, DType.I64)
            case imp.Flush(pointer, index, near, count, first, last):
                self.local(near)
                self.require(pointer.dtype is near.dtype, f"{pointer.name}: dtypes")
                self.use(near)
                self.use(pointer)
                self.expr(index, DType.I64)
                self.expr(count, DType.I64)
                self.expr(first, DType.BOOL)
                self.expr(last, DType.BOOL)
            case imp.Roots(near, count):
                self.local(near)
                self.require(near.dtype is DType.F64, f"{near.name}: roots of {near.dtype}")
                self.use(near)
                self.expr(count, DType.I64)
            case imp.Columns():
                self.require(not self.in_tile, "columns inside of a parallel statement")
                target, source = statement.target, statement.source
                self.require(target.dtype is source.dtype, f"{target.name}: dtypes")
                self.use(target)
                self.use(source)
                for expr in (
                    statement.at, statement.between, statement.index, statement.apart,
                    statement.step, statement.records,
                ):  # fmt: skip
                    self.expr(expr, DType.I64)
            case imp.Prefetch(pointer, index):
                self.use(pointer)
                self.expr(index, DType.I64)
            case _:
                assert_never(statement)

    def meeting(self, statement: imp.Await | imp.Publish | imp.Lock) -> None:
        """What threads wait for, or tell each other."""
        match statement:
            case imp.Await(pointer, index, value) | imp.Publish(pointer, index, value):
                ordered = isinstance(statement, imp.Publish) or self.ordered
                self.require(ordered, "waiting for a tile that may not have begun")
                self.require(pointer.dtype is DType.I64, "waiting for what is not an int64")
                self.use(pointer)
                self.expr(index, DType.I64)
                self.expr(value, DType.I64)
            case imp.Lock(pointer, index):
                self.require(pointer.dtype is DType.I64, "a lock that is not an int64")
                self.use(pointer)
                self.expr(index, DType.I64)
            case _:
                assert_never(statement)

    def local(self, pointer: imp.Pointer) -> None:
        self.require(pointer.name in self.locals, f"{pointer.name} is not a local array")

    def loop(self, loop: imp.For) -> None:
        self.require(loop.var.dtype in (DType.I32, DType.I64), f"a loop's {loop.var.dtype}")
        self.expr(loop.lower, loop.var.dtype)
        self.expr(loop.upper, loop.var.dtype)
        self.require(loop.step > 0, f"step {loop.step}")
        if loop.in_turn is not None:
            self.expr(loop.in_turn, DType.BOOL)
        self.require(loop.simd or not loop.lanes, "lanes of a loop that is not simd")
        for _, var in loop.reductions:
            self.require(loop.simd, "reductions of a loop that is not simd")
            self.expr(var)
        scope = dict(self.scope)
        self.declare(loop.var, mutable=False)
        self.loops += 1
        self.block(loop.body)
        self.loops -= 1
        self.scope = scope

    def parallel(self, parallel: imp.Parallel) -> None:
        """A tile sees scalars as constants, and no local array of its surroundings."""
        self.require(not self.in_tile, "a parallel statement inside of another")
        self.expr(parallel.tiles, DType.I64)
        scope, pointers, loops = self.scope, self.pointers, self.loops
        self.scope = {name: (dtype, False) for name, (dtype, _) in scope.items()}
        self.pointers = {n: dtype for n, dtype in pointers.items() if n not in self.locals}
        self.in_tile, self.ordered, self.loops = True, parallel.ordered, 0
        self.declare(parallel.tile, mutable=False)
        self.declare(parallel.thread, mutable=False)
        self.block(parallel.body)
        self.in_tile, self.ordered = False, True
        self.scope, self.pointers, self.loops = scope, pointers, loops
