"""Changing where the arrays of a FUNMEM program are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.mem.nodes import MemArray, Program


def map_memory(program: Program, change: Callable[[MemArray], MemArray]) -> Program:
    """The program with every array of its body elsewhere; the list of blocks stays."""

    def binder(var: fun.Var) -> fun.Var:
        if not isinstance(var.type, MemArray):
            return var
        type_ = change(var.type)
        return var if type_ is var.type else fun.Var(var.name, type_)

    def atom(atom: fun.Atom) -> fun.Atom:
        return binder(atom) if isinstance(atom, fun.Var) else atom

    def body(old: fun.Body) -> fun.Body:
        statements = tuple(
            fun.Let(tuple(map(binder, let.pattern)), walk.map_expr(let.expr, mapper), let.place)
            for let in old.statements
        )
        return fun.Body(statements, tuple(map(atom, old.results)))

    mapper = walk.Mapper(atom, lambda size: size, body, binder)
    return replace(program, program=replace(program.program, body=body(program.program.body)))


def rename_blocks(program: Program, names: Mapping[str, str]) -> Program:
    """The program with its arrays and choices in other blocks; the list of blocks stays."""

    def renamed(type_: MemArray) -> MemArray:
        name = names.get(type_.block)
        return type_ if name is None else replace(type_, block=name)

    choices = tuple(
        replace(choice, blocks=tuple(names.get(name, name) for name in choice.blocks))
        for choice in program.choices
    )
    return replace(map_memory(program, renamed), choices=choices)
