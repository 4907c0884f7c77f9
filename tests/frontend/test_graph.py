"""Extents, guards and keys: what makes two graphs the same program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft as wf
from weft.frontend.extent import constant, variable
from weft.frontend.guards import forget_guards, recording, take_guards
from weft.frontend.key import graph_key
from weft.frontend.trace import trace
from weft.fun import nodes as fun
from weft.fun.show import show
from weft.functions.library_calls import is_within


@pytest.fixture(autouse=True)
def _nothing_is_decided() -> None:
    """What other tests have decided of sizes belongs to the next node."""
    forget_guards()


def key(*arrays: Any) -> Any:
    return graph_key([array._node for array in arrays]).key


def ones(*shape: int, dtype: str = "f8") -> wf.Array:
    return wf.asarray(np.ones(shape, dtype))


def test_sizes_take_no_part_in_the_key() -> None:
    def program(n: int, m: int) -> wf.Array:
        x = ones(n, m)
        return ((x + ones(m)) * 2).sum(axis=0)

    assert key(program(3, 4)) == key(program(5, 2))
    assert key(program(3, 4)) != key(program(3, 1))
    assert key(program(1, 4)) != key(program(3, 4))
    assert key(ones(3) + ones(3)) != key(ones(3) + ones(3, dtype="f4"))
    assert key(ones(3) + 1.0) == key(ones(4) + 1.0) != key(ones(3) + 2.0)
    assert key(ones(3) * 0.1) == key(ones(3) * 0.2)  # data, not part of the program
    x = ones(3)
    assert key(x + x) != key(ones(3) + ones(3))


def test_windows_in_a_loop_are_one_program() -> None:
    x = ones(1000)
    keys = {key(x[start : start + 100].sum()) for start in range(20, 800, 90)}
    assert len(keys) == 1
    assert key(x[20:2000].sum()) not in keys  # beyond the end: another program


def test_decisions_take_part_in_the_key() -> None:
    def program(n: int) -> wf.Array:
        x = ones(n)
        return x[1:] + ones(3)  # of one element: repeats

    assert key(program(4)) != key(program(2))
    np.testing.assert_array_equal(program(2).numpy(), np.full(3, 2.0))


def test_equal_extents_are_one_size() -> None:
    traced = trace([(ones(3, 4) @ ones(4, 5) + ones(3, 5))._node])
    assert len(traced.program.sizes) == 3
    assert traced.program.facts == ()
    x, y, z = (param.type for param in traced.program.params)
    assert isinstance(x, fun.Array)
    assert isinstance(y, fun.Array)
    assert isinstance(z, fun.Array)
    assert x.shape[1] == y.shape[0]
    assert z.shape == (x.shape[0], y.shape[1])


def test_divided_sizes_are_derived_once() -> None:
    x, y = ones(9), ones(9)
    program = trace([(x[::2] + y[::2])._node]).program
    assert len(program.sizes) == 2  # of 9 or 10 elements, each for itself
    assert len(program.derived) == 1
    program = trace([(x[::2] + (x + y)[::2])._node]).program
    assert (len(program.sizes), len(program.derived)) == (1, 1)


def test_programs_are_the_same_on_every_run() -> None:
    def text() -> str:
        x = ones(3, 4)
        return show(trace([((x - x.mean(axis=0)) / x.std(axis=0))._node]).program)

    assert text() == text()


def test_a_chain_of_elementwise_operations_is_one_kernel() -> None:
    x = ones(3, 4)
    program = trace([(wf.exp(x * 2 + 1) - x)._node]).program
    assert [type(let.expr) for let in program.body.statements] == [fun.Kernel]


def test_a_deep_graph_is_no_deep_recursion() -> None:
    x = ones(3)
    for _ in range(3000):
        x = x + 1.0
    np.testing.assert_array_equal(x.numpy(), np.full(3, 3001.0))


@given(st.integers(2, 50), st.integers(2, 50), st.integers(-5, 5))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_extents_count_as_ints(a: int, b: int, c: int) -> None:
    with recording() as guards:
        n, m = variable(a), variable(b)
        values = {n.poly.variable or "": a, m.poly.variable or "": b}
        for found, expected in [
            (n + m - c, a + b - c),
            (n * m + c * n, a * b + c * a),
            (c - n, c - a),
            (-(n**2), -(a**2)),
            ((n * 6) // 3, a * 2),
            (n // m, a // b),
            ((n + c) % m, (a + c) % b),
            (divmod(n, 3)[1], a % 3),
        ]:
            assert found.value == expected
            known = dict(values)
            for entry in found.derived:
                known[entry.name] = entry.evaluate(known)
            assert found.poly.evaluate(known) == expected
        assert (n < m) == (a < b)
        assert (n == m) == (a == b)
        assert (n >= m + c) == (a >= b + c)
        assert bool(n - m) == (a != b)
        assert int(n) == a
        assert all(guard.fact.holds(values) for guard in guards)
        assert any(guard.fact.relation == "==0" for guard in guards)  # int(n)


def test_what_holds_of_all_sizes_is_no_guard() -> None:
    with recording() as guards:
        n = variable(7)
        assert all([n > 1, n >= 2, n + 3 > n, 2 * n >= n + 2, n != 0])
        assert [constant(4), range(constant(3))[-1]] == [4, 2]
    assert len(guards) == 1  # n != 0 alone is recorded as it is


def test_guards_of_a_failed_operation_are_forgotten() -> None:
    x = ones(5)
    with pytest.raises(ValueError, match="broadcast"):
        x[2:40] + ones(4)
    assert not take_guards()
    assert key(x + 1.0) == key(ones(6) + 1.0)


def test_decisions_of_what_made_no_node_are_known_of_what_takes_them() -> None:
    x, y, z = (wf.asarray(np.arange(float(n))) for n in (20, 20, 30))
    wf.broadcast_arrays(x, y)  # x and y are of one length, which the next node takes for a fact
    assert key(wf.concat([x, y])) != key(wf.concat([x, z]))
    wf.broadcast_arrays(x, y)
    np.testing.assert_array_equal(wf.concat([x, y]), np.concatenate([x, y]))
    np.testing.assert_array_equal(wf.concat([x, z]), np.concatenate([x, z]))


def test_who_asks_for_a_scope_takes_no_decisions() -> None:
    x = ones(20)
    wf.broadcast_arrays(x, ones(20))
    assert not is_within(x._node)
    assert take_guards()


def test_decisions_about_other_arrays_do_no_harm() -> None:
    for _ in range(2):
        wf.diff(ones(3, 4, 5), n=9)  # ends with a decision
        np.testing.assert_array_equal(wf.clip(ones(3, 4, 5), 2, 3), np.full((3, 4, 5), 2.0))
    with pytest.raises(IndexError):
        ones(20, 3)[8, 5]
    np.testing.assert_array_equal(ones(20, 3) - 1.0, np.zeros((20, 3)))
    np.testing.assert_array_equal(ones(20, 3) - 1.0, np.zeros((20, 3)))
