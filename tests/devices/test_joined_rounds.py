"""Iterated stencils written by pieces, or by parts of arrays, move no more than others do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices.harness import device
from slow import some_slow

import weft as wf
from weft.runtime.devices.protocol import FAILURE_BYTES

ROUNDS, ROWS, COLUMNS = 12, 480, 130
_ALLOWANCE = 24 << 20  # for the program itself


def near(v: Any) -> Any:
    return 0.1 * (v[2:, 1:-1] + v[:-2, 1:-1] + v[1:-1, 2:] + v[1:-1, :-2] - 4 * v[1:-1, 1:-1])


def stencil(x: Any) -> Any:
    def step(a: Any) -> Any:
        return 0.1 * (a[1, 0] + a[-1, 0] + a[0, 1] + a[0, -1] - 4 * a[0, 0])

    return wf.iterate(lambda v: wf.stencil(step, v, boundary="keep"), x, ROUNDS)


def parts(x: Any) -> Any:
    return wf.iterate(lambda v: v.at[1:-1, 1:-1].set(near(v)), x, ROUNDS)


def added(x: Any) -> Any:
    return wf.iterate(lambda v: v.at[1:-1, 1:-1].add(near(v)), x, ROUNDS)


def pieces(x: Any) -> Any:
    def step(v: Any) -> Any:
        middle = wf.concat([v[1:-1, :1], near(v), v[1:-1, -1:]], axis=1)
        return wf.concat([v[1:2], middle, v[-2:-1] * 0.5])

    return wf.iterate(step, x, ROUNDS)


def turns(x: Any, y: Any) -> Any:
    def step(_: Any, state: Any) -> Any:
        before, older = state
        return older.at[1:-1, 1:-1].set(near(before)), before

    return wf.fori_loop(0, ROUNDS, step, (x, y))


WRITTEN: dict[str, tuple[Callable[..., Any], int]] = {
    function.__name__: (function, arrays)
    for function, arrays in ((stencil, 1), (parts, 1), (added, 1), (pieces, 1), (turns, 2))
}


def arrays_of(count: int) -> list[np.ndarray]:
    random = np.random.default_rng(7)
    return [random.random((ROWS, COLUMNS)) for _ in range(count)]


def results_of(found: Any) -> list[Any]:
    return list(found) if isinstance(found, tuple) else [found]


@pytest.mark.parametrize("name", some_slow(WRITTEN, ["added", "parts", "stencil"]))
def test_on_a_device_all_is_moved_once(name: str) -> None:
    on = device()
    function, count = WRITTEN[name]
    arrays = arrays_of(count)
    whole = sum(array.nbytes for array in arrays)
    run = wf.jit(function)
    expected = results_of(run(*arrays))
    with wf.config(devices=[on.name], memory_limit={on.name: arrays[0].nbytes // 2}):
        before = on.statistics.bytes_in, on.statistics.bytes_out
        found = results_of(run(*arrays))
        moved = on.statistics.bytes_in - before[0], on.statistics.bytes_out - before[1]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    for bytes_moved in moved:
        assert whole <= bytes_moved <= whole + 100 * FAILURE_BYTES


@pytest.mark.parametrize("name", WRITTEN)
def test_from_files_all_is_moved_once(name: str, tmp_path: Path) -> None:
    function, count = WRITTEN[name]
    arrays = arrays_of(count)
    expected = results_of(wf.jit(function)(*arrays))
    for number, array in enumerate(arrays):
        np.save(tmp_path / f"{number}.npy", array)
    with wf.config(memory_limit=_ALLOWANCE + arrays[0].nbytes // 2):
        made = results_of(function(*(wf.open(tmp_path / f"{n}.npy") for n in range(count))))
        targets = [tmp_path / f"result_{number}.npy" for number in range(count)]
        explanation = wf.explain(wf.store, made, targets)
        wf.store(made, targets)
    assert explanation.bytes_moved == 2 * sum(array.nbytes for array in arrays)
    for target, other in zip(targets, expected, strict=True):
        np.testing.assert_array_equal(np.load(target), other)


def test_assignments_to_parts_in_place() -> None:
    def heat(u: Any, rounds: int) -> None:
        for _ in range(rounds):
            u[1:-1, 1:-1] += 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2])

    on = device()
    (expected,), (found,) = arrays_of(1), arrays_of(1)
    run = wf.kernel(heat)
    run(expected, ROUNDS)
    with wf.config(devices=[on.name], memory_limit={on.name: found.nbytes // 2}):
        before = on.statistics.bytes_in, on.statistics.bytes_out
        run(found, ROUNDS)
        moved = on.statistics.bytes_in - before[0], on.statistics.bytes_out - before[1]
    np.testing.assert_array_equal(found, expected)
    for bytes_moved in moved:
        assert found.nbytes <= bytes_moved <= found.nbytes + 100 * FAILURE_BYTES


def test_pieces_that_lie_elsewhere_go_round_by_round() -> None:
    on = device()
    (x,) = arrays_of(1)
    run = wf.jit(
        lambda x: wf.iterate(lambda v: wf.concat([v[:1], wf.flip(v[1:] + v[:-1])]), x, ROUNDS)
    )
    expected = run(x)
    with wf.config(devices=[on.name], memory_limit={on.name: x.nbytes // 2}):
        assert "one by one: each needs what the one before gives" in str(wf.explain(run, x))
        np.testing.assert_array_equal(run(x), expected)
