"""The IMP interpreter: plain Python over NumPy memory, to tell lowering from printing.

Tiles run in order on one thread; simd loops run one iteration after another. It is slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from weft.errors import InternalError
from weft.imp import nodes as imp
from weft.ops import table
from weft.ops.dtypes import DType

Memory = npt.NDArray[np.uint8]


LINE = 64  # bytes of a cache line


class _Break(Exception):  # noqa: N818
    pass


class _Leave(Exception):  # noqa: N818
    """The tile, or the program, is abandoned."""


def interpret(
    program: imp.Program,
    buffers: Sequence[Memory],
    integers: Sequence[int],
    optimised: bool = True,
) -> tuple[int, int, int]:
    """Run a program.

    Parameters
    ----------
    buffers : sequence of uint8 arrays
        The bytes of its buffers, then of the workspace; written in place.
    integers : sequence of int
    optimised : bool, optional
        What `imp.Optimised` is.

    Returns
    -------
    tuple of int
        The failure's code (0: none), its index and its extent.
    """
    run = _Run(buffers, optimised)
    for var, value in zip(program.integers, integers, strict=True):
        run.scalars[var.name] = np.int64(value)
    try:
        with np.errstate(all="ignore"):
            run.block(program.body)
    except _Leave:
        pass
    return run.failure


class _Run:
    def __init__(self, buffers: Sequence[Memory], optimised: bool = True) -> None:
        self.buffers = buffers
        self.optimised = optimised
        self.scalars: dict[str, Any] = {}
        self.pointers: dict[str, npt.NDArray[Any]] = {}
        self.starts: dict[str, int] = {}  # where pointers that were advanced begin in theirs
        self.failure = 0, 0, 0

    # ------------------------------------------------------------ expressions

    def integer(self, expr: imp.Expr) -> int:
        return int(self.expr(expr))

    def expr(self, expr: imp.Expr) -> Any:
        match expr:
            case imp.Const(value, dtype):
                return dtype.numpy.type(value)
            case imp.Var(name):
                return self.scalars[name]
            case imp.Apply(operation, arguments, dtype):
                values = [self.expr(argument) for argument in arguments]
                return dtype.numpy.type(table.lookup(operation).numpy(*values))
            case imp.Cast(dtype, argument):
                return table.cast_numpy(dtype, self.expr(argument))
            case imp.Machine(operator, left, right):
                return _machine(operator, self.expr(left), lambda: self.expr(right), expr.dtype)
            case imp.Select(condition, then, otherwise):
                return self.expr(then if self.expr(condition) else otherwise)
            case imp.Load(pointer, index):
                return self.pointers[pointer.name][self.inside(pointer, index)]
            case imp.Rounded(argument):
                return self.expr(argument)
            case imp.Optimised():
                return np.bool_(self.optimised)
            case _:
                assert_never(expr)

    def position(self, pointer: imp.Pointer, index: imp.Expr) -> int:
        return self.starts.get(pointer.name, 0) + self.integer(index)

    def inside(self, pointer: imp.Pointer, index: imp.Expr) -> int:
        at, extent = self.position(pointer, index), len(self.pointers[pointer.name])
        if not 0 <= at < extent:
            raise InternalError(f"IMP: {pointer.name}[{at}] of {extent} elements")
        return at

    # ------------------------------------------------------------ statements

    def block(self, statements: tuple[imp.Stmt, ...]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, statement: imp.Stmt) -> None:
        match statement:
            case imp.Declare(var, value):
                if value is not None:
                    self.scalars[var.name] = self.expr(value)
            case imp.Assign(var, value):
                self.scalars[var.name] = self.expr(value)
            case imp.Store(pointer, index, value):
                new = self.expr(value)
                self.pointers[pointer.name][self.inside(pointer, index)] = new
            case imp.View(pointer, block, offset):
                size, begin = pointer.dtype.itemsize, self.integer(offset)
                if begin % pointer.dtype.numpy.alignment:
                    raise InternalError(f"imp: {pointer.name} is not aligned: {begin} bytes in")
                memory = self.buffers[block][begin:]
                whole = memory[: len(memory) // size * size]
                self.pointers[pointer.name] = whole.view(pointer.dtype.numpy)
            case imp.Local(pointer, extent):
                self.pointers[pointer.name] = np.empty(extent, pointer.dtype.numpy)
            case imp.Shared() | imp.Barrier() | imp.Atomic() | imp.Ticket() | imp.Receive():
                raise InternalError("imp: groups of items are a device's")
            case imp.Choose(pointer, condition, near, far, index, in_line):
                chosen = self.pointers[near.name]
                if not self.expr(condition):
                    chosen = self.pointers[far.name][self.position(far, index) :]
                elif in_line:
                    chosen = chosen[self.integer(index) % (LINE // near.dtype.itemsize) :]
                self.pointers[pointer.name] = chosen
            case imp.Advance(pointer, base, index):
                self.pointers[pointer.name] = self.pointers[base.name]
                self.starts[pointer.name] = self.position(base, index)
            case imp.LoadVector(near, pointer, index, lanes):
                self.pointers[near.name][:lanes] = self.vector(pointer, index, lanes)
            case imp.StoreVector(pointer, index, near, lanes):
                self.vector(pointer, index, lanes)[:] = self.pointers[near.name][:lanes]
            case imp.Flush():
                self.flush(statement)
            case imp.Roots(near, count):
                of = self.pointers[near.name][: self.integer(count)]
                of[:] = np.sqrt(of)
            case imp.Columns():
                self.columns(statement)
            case imp.Prefetch(_, index):
                self.integer(index)
            case imp.If(condition, then, otherwise):
                self.block(then if self.expr(condition) else otherwise)
            case imp.For(var, lower, upper, body, step):
                try:
                    for position in range(self.integer(lower), self.integer(upper), step):
                        self.scalars[var.name] = var.dtype.numpy.type(position)
                        self.block(body)
                except _Break:
                    pass
            case imp.While(condition, body):
                try:
                    while self.expr(condition):
                        self.block(body)
                except _Break:
                    pass
            case imp.Break():
                raise _Break
            case imp.Parallel():
                self.parallel(statement)
            case imp.Poll():
                if self.failure[0]:
                    raise _Leave
            case imp.Fail(code, index, extent):
                if not self.failure[0]:
                    self.failure = code, self.integer(index), self.integer(extent)
                raise _Leave
            case imp.Await(pointer, index, value):
                if self.pointers[pointer.name][self.inside(pointer, index)] != self.expr(value):
                    raise InternalError(f"IMP: waiting for ever at {pointer.name}")
            case imp.Publish(pointer, index, value):
                self.pointers[pointer.name][self.inside(pointer, index)] = self.expr(value)
            case imp.Lock(pointer, index):
                if self.pointers[pointer.name][self.inside(pointer, index)] != 0:
                    raise InternalError(f"IMP: waiting for ever at {pointer.name}")
                self.pointers[pointer.name][self.inside(pointer, index)] = 1
            case _:
                assert_never(statement)

    def vector(self, pointer: imp.Pointer, index: imp.Expr, lanes: int) -> npt.NDArray[Any]:
        """So many elements of memory, all of them there, and where a vector begins."""
        at = self.inside(pointer, index)
        found = self.pointers[pointer.name][at : at + lanes]
        if len(found) < lanes or at % lanes:
            raise InternalError(f"IMP: no vector of {lanes} at {pointer.name}[{at}]")
        return found

    def flush(self, flush: imp.Flush) -> None:
        """As the machine does, as if the memory began with a line."""
        at, count = self.position(flush.pointer, flush.index), self.integer(flush.count)
        line = LINE // flush.near.dtype.itemsize
        shift = at % line
        near, far = self.pointers[flush.near.name], self.pointers[flush.pointer.name][at - shift :]
        end, done = shift + count, 0
        if shift and self.expr(flush.first):
            done = min(line, end)
            far[shift:done] = near[shift:done]
        whole = max(done, end // line * line)
        far[done:whole] = near[done:whole]
        if self.expr(flush.last):
            far[whole:end] = near[whole:end]
        elif whole < end:
            near[:line] = near[whole : whole + line]

    def columns(self, copied: imp.Columns) -> None:
        target, source = (self.pointers[p.name] for p in (copied.target, copied.source))
        at, index = (
            self.position(p, i)
            for p, i in ((copied.target, copied.at), (copied.source, copied.index))
        )
        between, apart, step = map(self.integer, (copied.between, copied.apart, copied.step))
        for c in range(copied.columns):
            for r in range(self.integer(copied.records)):
                target[at + c * between + r] = source[index + r * apart + c * step]

    def parallel(self, parallel: imp.Parallel) -> None:
        scalars = dict(self.scalars)
        tiles = range(self.integer(parallel.tiles))
        for tile in tiles if parallel.ordered else reversed(tiles):  # any order will do
            self.scalars[parallel.tile.name] = np.int64(tile)
            self.scalars[parallel.thread.name] = np.int32(0)
            try:
                self.block(parallel.body)
            except _Leave:
                raise _Leave from None
            self.scalars = dict(scalars)


def _machine(operator: imp.MachineOperator, left: Any, right: Any, dtype: DType) -> Any:
    """C's arithmetic on int64; `right` is evaluated only where C does."""
    match operator:
        case "&&":
            return np.bool_(bool(left) and bool(right()))
        case "||":
            return np.bool_(bool(left) or bool(right()))
    a, b = int(left), int(right())
    match operator:
        case "+":
            value = a + b
        case "-":
            value = a - b
        case "*":
            value = a * b
        case "/":
            value = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        case "%":
            value = abs(a) % abs(b) * (-1 if a < 0 else 1)
        case "min":
            value = min(a, b)
        case "max":
            value = max(a, b)
        case "<<":
            value = a << b
        case ">>":
            value = a >> b
        case "&":
            value = a & b
        case "|":
            value = a | b
        case "<":
            return np.bool_(a < b)
        case "<=":
            return np.bool_(a <= b)
        case ">":
            return np.bool_(a > b)
        case ">=":
            return np.bool_(a >= b)
        case "==":
            return np.bool_(a == b)
        case "!=":
            return np.bool_(a != b)
        case _:
            assert_never(operator)
    wrapped = (value + 2**63) % 2**64 - 2**63
    return dtype.numpy.type(wrapped)
