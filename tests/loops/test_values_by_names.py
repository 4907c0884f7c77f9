"""Dictionaries, named tuples and dataclasses: as arguments, made in a kernel, given back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from loops.agree import agrees, same

import weft as wf
from weft.errors import UnsupportedError

X = np.random.default_rng(5).random(12)


class Pair(NamedTuple):
    step: Any
    count: Any


@dataclass
class Grid:
    step: float
    values: Any

    def area(self, scale: float = 1.0) -> Any:
        return self.step * self.values.sum() * scale

    @property
    def first(self) -> Any:
        return self.values[0] * 2


def constants(x: Any) -> Any:
    p = {"dt": 0.1, "nx": 5}
    for k in range(p["nx"]):
        x[k] += p["dt"]
    total = 0.0
    for name in p:
        total += p[name]
    for _, value in p.items():
        total += value
    return total + p.get("ny", 3) + len(p) + ("dt" in p)


def state(x: Any) -> Any:
    more = dict([("n", 2.0)], b=np.zeros(3))
    s = {"a": x, **more}
    s["c"] = x.sum()
    s["n"] += 1
    s["b"] += 1
    for i in range(len(x)):
        s["a"][i] *= s["n"]
        s["b"][i % 3] += i
    return s["b"], s["c"], s["a"] + 1


def made(x: Any) -> Any:
    pair = Pair(0.5, count=3)
    grid = Grid(pair.step, x)
    step, count = pair
    for k in range(pair.count):
        grid.values[k] += grid.step + pair[1]
    return step * count, pair._replace(count=7).count


def by_branch_and_loop(x: Any) -> Any:
    pair = Pair(x[0], 0)
    if x[1] > 0.1:
        pair = Pair(x[1], 1)
    last = Pair(pair.step, 0.0)
    for i in range(len(x)):
        last = Pair(last.step + x[i], last.count + 1.5)
    return last.step, pair.count, last.count


@pytest.mark.parametrize("function", [constants, state, made, by_branch_and_loop])
def test_values_by_names(function: Callable[..., Any]) -> None:
    agrees(function, X)


def used(x: Any, given: Any) -> Any:
    for k in range(given.count):
        x[k] += given.step[k]
        given.step[k] = 1


def methods(x: Any) -> Any:
    grid = Grid(0.5, x)
    return grid.area() + grid.area(scale=x[1]) + grid.first


def methods_of(grid: Any) -> Any:
    return grid.area(2.0) + grid.first


def test_methods() -> None:
    agrees(methods, X)
    found = wf.kernel(methods_of)(Grid(0.5, X))
    same(found, X.sum() + X[0] * 2, 1e-12)


def test_arguments() -> None:
    plain, compiled = X.copy(), X.copy()
    steps = [np.arange(12.0), np.arange(12.0)]
    used(plain, Pair(steps[0], 3))
    wf.kernel(used)(compiled, Pair(steps[1], 3))
    same(compiled, plain, 0)
    same(steps[1], steps[0], 0)


def given_back(x: Any) -> Any:
    return {"sum": x.sum(), "pair": Pair(x, 2)}, Grid(0.5, x * 2)


def test_results() -> None:
    x = X.copy()
    found, grid = wf.kernel(given_back)(x)
    assert found["pair"].step is x
    assert isinstance(found["pair"], Pair)
    assert found["pair"].count == 2
    same(found["sum"], x.sum(), 1e-12)
    assert isinstance(grid, Grid)
    same(grid.values, x * 2, 0)


def written_in_a_loop(x: Any) -> Any:
    p = {"t": 0.0}
    for i in range(len(x)):
        p["t"] += x[i]
    return p["t"]


def key_of_the_run(x: Any) -> Any:
    return {int(x[0]): 1}


@pytest.mark.parametrize(("function", "found"), [
    (written_in_a_loop, "a write to a dict in a loop"),
    (key_of_the_run, "a key of a dictionary that only the run knows"),
])  # fmt: skip
def test_refused(function: Callable[..., Any], found: str) -> None:
    with pytest.raises(UnsupportedError, match=found):
        wf.kernel(function)(X)
