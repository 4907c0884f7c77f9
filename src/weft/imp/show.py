"""IMP as text (the grammar is in `weft.imp.nodes`)."""

from __future__ import annotations

from typing import assert_never

from weft.imp import nodes as imp
from weft.ops.dtypes import DType

INDENT = "  "


def show(program: imp.Program) -> str:
    """The program's text, which is for reading."""
    names = ", ".join(var.name for var in program.integers)
    lines = [f"program {program.name}({program.buffers} buffers; {names}) {{"]
    for statement in program.body:
        _statement(statement, 1, lines)
    return "\n".join([*lines, "}", ""])


def show_expr(expr: imp.Expr) -> str:
    match expr:
        case imp.Const(value, dtype):
            return f"{value}" if dtype.value in ("i64", "bool") else f"{value}_{dtype}"
        case imp.Var(name):
            return name
        case imp.Apply(operation, arguments):
            return f"{operation}({', '.join(map(show_expr, arguments))})"
        case imp.Cast(dtype, argument):
            return f"{dtype}({show_expr(argument)})"
        case imp.Machine("min" | "max" as operator, left, right):
            return f"{operator}({show_expr(left)}, {show_expr(right)})"
        case imp.Machine(operator, left, right):
            return f"({show_expr(left)} {operator} {show_expr(right)})"
        case imp.Select(condition, then, otherwise):
            return f"select({', '.join(map(show_expr, (condition, then, otherwise)))})"
        case imp.Load(pointer, index):
            return f"{pointer.name}[{show_expr(index)}]"
        case imp.Rounded(argument):
            return f"rounded({show_expr(argument)})"
        case imp.Optimised():
            return "optimised"
        case _:
            assert_never(expr)


def _block(statements: tuple[imp.Stmt, ...], depth: int, lines: list[str]) -> None:
    for statement in statements:
        _statement(statement, depth + 1, lines)


def _statement(statement: imp.Stmt, depth: int, lines: list[str]) -> None:
    def line(text: str) -> None:
        lines.append(INDENT * depth + text)

    match statement:
        case imp.Declare(var, value, mutable):
            word = "var" if mutable else "let"
            text = "" if value is None else f" = {show_expr(value)}"
            line(f"{word} {var.name}: {var.dtype}{text}")
        case imp.Assign(var, value):
            line(f"{var.name} = {show_expr(value)}")
        case imp.Store(pointer, index, value):
            line(f"{pointer.name}[{show_expr(index)}] = {show_expr(value)}")
        case imp.View(pointer, block, offset, alone):
            place = "workspace" if block < 0 else f"buffer {block}"
            shared = "" if alone else " shared"
            line(f"view {pointer.name}: {pointer.dtype} = {place} + {show_expr(offset)}{shared}")
        case imp.Local(pointer, extent):
            line(f"local {pointer.name}: {pointer.dtype}[{extent}]")
        case imp.Shared(pointer, extent):
            line(f"shared {pointer.name}: {pointer.dtype}[{extent}]")
        case imp.Barrier():
            line("barrier")
        case imp.Choose(pointer, condition, near, far, index, in_line):
            where = f"{near.name} in line" if in_line else near.name
            chosen = f"{show_expr(condition)} ? {where} : {far.name} + {show_expr(index)}"
            line(f"choose {pointer.name}: {pointer.dtype} = {chosen}")
        case imp.Advance(pointer, base, index):
            line(f"advance {pointer.name} = {base.name} + {show_expr(index)}")
        case imp.LoadVector(near, pointer, index, lanes):
            line(f"load {lanes} of {pointer.name}[{show_expr(index)}] to {near.name}")
        case imp.StoreVector(pointer, index, near, lanes):
            line(f"store {lanes} of {near.name} to {pointer.name}[{show_expr(index)}]")
        case imp.Flush(pointer, index, near, count, first, last):
            flushed = f"{near.name}, {show_expr(count)}"
            for word, end in (("first", first), ("last", last)):
                if end != imp.Const(True, DType.BOOL):
                    flushed += f" {word} {show_expr(end)}"
            line(f"flush {pointer.name}[{show_expr(index)}] = {flushed}")
        case imp.Roots(near, count):
            line(f"roots of {near.name}, {show_expr(count)}")
        case imp.Columns(target, at, between, source, index, apart, step, columns, records):
            to = f"{target.name}[{show_expr(at)}] {show_expr(between)}"
            of = f"{source.name}[{show_expr(index)}] {show_expr(apart)} {show_expr(step)}"
            line(f"columns {to} = {columns} of {show_expr(records)} records in {of}")
        case imp.Prefetch(pointer, index):
            line(f"prefetch {pointer.name}[{show_expr(index)}]")
        case imp.If(condition, then, otherwise):
            line(f"if {show_expr(condition)} {{")
            _block(then, depth, lines)
            if otherwise:
                line("} else {")
                _block(otherwise, depth, lines)
            line("}")
        case imp.For(var, lower, upper, body, step, simd, reductions, unroll, lanes, in_turn):
            words = f" step {step}" if step != 1 else ""
            words += " simd" if simd else ""
            words += f" {lanes}" if lanes else ""
            words += f" unroll {unroll}" if unroll != 1 else ""
            words += "".join(f" {operator} {v.name}" for operator, v in reductions)
            words += f" in turn if {show_expr(in_turn)}" if in_turn is not None else ""
            line(f"for {var.name} from {show_expr(lower)} to {show_expr(upper)}{words} {{")
            _block(body, depth, lines)
            line("}")
        case imp.While(condition, body):
            line(f"while {show_expr(condition)} {{")
            _block(body, depth, lines)
            line("}")
        case imp.Break():
            line("break")
        case imp.Parallel(tile, thread, tiles, body, ordered):
            word = " ordered" if ordered else ""
            line(f"parallel {tile.name} {thread.name} below {show_expr(tiles)}{word} {{")
            _block(body, depth, lines)
            line("}")
        case imp.Poll():
            line("poll")
        case imp.Fail(code, index, extent, stays):
            stay = " stay" if stays else ""
            line(f"fail {code} {show_expr(index)} {show_expr(extent)}{stay}")
        case imp.Await(pointer, index, value):
            line(f"await {pointer.name}[{show_expr(index)}] {show_expr(value)}")
        case imp.Publish(pointer, index, value):
            line(f"publish {pointer.name}[{show_expr(index)}] {show_expr(value)}")
        case imp.Lock(pointer, index):
            line(f"lock {pointer.name}[{show_expr(index)}]")
        case imp.Atomic(operation, pointer, index, value):
            line(f"atomic {pointer.name}[{show_expr(index)}] {operation} {show_expr(value)}")
        case imp.Ticket(var, pointer):
            line(f"let {var.name} = ticket {pointer.name}")
        case imp.Receive(var, pointer, index):
            line(f"let {var.name} = receive {pointer.name}[{show_expr(index)}]")
        case _:
            assert_never(statement)
