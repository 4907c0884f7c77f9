"""Renaming the blocks of a FUNMEM program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.mem.nodes import MemArray, Program


def rename_blocks(program: Program, names: Mapping[str, str]) -> Program:
    """The program with its arrays in other blocks; the list of blocks stays."""

    def binder(var: fun.Var) -> fun.Var:
        type_ = var.type
        if isinstance(type_, MemArray) and type_.block in names:
            return fun.Var(var.name, replace(type_, block=names[type_.block]))
        return var

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
