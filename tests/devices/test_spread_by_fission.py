"""Boxes that devices take are the parts that rules of fission make of the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from programs.agree import assert_agree

import weft as wf
from weft.fun import nodes as fun
from weft.fun.check import check
from weft.fun.interpret import interpret
from weft.passes.fission import fission, splits
from weft.passes.pipeline import optimise
from weft.plan import sharing
from weft.runtime.devices.cpu import parts
from weft.runtime.shares import Left
from weft.sizes import as_poly

pytestmark = pytest.mark.skipif(len(parts()) < 2, reason="one core alone")

RNG = np.random.default_rng(4)
PROGRAMS: dict[str, tuple[Callable[..., Any], Any]] = {
    "map": (lambda a: wf.sqrt(a) * 2 + a, RNG.random((60, 7))),
    "sum of rows": (lambda a: wf.sum(a * a, axis=1), RNG.random((60, 9))),
    "stencil": (
        lambda a: wf.stencil(lambda s: s[-1, 0] + s[1, 0] - s[0, 1], a, boundary="wrap"),
        RNG.random((60, 8)),
    ),
    "all pairs": (lambda a: wf.sum(wf.abs(a[:, None] - a[None, :]), axis=1), RNG.random(80)),
}


def spread(function: Any, argument: Any) -> tuple[Any, list[tuple[int, int]], Any]:
    """What two devices compute, their boxes, and the plan."""
    boxes: list[tuple[int, int]] = []
    done, shared = Left.done, sharing.share
    plans: list[Any] = []

    def noted(self: Any, number: int, box: tuple[int, int]) -> None:
        boxes.append(box)
        done(self, number, box)

    def seen(schedulers: Any) -> Any:
        plans.append(shared(schedulers))
        return plans[-1]

    with (
        mock.patch.object(sharing, "_LEAST_WORK", 1),
        mock.patch.object(sharing, "SMALL_WORK", 1),
        mock.patch("weft.plan.cuts.SMALL_WORK", 1),
        mock.patch("weft.plan.maker.share", seen),
        mock.patch.object(Left, "done", noted),
        wf.config(devices=["cpu:0", "cpu:1"], interpret_below=0),
    ):
        found = np.asarray(function(argument))
    return found, sorted(boxes), plans[-1]


def divided(program: fun.Program, target: str, axis: int, cuts: list[int]) -> fun.Program:
    """The statement cut at all of these: the last cut first, and then what is before it."""
    for cut in reversed(cuts):
        (place,) = (s for s in splits(program) if (s.target, s.axis) == (target, axis))
        program = fission(program, place, as_poly(cut))
        joined = next(
            let.expr for let in program.body.statements if let.pattern[0].name == place.target
        )
        assert isinstance(joined, fun.Concat)
        target = joined.arrays[0].name
    return program


def operators(program: fun.Program) -> list[Any]:
    """The statements that compute arrays."""
    lets = program.body.statements
    return [let for let in lets if isinstance(let.expr, fun.Kernel | fun.Reduce)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_boxes_are_parts_by_fission(name: str) -> None:
    function, argument = PROGRAMS[name]
    compiled = wf.jit(function)
    found, boxes, plan = spread(compiled, argument)
    assert len(boxes) > 2
    assert [start for start, _ in boxes] == [0, *(stop for _, stop in boxes[:-1])]

    program = optimise(compiled.lower(argument).program)
    (output,) = plan.stage.outputs
    sizes = dict(zip(program.sizes, argument.shape, strict=False))
    targets = [let.pattern[0].name for let in operators(program)]
    parted = program
    for target in targets:
        parted = divided(parted, target, output.axis, [start for start, _ in boxes[1:]])
    check(parted, after="fission")
    made = [let.expr.space[output.axis].extent for let in operators(parted)]
    extents = [extent.evaluate(sizes) for extent in made]
    assert extents == [stop - start for start, stop in boxes] * len(targets)
    assert_agree(interpret(parted, (argument,), sizes), [found], scale=4)


def test_the_plan_names_the_rule() -> None:
    function, argument = PROGRAMS["map"]
    compiled = wf.jit(function)
    _, _, plan = spread(compiled, argument)
    (output,) = plan.stage.outputs
    with (
        mock.patch.object(sharing, "SMALL_WORK", 1),
        mock.patch("weft.plan.cuts.SMALL_WORK", 1),
        mock.patch.object(sharing, "_LEAST_WORK", 1),
        wf.config(devices=["cpu:0", "cpu:1"], interpret_below=0),
    ):
        text = str(wf.explain(lambda: function(wf.asarray(argument))))
    assert f"by fission of {output.array} along axis 0: a box is a part, made where" in text
