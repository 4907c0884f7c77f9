"""Straight-line kernels by rows, on a device that is a processor: the bits of an item each."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from agreement.ways import assert_equal_bits
from devices.harness import AS_PROCESSOR, compiled, device, run
from lower.harness import sizes_of

import weft as wf
from weft.compiler import compile_segment
from weft.fun.interpret import interpret
from weft.lower import kernels
from weft.lower.gpu import rows as gpu_rows

RNG = np.random.default_rng(5)


def cross(t: Any) -> Any:
    return t[0, 0] * 0.5 + t[-1, 0] * 0.25 - t[0, 2] / (1 + t[1, -1] * t[1, -1])


PROGRAMS: dict[str, Any] = {
    "outer": lambda a: a * a[0] + a[:, 0].reshape(-1, 1),
    "all in one row": lambda a: wf.where(a > 0.5, a * 3, 1 - a),
    "turned": lambda a: a.T * 2,
    "planes turned": lambda a: wf.permute_dims(a[:, None, :] * a[None, :, :1], (2, 0, 1)),
    "stencil": lambda a: wf.stencil(cross, a, boundary=("wrap", "reflect")),
    "kept": lambda a: wf.stencil(cross, a, boundary="keep"),
    "constant": lambda a: wf.stencil(cross, a, boundary=1.5),
    "taken": lambda a: wf.take(a, wf.astype(a[0] * a.shape[0], wf.int64), axis=0),
    "line": lambda a: wf.stencil(lambda t: t[-1] + t[2], a.reshape(-1), boundary="edge"),
    "solid": lambda a: a[:, None, :] * a[None, :, :1] - 1,
}
SHAPES = [(1, 9), (3, 3), (6, 30), (40, 2), (3, 101), (33, 21)]


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that small arrays have parts of rows, and items of several rows."""
    monkeypatch.setattr(gpu_rows, "RUN", 16)
    monkeypatch.setattr(kernels, "BLOCK", 4)


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_rows_and_items_give_the_same_bits(name: str) -> None:
    on = device()
    function = wf.jit(PROGRAMS[name])
    for shape in SHAPES:
        x = RNG.random(shape)
        program = function.lower(x).program
        segment = compiled(program)
        assert ("rows" in segment.source) == (segment.dialect == "opencl")
        sizes = sizes_of(program, [x], {})
        expected = [np.asarray(wanted) for wanted in interpret(program, [x], sizes)]
        for by_rows in AS_PROCESSOR:
            with mock.patch.object(on, "is_processor", by_rows):
                assert_equal_bits(run(on, program, segment, [x], {}), expected)


def test_where_no_rule_applies_a_loop_has_none() -> None:
    """The loop for vectors reads neighbours as they lie; the ends of rows have another."""
    x = np.zeros(100)
    text = PROGRAMS["line"]
    program = wf.jit(text).lower(x.reshape(10, 10)).program
    source = compile_segment(program, {}, "", "opencl").source
    *_, inner = source.split("vectorize(assume_safety)")
    inner = inner[: inner.index("}")]
    assert "?" not in inner
    assert [inner.count(f" = p0_j1_{k}[j1_past]") for k in range(2)] == [1, 1]


def test_what_items_do() -> None:
    """Mathematical functions, which no loop is vectorised with; and other devices."""
    x = np.zeros((9, 9))
    math = wf.jit(lambda a: wf.exp(a)).lower(x).program
    assert "rows" not in compile_segment(math, {}, "", "opencl").source
    plain = wf.jit(PROGRAMS["outer"]).lower(x).program
    assert "rows" in compile_segment(plain, {}, "", "opencl").source
    assert "rows" not in compile_segment(plain, {}, "", "cuda").source


def test_an_index_outside_is_found() -> None:
    on = device()
    function = wf.jit(lambda a, i: wf.take(a, i) + 1)
    a, at = np.arange(5.0), np.array([0, 4, 5, 1])
    for by_rows in AS_PROCESSOR:
        with (
            mock.patch.object(on, "is_processor", by_rows),
            wf.config(devices=[on.name]),
            pytest.raises(IndexError, match="index 5 is outside axis 0 of"),
        ):
            function(a, at)
