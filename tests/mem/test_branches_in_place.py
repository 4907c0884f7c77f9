"""Branches that update one array do so where it lies, unless that would change what is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.interpret import interpret as by_value
from weft.mem.check import check
from weft.mem.interpret import interpret as by_heap
from weft.mem.introduce import introduce
from weft.mem.short_circuit import short_circuit


def kept(x: np.ndarray) -> Any:
    out, count = np.zeros(len(x)), 0
    for i in range(len(x)):
        if x[i] > 0.5:
            out[count] = x[i]
            count += 1
    return out, count


def nested(x: np.ndarray) -> Any:
    out, k = np.zeros(len(x)), 0
    while k < len(x):
        if x[k] > 0.5:
            if x[k] > 0.75:
                out[k // 2] = 1.0
                out[k // 3] += 2.0
            else:
                for j in range(k):
                    out[(j * k) % len(x)] += x[k]
        k += 1
    return out


def both_sides(x: np.ndarray) -> Any:
    out, at = np.zeros(len(x)), 0
    for i in range(len(x)):
        if x[i] > 0.5:
            out[at] += 1.0
        else:
            out[(at * i) % len(x)] -= x[i]
        at = (at + 3) % len(x)
    return out


def exchanged(x: np.ndarray) -> Any:
    a, b, at = np.zeros(len(x)), np.ones(len(x)), 1
    for i in range(len(x)):
        if x[i] > 0.5:
            old = a[at]
            a[at] = b[i] + a[i]
            b[at] = old + a[at]
        at = (at * 5 + 1) % len(x)
    return a, b


def read_afterwards(x: np.ndarray) -> Any:
    out, at, total = np.zeros(len(x)), 0, 0.0
    for i in range(len(x)):
        before = out
        if x[i] > 0.5:
            before = out.copy()
            out[at] = 1.0 + out[i]
        total += before[at] * 10 + out[at]
        at = (at + i) % len(x)
    return out, total


def seen_by_a_view(x: np.ndarray) -> Any:
    out, at = np.zeros(len(x)), 0
    for i in range(len(x)):
        tail = out[1:].copy()
        if x[i] > 0.5:
            out[at] = 1.0
            out[1:] += tail * 2
        at = (at + 2) % len(x)
    return out


FUNCTIONS = [kept, nested, both_sides, exchanged, read_afterwards, seen_by_a_view]
WITHOUT_COPIES = [kept, nested, both_sides]


def program_of(function: Callable[..., Any], x: np.ndarray) -> fun.Program:
    return wf.kernel(function).trace(x)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_meaning(function: Callable[..., Any]) -> None:
    for size in (2, 7, 12):
        x = np.random.default_rng(size).random(size)
        program = program_of(function, x)
        sizes = dict.fromkeys(program.sizes, size)
        wanted = by_value(program, (x,), sizes)
        for with_memory in (introduce(program), short_circuit(introduce(program))):
            check(with_memory)
            for got, value in zip(by_heap(with_memory, (x,), sizes), wanted, strict=True):
                np.testing.assert_array_equal(got, value)


@pytest.mark.parametrize("function", WITHOUT_COPIES, ids=lambda function: function.__name__)
def test_rounds_copy_nothing(function: Callable[..., Any]) -> None:
    made = introduce(program_of(function, np.zeros(5)))
    for let in walk.statements(made.program.body):
        if isinstance(let.expr, fun.Loop):
            inside = walk.statements(let.expr.body)
            assert not any(isinstance(inner.expr, fun.Copy) for inner in inside)
