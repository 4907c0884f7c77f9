"""Erase memory: FUNMEM to FUN."""

from __future__ import annotations

from weft.fun import nodes as fun
from weft.fun import walk
from weft.mem.nodes import MemArray, Program


def erase(program: Program) -> fun.Program:
    """The FUN program that a FUNMEM program annotates.

    Removes blocks and index functions. What is left means the same, and is the program
    that `introduce` was given, but for the copies that it had to insert.

        let b : f32[n] @ mem_0 + {(n : 1)} = copy a    =>    let b : f32[n] = copy a
    """
    whole = program.program
    params = tuple(map(_binder, whole.params))
    return fun.Program(
        whole.name, params, _body(whole.body), whole.sizes, whole.derived, whole.facts
    )


def _type(type_: fun.Type) -> fun.Type:
    return fun.Array(type_.dtype, type_.shape) if isinstance(type_, MemArray) else type_


def _binder(var: fun.Var) -> fun.Var:
    return fun.Var(var.name, _type(var.type)) if isinstance(var.type, MemArray) else var


def _atom(atom: fun.Atom) -> fun.Atom:
    return _binder(atom) if isinstance(atom, fun.Var) else atom


def _body(body: fun.Body) -> fun.Body:
    mapper = walk.Mapper(_atom, lambda size: size, _body, _binder)
    statements = tuple(
        fun.Let(tuple(map(_binder, let.pattern)), walk.map_expr(let.expr, mapper), let.place)
        for let in body.statements
    )
    return fun.Body(statements, tuple(map(_atom, body.results)))
