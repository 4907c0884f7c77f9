"""Loops that are unrolled and jammed: what is, with the same bits, and what is left alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from weft.imp import nodes as imp
from weft.imp.check import check
from weft.imp.interpret import _Run, interpret
from weft.imp.nodes import machine
from weft.imp.show import show
from weft.imp.unroll_and_jam import LARGEST, unroll_and_jam
from weft.ops.dtypes import DType

A, B, E, ROUND, J, L, K, M, N = (imp.Var(name, DType.I64) for name in "abeijlkmn")
P, Q, S = (imp.Pointer(name, DType.F64) for name in "pqs")
T, X, Y = (imp.Var(name, DType.F64) for name in "txy")
WIDTH = 8


def added(index: imp.Expr = L, *, target: imp.Pointer = S, read: imp.Expr | None = None) -> Any:
    """target[index] = target[index] + p[k + l], k being where the round's row begins."""
    return (
        imp.Declare(T, imp.Load(target, index if read is None else read)),
        imp.Declare(X, imp.Load(P, machine("+", K, L))),
        imp.Declare(Y, imp.Apply("add", (T, X), DType.F64)),
        imp.Store(target, index, Y),
    )


def nan_asked(value: imp.Var) -> tuple[imp.Stmt, ...]:
    """s[l] = p[k + l] where a value is NaN, else s[l] + p[k + l]."""
    unequal, chosen = imp.Var("unequal", DType.BOOL), imp.Var("chosen", DType.F64)
    asked = imp.Declare(unequal, imp.Apply("not_equal", (value, value), DType.BOOL))
    kept = imp.Declare(chosen, imp.Select(unequal, X, Y))
    return (*added()[:3], asked, kept, imp.Store(S, L, chosen))


def rows(
    body: tuple[imp.Stmt, ...] | None = None, *, before: tuple[imp.Stmt, ...] = (),
    view: imp.View | None = None, upper: imp.Expr = M, **simd: Any,
) -> imp.Program:  # fmt: skip
    """The sums of the columns of p, of n rows, in s, which go to q."""
    lanes = imp.For(L, imp.ZERO, upper, added() if body is None else body, simd=True, **simd)
    start = imp.Declare(K, machine("*", ROUND, M))
    loop = imp.For(ROUND, imp.ZERO, N, (start, *before, lanes))
    fill = imp.For(J, imp.ZERO, imp.integer(2 * WIDTH), (imp.Store(S, J, imp.Const(0.5, S.dtype)),))
    k = imp.Var("last", DType.I64)
    copied = imp.For(k, imp.ZERO, M, (imp.Store(Q, k, imp.Load(S, k)),))
    made = (
        imp.View(P, 0, imp.ZERO), imp.View(Q, 1, imp.ZERO),
        imp.Local(S, 2 * WIDTH) if view is None else view, fill, loop, copied,
    )  # fmt: skip
    return imp.Program("sums", 2, (N, M), made)


def parts(
    body: tuple[imp.Stmt, ...] | None = None, *, upper: imp.Expr = M, begin: imp.Expr = B,
    end: imp.Expr | None = None, between: tuple[imp.Stmt, ...] = (), step: int = 2,
) -> imp.Program:  # fmt: skip
    """As `rows`, the lanes in parts of two, between which memory is asked for."""
    program = rows(body)
    last = machine("+", B, imp.integer(2))
    made = []
    for statement in program.body:
        if isinstance(statement, imp.For) and statement.var == ROUND:
            *before, lanes = statement.body
            assert isinstance(lanes, imp.For)
            lanes = replace(lanes, lower=begin, upper=E)
            ends = imp.Declare(E, machine("min", M, last) if end is None else end)
            asked = imp.Prefetch(P, machine("+", K, B))
            loop = imp.For(B, imp.ZERO, upper, (ends, asked, *between, lanes), step)
            statement = replace(statement, body=(*before, loop))
        made.append(statement)
    return replace(program, body=tuple(made))


def run(
    program: imp.Program, n: int, m: int, seed: int | None = None, optimised: bool = True
) -> bytes:
    p, q = np.random.default_rng(n if seed is None else seed).random((n, m)), np.zeros(m)
    workspace = np.full(4096, 255, np.uint8)
    buffers = [x.reshape(-1).view(np.uint8) for x in (p, q)]
    assert interpret(program, [*buffers, workspace], [n, m], optimised)[0] == 0
    return bytes(q.tobytes())


