"""Iterated stencils streamed: all rounds on one box after another, with the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement.ways import assert_equal_bits, streamed

import weft as wf

RNG = np.random.default_rng(1)
RULES = ["keep", "edge", "reflect", "symmetric", -1.0]


def five_points(rule: Any) -> Any:
    return lambda x: wf.stencil(
        lambda t: (t[-1, 0] + t[1, 0] + t[0, -1] + t[0, 1] - t[0, 0]) / 3, x, boundary=rule
    )


def in_core(program: Any, inputs: list[Any]) -> list[Any]:
    with wf.config(interpret_below=0, optimise="no-time-tiles"):
        return [np.asarray(r) for r in program(*map(wf.asarray, inputs))]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("shape", "box_bytes"), [((61, 7), 500), ((61, 7), 2000), ((4, 300), 4000), ((17, 1), 60)]
)
def test_boxes(rule: Any, shape: tuple[int, int], box_bytes: int, tmp_path: Path) -> None:
    def program(x: Any) -> list[Any]:
        return [wf.iterate(five_points(rule), x, 5)]

    inputs = [RNG.random(shape)]
    assert_equal_bits(streamed(program, inputs, tmp_path, box_bytes), in_core(program, inputs))


def test_between_other_statements(tmp_path: Path) -> None:
    """What comes before is computed on the margin too; what comes after on the box."""

    def program(x: Any, y: Any) -> list[Any]:
        smooth = wf.iterate(five_points("edge"), wf.sqrt(x) + y, 4)
        return [smooth[1:] - smooth[:-1], wf.sum(smooth)]

    inputs = [RNG.random((53, 11)), RNG.random((53, 11))]
    found, expected = streamed(program, inputs, tmp_path, 900), in_core(program, inputs)
    assert_equal_bits(found[:1], expected[:1])
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-14)


def test_several_arrays_and_some_from_outside(tmp_path: Path) -> None:
    def program(x: Any, power: Any, weights: Any) -> list[Any]:
        def step(k: Any, pair: Any) -> Any:
            hot, cold = pair
            new = wf.stencil(lambda a, p: a[-2] + p[1] - a[1], hot, power, boundary="edge")
            return new * weights[3], cold + hot + k

        return list(wf.fori_loop(0, 6, step, (x, x * 2)))

    inputs = [RNG.random(71), RNG.random(71), RNG.random(5)]
    assert_equal_bits(streamed(program, inputs, tmp_path, 300), in_core(program, inputs))


def test_larger_than_the_limit(tmp_path: Path) -> None:
    x = RNG.random((9000, 1024)).astype("f4")
    np.save(tmp_path / "x.npy", x)
    with wf.config(memory_limit="32 MiB"):
        lazy = wf.iterate(five_points("keep"), wf.open(tmp_path / "x.npy"), 12)
        plan = wf.explain(lazy)
        assert plan.peak_bytes <= 32 << 20
        wf.store(lazy, tmp_path / "y.npy")
    (expected,) = in_core(lambda x: [wf.iterate(five_points("keep"), x, 12)], [x])
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)
