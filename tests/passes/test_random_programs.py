"""Every pass on random programs: well typed afterwards, and of the same meaning."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from programs.random_programs import Case, assert_agree, programs
from slow import examples

from weft.fun import nodes as fun
from weft.fun.check import check
from weft.fun.interpret import interpret
from weft.passes import split_reductions as split
from weft.passes.collapse import collapse
from weft.passes.defer import defer
from weft.passes.flatten import flatten
from weft.passes.fuse import fuse
from weft.passes.fuse_horizontal import fuse_horizontal
from weft.passes.fuse_vertical import fuse_vertical
from weft.passes.nest import nest
from weft.passes.pipeline import Decisions, optimise
from weft.passes.raise_reshapes import raise_reshapes
from weft.passes.remove_dead import remove_dead
from weft.passes.share import share
from weft.passes.simplify import simplify

SETTINGS = settings(
    max_examples=examples(60), deadline=None, derandomize=True,
    suppress_health_check=list(HealthCheck),
)
Pass = Callable[[fun.Program], fun.Program]


PASSES = [
    simplify, share, remove_dead, flatten, raise_reshapes, fuse_vertical, fuse_horizontal, defer,
]  # fmt: skip


def holds(case: Case, *passes: Pass) -> None:
    program = case.program
    for pass_ in passes:
        program = pass_(program)
        check(program, after=pass_.__name__)
    expected = interpret(case.program, case.arguments, case.sizes)
    assert_agree(interpret(program, case.arguments, case.sizes), expected)


@pytest.mark.parametrize("pass_", PASSES, ids=lambda pass_: pass_.__name__)
@given(case=programs())
@SETTINGS
def test_one_pass(pass_: Pass, case: Case) -> None:
    holds(case, pass_)


@given(case=programs())
@settings(SETTINGS, max_examples=examples(150))
def test_fused(case: Case) -> None:
    holds(case, simplify, share, remove_dead, fuse)


@given(case=programs())
@SETTINGS
def test_nested(case: Case) -> None:
    holds(case, optimise, nest, simplify, share, remove_dead)


def tiles_of_a_few(program: fun.Program) -> fun.Program:
    return split.split_reductions(program, split.always)


@given(case=programs())
@SETTINGS
def test_split(case: Case) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split, "TILE", 4)
        patch.setattr(split, "COLUMN_ROWS", 2)
        patch.setattr(split, "COLUMN_TILE", 8)
        holds(case, optimise, tiles_of_a_few, simplify, share, remove_dead)


@given(case=programs())
@SETTINGS
def test_collapsed(case: Case) -> None:
    def merge(program: fun.Program) -> fun.Program:
        return collapse(program, {param.name for param in program.params}, reduced=True)

    holds(case, merge, simplify, share, remove_dead, fuse, merge, simplify, remove_dead)


@given(case=programs())
@SETTINGS
def test_everything(case: Case) -> None:
    decisions = Decisions(
        nest=lambda _: True,
        contiguous=frozenset(param.name for param in case.program.params),
        split=split.always,
    )

    def whole(program: fun.Program) -> fun.Program:
        return optimise(program, decisions)

    holds(case, whole)