ACCEPTED: dict[str, imp.Program] = {
    "an array of the thread's own": rows(),
    "a view that is alone": rows(view=imp.View(S, -1, imp.ZERO)),
    "lanes that are moved": rows(added(machine("+", L, imp.integer(3)))),
    "prefetches before": rows(before=(imp.Prefetch(P, machine("+", K, M)),)),
    "loops of prefetches before": rows(
        before=(imp.For(A, imp.ZERO, M, (imp.Prefetch(P, machine("+", K, A)),)),)
    ),
    "a row that may be NaN": rows(nan_asked(X)),
    "lanes in parts": parts(),
    "parts of two lanes": parts(
        end=machine("+", B, imp.integer(2)), upper=machine("-", M, imp.ONE)
    ),
    "parts that begin elsewhere": parts(added(machine("+", L, imp.integer(3)))),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_rounds_are_jammed(name: str) -> None:
    program = ACCEPTED[name]
    jammed = unroll_and_jam(program)
    check(jammed)
    assert "_jammed" in show(jammed)
    for n in range(10):
        assert run(jammed, n, 5) == run(program, n, 5)
        assert run(jammed, n, 5, optimised=False) == run(program, n, 5)


REJECTED: dict[str, imp.Program] = {
    "a view that something else may reach": rows(view=imp.View(S, -1, imp.ZERO, alone=False)),
    "a view that others read meanwhile": rows(view=imp.View(S, -1, imp.ZERO, volatile=True)),
    "an element of the lane beside": rows(added(read=machine("+", L, imp.ONE))),
    "a place that a round decides": rows(added(machine("+", L, ROUND))),
    "a place that every second lane has": rows(added(machine("/", L, imp.integer(2)))),
    "a place that an element decides": rows(
        (imp.Declare(J, imp.Load(imp.Pointer("at", DType.I64), L)), *added(J))
    ),
    "lanes whose number a round decides": rows(upper=ROUND),
    "a read of it before the lanes": rows(
        before=(imp.Declare(imp.Var("z", DType.F64), imp.Load(S, imp.ZERO)),)
    ),
    "something that is not read": rows((*added()[1:2], imp.Store(S, L, X))),
    "parts whose number a round decides": parts(upper=ROUND),
    "parts that meet": parts(end=machine("min", M, machine("+", B, imp.integer(3)))),
    "parts that are longer than their step": parts(step=1),
    "parts that begin before": parts(begin=imp.ZERO),
    "parts that end anywhere": parts(end=M),
    "a part that ends where a round says": parts(
        end=machine("min", ROUND, machine("+", B, imp.integer(2)))
    ),
    "a place that a part decides": parts(added(machine("+", L, B))),
    "a read of it between parts": parts(
        between=(imp.Declare(imp.Var("z", DType.F64), imp.Load(S, imp.ZERO)),)
    ),
    "lanes that are reduced": rows(reductions=(("max", imp.Var("worst", DType.I64)),)),
    "a value that changes": rows((imp.Declare(Y, None, mutable=True), *added()[:2])),
    "what is asked if it is NaN, of the round before": rows(nan_asked(T)),
    "more than registers hold": rows(
        (*(imp.Declare(imp.Var(f"z{k}", DType.F64), T) for k in range(LARGEST)), *added())
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REJECTED)
def test_left_alone(name: str) -> None:
    assert unroll_and_jam(REJECTED[name]) == REJECTED[name]


@pytest.mark.parametrize("columns", [4, 5])
def test_rounds_that_are_better_done_in_turn(columns: int) -> None:
    """Where that holds, rounds are not jammed: lanes are stored once a round, not once for four."""
    program = rows()
    few = machine("<", M, imp.integer(5))
    loops = [
        replace(statement, in_turn=few)
        if isinstance(statement, imp.For) and statement.var == ROUND else statement
        for statement in program.body
    ]  # fmt: skip
    jammed = unroll_and_jam(replace(program, body=tuple(loops)))
    check(jammed)
    assert "in turn" not in show(jammed)
    stores = 0

    class Counting(_Run):
        def statement(self, statement: imp.Stmt) -> None:
            nonlocal stores
            stores += isinstance(statement, imp.Store) and statement.index != J
            super().statement(statement)

    p, q = np.random.default_rng(1).random((9, columns)), np.zeros(columns)
    run_ = Counting([x.reshape(-1).view(np.uint8) for x in (p, q)] + [np.zeros(4096, np.uint8)])
    run_.scalars.update({N.name: np.int64(9), M.name: np.int64(columns)})
    run_.block(jammed.body)
    assert q.tobytes() == run(program, 9, columns, seed=1)
    assert stores == columns * (1 + (9 if columns < 5 else 3))


def test_text(golden: Any) -> None:
    """Four rounds: five loads and a store, which would be eight loads and four stores."""
    text = show(unroll_and_jam(ACCEPTED["prefetches before"]))
    golden(text)


def test_text_of_parts(golden: Any) -> None:
    """Each part asks for what four rounds read, and does them."""
    golden(show(unroll_and_jam(ACCEPTED["lanes in parts"])))
