"""unroll_short: several vectors a round, in a simd loop that has little in it.

    for simd j from a to b { let x = p[j]; q[j] = add(x, x) }
 => for simd j from a to b unroll 4 { let x = p[j]; q[j] = add(x, x) }

Removes: most of the counting and jumping, which such a loop otherwise does as much of as of its
    own work. (One vector of `a + b` a round took PoCL 3.1 2.4 times as long, or not, by where in a
    line of instructions its loop came to lie.)
Requires: nothing; it is for compilers that do not do so of themselves.
Ensures: the same operations, in the same order. Loops of a known number of rounds, if they are
    many, are left to the compiler.
"""

from __future__ import annotations

from dataclasses import replace

from weft.imp import nodes as imp
from weft.imp.walk import holds

ROUNDS = 4
FEW = 32
"""Rounds, known in number, that are unrolled all: so arrays at known places stay in registers."""
LARGEST = 8
"""Statements of a loop's body: with more, its own instructions are not felt."""


def unroll_short(statements: tuple[imp.Stmt, ...]) -> tuple[imp.Stmt, ...]:
    """The statements, with short simd loops inside of them marked."""
    return tuple(map(_statement, statements))


def _statement(statement: imp.Stmt) -> imp.Stmt:
    match statement:
        case imp.For(simd=True) if 0 < _rounds(statement) <= FEW:
            return replace(statement, unroll=_rounds(statement))
        case imp.For(simd=True) if _is_short(statement):
            return replace(statement, unroll=ROUNDS)
        case imp.For() | imp.While() | imp.Parallel():
            return replace(statement, body=unroll_short(statement.body))
        case imp.If(_, then, otherwise):
            return replace(statement, then=unroll_short(then), otherwise=unroll_short(otherwise))
        case _:
            return statement


def _rounds(loop: imp.For) -> int:
    """Its known number of rounds; 0 for another."""
    match loop:
        case imp.For(_, imp.Const(lower), imp.Const(upper)):
            return int(upper.real - lower.real)
        case _:
            return 0


def _is_short(loop: imp.For) -> bool:
    few = len(loop.body) <= LARGEST
    return few and not _rounds(loop) and not holds(loop.body, imp.For | imp.While)
