"""The one walk that prints IMP, and what a dialect of C has to say about it.

A printer translates: it decides nothing and rewrites nothing. What differs between C,
OpenCL C and CUDA C++ is a `Dialect`.
"""

from __future__ import annotations

import math
from dataclasses import field
from functools import cache
from typing import assert_never

import numpy as np

from weft.imp import nodes as imp
from weft.ops import dialects, table
from weft.ops.dtypes import DType
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one dialect spells what the walk meets."""

    name: dialects.Dialect
    restrict: str
    simd: str  # the line before a simd loop, with {lanes}, {reductions} and {unroll}
    unroll: str  # the line before a loop to be unrolled, with {count}
    unroll_simd: str  # what stands for {unroll} where a simd loop is to be unrolled
    infinity: str
    nan: str
    long: str = "LL"  # what follows a constant of 64 bits
    rounded: str = "{}"  # a float that is not contracted
    optimised: str = "1"  # whether the text is to be compiled to what runs quickest


@cache
def spelling(operation: str, dialect: dialects.Dialect, dtypes: tuple[DType, ...]) -> str:
    """The operation's template, made once for each use of it."""
    return table.lookup(operation).spell(dialect, dtypes)


@cache
def cast_spelling(dialect: dialects.Dialect, source: DType, target: DType) -> str:
    return table.cast_spell(dialect, source, target)


@dataclass(slots=True)
class Frame:
    """The function being printed: what its text names and what it declares."""

    in_tile: bool = False
    lines: list[str] = field(default_factory=list)
    used: dict[str, imp.Var | imp.Pointer] = field(default_factory=dict)
    declared: set[str] = field(default_factory=set)


