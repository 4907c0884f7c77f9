"""Simd loops that count from 0, and pointers to where their rows begin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import InternalError
from weft.imp import nodes as imp
from weft.imp.check import check
from weft.imp.interpret import interpret
from weft.imp.nodes import machine
from weft.imp.point_to_rows import point_to_rows
from weft.imp.show import show
from weft.imp.walk import walked
from weft.ops.dtypes import DType

A, B, J, K, T, U = (imp.Var(name, DType.I64) for name in ("a", "b", "j", "k", "t", "u"))
X = imp.Var("x", DType.F64)
P, Q = (imp.Pointer(name, DType.F64) for name in "pq")
I = imp.Pointer("i", DType.I64)  # noqa: E741
EXTENT = 64
_FIRST = imp.Load(I, imp.ZERO)


def program(*body: imp.Stmt, volatile: bool = False, **loop: Any) -> imp.Program:
    """A simd loop over j from a to b, in which p, q and i are memory, and k and t are known."""
    settings: dict[str, Any] = {"lower": A, "simd": True, **loop}
    row = imp.For(J, settings.pop("lower"), B, body, **settings)
    views = (
        imp.View(P, 0, imp.ZERO, alone=False, volatile=volatile),
        imp.View(Q, 1, imp.ZERO), imp.View(I, 2, imp.ZERO),
    )  # fmt: skip
    known = imp.Declare(T, imp.ZERO, mutable=True)
    return imp.Program("rows", 3, (A, B, K), (*views, known, row))


def changed(given: imp.Program) -> imp.Program:
    return imp.Program(given.name, given.buffers, given.integers, point_to_rows(given.body))


def run(given: imp.Program, a: int, b: int, k: int) -> bytes:
    check(given)
    p, q = np.random.default_rng(1).random((2, EXTENT))
    buffers = [x.view(np.uint8) for x in (p, q, np.arange(4))]
    assert interpret(given, [*buffers, np.zeros(8, np.uint8)], [a, b, k])[0] == 0
    return p.tobytes() + q.tobytes()


def copy(index: imp.Expr, target: imp.Expr = J) -> tuple[imp.Stmt, ...]:
    return imp.Declare(X, imp.Load(P, index)), imp.Store(Q, target, X)


def test_shown() -> None:
    at = machine("+", K, J)
    body = (
        imp.Declare(X, imp.Load(P, machine("-", at, imp.integer(2)))),
        imp.Store(Q, J, imp.Apply("add", (X, imp.Load(P, at)), DType.F64)),
    )
    assert show(changed(program(*body))).splitlines()[-8:-2] == [
        "  advance p_j_0 = p + (a + (k + -2))",
        "  advance q_j_1 = q + a",
        "  advance p_j_2 = p + (a + k)",
        "  for j_past from 0 to (b - a) simd {",
        "    let x: f64 = p_j_0[j_past]",
        "    q_j_1[j_past] = add(x, p_j_2[j_past])",
    ]


@given(data=st.data())
def test_same_elements(data: st.DataObject) -> None:
    terms = [J, *data.draw(st.lists(st.sampled_from((K, imp.ONE, imp.integer(3))), max_size=3))]
    index: imp.Expr = imp.ZERO
    for term in data.draw(st.permutations(terms)):
        index = machine("+", index, term)
    if data.draw(st.booleans()):
        index = machine("-", index, data.draw(st.sampled_from((K, imp.ONE))))
    a, length, k = (data.draw(st.integers(2, 9)) for _ in range(3))
    k = min(k, a)  # so that an index that is less by it is there
    given_ = program(*copy(index), lower=data.draw(st.sampled_from((A, imp.integer(9)))))
    after = changed(given_)
    assert any(isinstance(s, imp.Advance) for s in after.body)
    assert run(after, a, a + length, k) == run(given_, a, a + length, k)


def test_what_is_before_the_memory_begins() -> None:
    """A pointer to p - k is never followed there."""
    given_ = program(*copy(machine("-", J, K)))
    assert run(changed(given_), 30, 35, 28) == run(given_, 30, 35, 28)


def test_the_loop_s_own_index_as_a_value() -> None:
    body = imp.Store(I, machine("-", J, A), J)
    after = changed(program(body))
    assert run(after, 5, 9, 0) == run(program(body), 5, 9, 0)
    assert "(a + j_past)" in show(after)


@pytest.mark.parametrize(
    "given_",
    [
        program(*copy(machine("*", J, imp.integer(2)), machine("*", J, imp.integer(2)))),
        program(imp.Declare(U, machine("+", J, J)), *copy(machine("+", J, U), machine("+", U, J))),
        program(imp.Assign(T, J), *copy(machine("+", J, T), machine("+", T, J))),
        program(*copy(machine("+", J, _FIRST), machine("+", _FIRST, J))),
        program(*copy(machine("-", K, J), machine("-", K, J))),
        program(imp.Declare(X, imp.Load(P, J)), volatile=True),
        program(*copy(J), simd=False),
        program(*copy(J), step=2),
        program(imp.For(U, imp.ZERO, K, copy(machine("+", J, U)))),
    ],
    ids=["stride", "declared", "assigned", "loaded", "backwards", "volatile", "plain", "steps",
         "loops inside"],
)  # fmt: skip
def test_left_alone(given_: imp.Program) -> None:
    check(given_)
    assert changed(given_) == given_


def test_inside_of_others() -> None:
    """Every loop that qualifies, wherever it stands."""
    inner = program(*copy(J)).body[-1]
    around = imp.While(imp.Const(True, DType.BOOL), (imp.If(machine("<", A, B), (inner,)),))
    views = program().body[:2]
    after = point_to_rows((*views, around))
    assert sum(isinstance(s, imp.Advance) for s in walked(after)) == 2


def test_advanced_from_what_was_advanced() -> None:
    first, second = (imp.Pointer(name, DType.F64) for name in ("first", "second"))
    body = (
        imp.Advance(first, P, imp.integer(7)), imp.Advance(second, first, imp.integer(-2)),
        imp.Store(second, imp.ONE, imp.Const(4.5, DType.F64)),
    )  # fmt: skip
    two = imp.Program("two", 3, (A, B, K), (*program().body[:3], *body))
    found = np.frombuffer(run(two, 0, 0, 0))
    assert found[6] == 4.5
    beyond = imp.Program("beyond", 3, (), (*program().body[:3], imp.Advance(first, P, K)))
    with pytest.raises(InternalError, match="k"):
        check(beyond)


def test_text(golden: Callable[[str], None]) -> None:
    at = machine("+", machine("*", K, imp.integer(8)), J)
    before = program(
        imp.Declare(X, imp.Load(P, machine("-", at, imp.ONE))),
        imp.Store(Q, at, imp.Apply("add", (X, imp.Load(P, machine("+", at, imp.ONE))), DType.F64)),
    )
    golden("\n".join(map(show, (before, changed(before)))))
