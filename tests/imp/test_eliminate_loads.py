"""Loads of what is known, and stores that are overwritten: which go, and which stay."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from weft.imp import nodes as imp
from weft.imp.eliminate_loads import eliminate_loads
from weft.imp.nodes import machine
from weft.imp.show import show
from weft.imp.walk import inside
from weft.ops.dtypes import DType

HERE, ELSE = (imp.Var(name, DType.I64) for name in "ij")
A, B = (imp.Pointer(name, DType.F64) for name in "ab")
T, U, V, X = (imp.Var(name, DType.F64) for name in "tuvx")
NEXT = machine("+", HERE, imp.ONE)

Statements = tuple[imp.Stmt, ...]


def twice(between: Statements = ()) -> Statements:
    """b[i] = a[i] + a[i], with something between the two loads."""
    return (
        imp.Declare(T, imp.Load(A, HERE)), *between, imp.Declare(U, imp.Load(A, HERE)),
        imp.Declare(V, imp.Apply("add", (T, U), DType.F64)), imp.Store(B, HERE, V),
    )  # fmt: skip


def loads(statements: Statements) -> int:
    return sum(isinstance(node, imp.Load) for node in inside(statements))


def stores(statements: Statements) -> int:
    return sum(isinstance(node, imp.Store) for node in statements)


@pytest.mark.parametrize(
    ("between", "alone", "expected"),
    [
        ((), "", 1),
        ((imp.Store(A, NEXT, X),), "", 1),  # beside it
        ((imp.Store(A, ELSE, X),), "", 2),  # perhaps there
        ((imp.Store(A, machine("+", ELSE, imp.ONE), X),), "", 2),
        ((imp.Store(A, HERE, X),), "", 1),  # there: the second one is x
        ((imp.Store(B, HERE, X),), "", 2),  # perhaps the same memory
        ((imp.Store(B, HERE, X),), "a", 1),
        ((imp.Store(B, HERE, X),), "b", 1),
    ],
)
def test_loads(between: Statements, alone: str, expected: int) -> None:
    assert loads(eliminate_loads(twice(between), alone)) == expected


def test_what_was_stored_is_not_loaded() -> None:
    made = eliminate_loads(
        (imp.Store(A, HERE, X), imp.Declare(T, imp.Load(A, HERE)), imp.Store(B, HERE, T))
    )
    assert made == (imp.Store(A, HERE, X), imp.Store(B, HERE, X))


def test_places_are_compared_by_what_their_names_stand_for() -> None:
    first, second = (imp.Declare(imp.Var(name, DType.I64), NEXT) for name in ("f", "s"))
    other = imp.Declare(imp.Var("s", DType.I64), machine("+", ELSE, imp.ONE))
    use = imp.Store(B, HERE, imp.Apply("add", (T, U), DType.F64))
    for index, expected in ((second, 1), (other, 2)):
        body = (first, imp.Declare(T, imp.Load(A, first.var)), index,
                imp.Declare(U, imp.Load(A, index.var)), use)  # fmt: skip
        assert loads(eliminate_loads(body)) == expected


@pytest.mark.parametrize(
    ("between", "alone", "expected"),
    [
        ((), "", 1),
        ((imp.Store(A, NEXT, X),), "", 2),
        ((imp.Declare(T, imp.Load(A, NEXT)),), "", 1),
        ((imp.Declare(T, imp.Load(A, ELSE)),), "", 2),  # perhaps reads it
        ((imp.Declare(T, imp.Load(B, HERE)),), "", 2),
        ((imp.Declare(T, imp.Load(B, HERE)),), "a", 1),
    ],
)
def test_stores_that_are_overwritten(between: Statements, alone: str, expected: int) -> None:
    body = (imp.Store(A, HERE, X), *between, imp.Store(A, HERE, V))
    made = eliminate_loads(body, alone)
    assert stores(made) == expected
    assert made[-1] == imp.Store(A, HERE, V)


def test_text(golden: Callable[[str], None]) -> None:
    """What one round stores the next one knows; the first store to a[i + 1] is overwritten."""
    body = (
        imp.Store(A, NEXT, T), *twice((imp.Store(A, NEXT, X),)),
        imp.Declare(imp.Var("w", DType.F64), imp.Load(A, NEXT)),
        imp.Store(A, ELSE, imp.Var("w", DType.F64)),
    )  # fmt: skip
    shown = [
        show(imp.Program("twice", 2, (HERE, ELSE), made)) for made in (body, eliminate_loads(body))
    ]
    golden("\n".join(shown))