class Printer:
    """Prints statements into the current frame; functions outlined from it come first."""

    dialect: Dialect
    far = ""  # the qualifier of arrays of a thread that registers are not for

    def __init__(self) -> None:
        self.frame = Frame()
        self.functions: list[str] = []
        self.shared: set[str] = set()  # pointers that others may alias
        self.depth = 1
        self.spare: set[str] = set()  # conditions that hold in what is to run quickest alone

    # ------------------------------------------------------------ expressions

    def constant(self, value: bool | int | float | complex, dtype: DType) -> str:
        match dtype.kind:
            case "b":
                return "1" if value else "0"
            case "i" | "u":
                return _integer(int(value.real), dtype, self.dialect.long)
            case "f":
                return self.real(float(value.real), dtype)
            case _:
                number = complex(value)
                real, imag = (self.real(x, dtype.real) for x in (number.real, number.imag))
                return f"__builtin_complex({real}, {imag})"

    def real(self, value: float, dtype: DType) -> str:
        suffix = "f" if dtype is DType.F32 else ""
        with np.errstate(over="ignore"):
            number = dtype.numpy.type(value)  # which may be infinite
        value = float(number)
        if math.isnan(value):
            return f"(({self.type(dtype)}){self.dialect.nan})"
        if math.isinf(value):
            return f"(({self.type(dtype)}){'-' if value < 0 else ''}{self.dialect.infinity})"
        text = str(number)  # the shortest that reads back the same
        if "." not in text and "e" not in text:
            text += ".0"
        return f"({text}{suffix})" if text.startswith("-") else text + suffix

    def type(self, dtype: DType) -> str:
        return dialects.type_name(self.dialect.name, dtype)

    def name(self, what: imp.Var | imp.Pointer) -> str:
        self.frame.used[what.name] = what
        return what.name

    def expr(self, expr: imp.Expr) -> str:
        """The expression's text, which is safe inside any other."""
        match expr:
            case imp.Const(value, dtype):
                return self.constant(value, dtype)
            case imp.Var():
                return self.name(expr)
            case imp.Apply(operation, arguments, _):
                template = spelling(operation, self.dialect.name, tuple(a.dtype for a in arguments))
                return template.format(*map(self.expr, arguments))
            case imp.Cast(dtype, argument):
                if argument.dtype is dtype:
                    return self.expr(argument)
                template = cast_spelling(self.dialect.name, argument.dtype, dtype)
                return template.format(self.expr(argument))
            case imp.Machine(operator, left, right):
                a, b = self.expr(left), self.expr(right)
                if operator == "min":
                    return f"({a} < {b} ? {a} : {b})"
                if operator == "max":
                    return f"({a} > {b} ? {a} : {b})"
                return f"({a} {operator} {b})"
            case imp.Select(condition, then, otherwise):
                return f"({self.expr(condition)} ? {self.expr(then)} : {self.expr(otherwise)})"
            case imp.Load(pointer, index):
                return f"{self.name(pointer)}[{self.bare(index)}]"
            case imp.Rounded(argument):
                return self.dialect.rounded.format(self.expr(argument))
            case imp.Optimised():
                return self.dialect.optimised
            case _:
                assert_never(expr)

    def bare(self, expr: imp.Expr) -> str:
        """The expression where nothing around it binds: without its outer parentheses."""
        text = self.expr(expr)
        return text[1:-1] if isinstance(expr, imp.Machine) and _enclosed(text) else text

    # ------------------------------------------------------------ statements

    def line(self, text: str) -> None:
        self.frame.lines.append("    " * self.depth + text)

    def block(self, statements: tuple[imp.Stmt, ...]) -> None:
        self.depth += 1
        for statement in statements:
            self.statement(statement)
        self.depth -= 1

    def statement(self, statement: imp.Stmt) -> None:
        match statement:
            case imp.Declare(var, value, mutable):
                self.frame.declared.add(var.name)
                if value is not None and not mutable and self.is_spare(value):
                    self.spare.add(var.name)
                text = "" if value is None else f" = {self.bare(value)}"
                constant = "" if mutable or value is None else "const "
                self.line(f"{constant}{self.type(var.dtype)} {var.name}{text};")
            case imp.Assign(var, value):
                self.line(f"{self.name(var)} = {self.bare(value)};")
            case imp.Store(pointer, index, value):
                self.line(f"{self.name(pointer)}[{self.bare(index)}] = {self.bare(value)};")
            case imp.View():
                self.view(statement)
            case imp.Local(pointer, extent, far):
                self.frame.declared.add(pointer.name)
                type_ = f"{self.far}{self.type(pointer.dtype)}" if far else self.type(pointer.dtype)
                self.local_array(type_, pointer.name, extent)
            case imp.Shared(pointer, extent):
                self.frame.declared.add(pointer.name)
                self.shared_array(self.type(pointer.dtype), pointer.name, extent)
            case imp.Barrier():
                self.barrier()
            case imp.Choose():
                self.frame.declared.add(statement.pointer.name)
                self.choose(statement)
            case imp.Advance(pointer, base, index):
                self.frame.declared.add(pointer.name)
                self.advance(pointer, f"{self.name(base)} + {self.expr(index)}")
            case imp.LoadVector(near, pointer, index, lanes):
                address = f"{self.name(pointer)} + {self.expr(index)}"
                self.load_vector(self.name(near), address, near.dtype, lanes)
            case imp.StoreVector(pointer, index, near, lanes):
                address = f"{self.name(pointer)} + {self.expr(index)}"
                self.store_vector(address, self.name(near), near.dtype, lanes)
            case imp.Flush(pointer, index, near, count, first, last):
                to = f"{self.name(pointer)} + {self.expr(index)}"
                size = f"{self.expr(count)} * {pointer.dtype.itemsize}"
                ends = f"{self.expr(first)}, {self.expr(last)}"
                self.flush(to, self.name(near), size, ends)
            case imp.Roots(near, count):
                self.roots(self.name(near), self.expr(count))
            case imp.Columns():
                self.columns(statement)
            case imp.Prefetch(pointer, index):
                self.prefetch(f"{self.name(pointer)} + {self.expr(index)}")
            case imp.If(condition, then, otherwise) if self.is_spare(condition):
                self.only_optimised(condition, then, otherwise)
            case imp.If(condition, then, otherwise):
                self.line(f"if ({self.bare(condition)}) {{")
                self.block(then)
                if otherwise:
                    self.line("} else {")
                    self.block(otherwise)
                self.line("}")
            case imp.For():
                self.loop(statement)
            case imp.While(condition, body):
                self.line(f"while ({self.bare(condition)}) {{")
                self.block(body)
                self.line("}")
            case imp.Break():
                self.line("break;")
            case imp.Parallel():
                self.parallel(statement)
            case imp.Poll():
                self.poll()
            case imp.Fail(code, index, extent, stays):
                self.fail(code, self.expr(index), self.expr(extent), stays)
            case imp.Await(pointer, index, value):
                self.wait(f"{self.name(pointer)} + {self.expr(index)}", self.expr(value))
            case imp.Publish(pointer, index, value):
                self.publish(f"{self.name(pointer)} + {self.expr(index)}", self.expr(value))
            case imp.Lock(pointer, index):
                self.lock(f"{self.name(pointer)} + {self.expr(index)}")
            case imp.Atomic(operation, pointer, index, value):
                address = f"{self.name(pointer)} + {self.expr(index)}"
                self.atomic(operation, pointer, address, self.bare(value))
            case imp.Ticket(var, pointer):
                self.frame.declared.add(var.name)
                self.ticket(f"const {self.type(var.dtype)} {var.name}", self.name(pointer))
            case imp.Receive(var, pointer, index):
                self.frame.declared.add(var.name)
                element = f"{self.name(pointer)}[{self.bare(index)}]"
                self.receive(self.type(var.dtype), var.name, element)
            case _:
                assert_never(statement)

    def is_spare(self, condition: imp.Expr) -> bool:
        """Whether a text that is quick to compile does without what stands under a condition."""
        match condition:
            case imp.Optimised():
                return self.dialect.optimised != "1"
            case imp.Var(name):
                return name in self.spare
            case imp.Machine("&&", left, right):
                return self.is_spare(left) or self.is_spare(right)
            case _:
                return False

    def only_optimised(
        self, condition: imp.Expr, then: tuple[imp.Stmt, ...], otherwise: tuple[imp.Stmt, ...]
    ) -> None:
        """A branch whose first way compilers do not even read where it is not wanted."""
        self.line(f"#if {self.dialect.optimised}")
        if isinstance(condition, imp.Optimised):
            self.braced(then)
            if otherwise:
                self.line("#else")
                self.braced(otherwise)
            self.line("#endif")
            return
        self.line(f"if ({self.bare(condition)}) {{")
        self.block(then)
        self.line("} else" if otherwise else "}")
        self.line("#endif")
        if otherwise:
            self.braced(otherwise)

    def braced(self, body: tuple[imp.Stmt, ...]) -> None:
        self.line("{")
        self.block(body)
        self.line("}")

    def loop(self, loop: imp.For) -> None:
        var = loop.var.name
        self.frame.declared.add(var)
        if loop.simd:
            reductions = "".join(
                f" reduction({operator}:{self.name(v)})" for operator, v in loop.reductions
            )
            lanes = f" simdlen({loop.lanes})" if loop.lanes else ""
            several = loop.unroll > 1
            unroll = self.dialect.unroll_simd.format(count=loop.unroll) if several else ""
            line = self.dialect.simd.format(lanes=lanes, reductions=reductions, unroll=unroll)
            self.line(line)
        elif loop.unroll != 1:
            self.line(self.dialect.unroll.format(count=max(loop.unroll, 1)))
        step = f"{var}++" if loop.step == 1 else f"{var} += {loop.step}"
        type_ = self.type(loop.var.dtype)
        lower, upper = self.bare(loop.lower), self.expr(loop.upper)
        self.line(f"for ({type_} {var} = {lower}; {var} < {upper}; {step}) {{")
        self.block(loop.body)
        self.line("}")

    # ------------------------------------------------------------ what a dialect decides

    def view(self, view: imp.View) -> None:
        raise NotImplementedError

    def choose(self, choose: imp.Choose) -> None:
        raise NotImplementedError

    def advance(self, pointer: imp.Pointer, address: str) -> None:
        raise NotImplementedError

    def load_vector(self, near: str, address: str, dtype: DType, lanes: int) -> None:
        raise NotImplementedError

    def store_vector(self, address: str, near: str, dtype: DType, lanes: int) -> None:
        raise NotImplementedError

    def flush(self, to: str, source: str, size: str, ends: str) -> None:
        raise NotImplementedError

    def roots(self, near: str, count: str) -> None:
        raise NotImplementedError

    def columns(self, copied: imp.Columns) -> None:
        raise NotImplementedError

    def prefetch(self, address: str) -> None:
        raise NotImplementedError

    def parallel(self, parallel: imp.Parallel) -> None:
        raise NotImplementedError

    def shared_array(self, type_: str, name: str, extent: int) -> None:
        raise NotImplementedError

    def local_array(self, type_: str, name: str, extent: int) -> None:
        self.line(f"{type_} {name}[{extent}];")

    def barrier(self) -> None:
        raise NotImplementedError

    def poll(self) -> None:
        raise NotImplementedError

    def fail(self, code: int, index: str, extent: str, stays: bool) -> None:
        raise NotImplementedError

    def wait(self, address: str, value: str) -> None:
        raise NotImplementedError

    def publish(self, address: str, value: str) -> None:
        raise NotImplementedError

    def lock(self, address: str) -> None:
        raise NotImplementedError

    def atomic(self, operation: str, pointer: imp.Pointer, address: str, value: str) -> None:
        raise NotImplementedError

    def ticket(self, declared: str, pointer: str) -> None:
        raise NotImplementedError

    def receive(self, type_: str, name: str, element: str) -> None:
        raise NotImplementedError


def _integer(value: int, dtype: DType, long: str) -> str:
    if value == -(2**63):
        return f"(-9223372036854775807{long} - 1)"
    if dtype is DType.U64:
        return f"{value}U{long}"
    if dtype is DType.U32:
        return f"{value}U"
    text = f"{value}{long}" if abs(value) >= 2**31 else str(value)
    return f"({text})" if value < 0 else text


def _enclosed(text: str) -> bool:
    """Whether the first parenthesis closes at the very end."""
    if not text.startswith("("):
        return False
    depth = 0
    for position, character in enumerate(text):
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if depth == 0:
                return position == len(text) - 1
    return False
