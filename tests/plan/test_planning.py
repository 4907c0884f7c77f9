"""What planning does once: plans are the same, for fewer drafts and forms."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from plan.stages import InterpretedStage, ListedSink, ListedSource
from plan.test_pivots import GAUSS, TRIANGLES

from weft.errors import CompileError, MemoryLimitError
from weft.fun.builder import Names
from weft.fun.parse import parse
from weft.plan import cuts, partition, planner
from weft.plan.block_rounds import block_rounds, numbers_of_blocks
from weft.plan.draft import Draft
from weft.plan.explain import explain
from weft.plan.maker import Maker
from weft.plan.planner import plan_program

SIZES = {"n": 16, "m": 20}


def planned(text: str, limit: int) -> str:
    """The plan as text, or why there is none."""
    shape = SIZES["n"], SIZES["m"]
    try:
        plan = plan_program(
            parse(text), SIZES, {"x": ListedSource(np.ones(shape))}, [ListedSink(shape, float)],
            limit, 2, InterpretedStage, allowance=0, small=64,
        )  # fmt: skip
    except MemoryLimitError as error:
        return str(error)
    return str(explain(plan))


@pytest.mark.parametrize("text", [GAUSS, TRIANGLES])
@pytest.mark.parametrize("limit", [1 << 10, 1 << 13])
def test_a_cut_is_drafted_once_whatever_is_refused(
    text: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafted, partitions, of = Counter[Any](), 0, Draft.of
    analyses: list[Any] = []  # alive, so that none has the identity of another

    def counted(analysis: Any, target: Any, dim: int, resident: set[int]) -> Draft:
        analyses.append(analysis)
        drafted[id(analysis), target.position, dim, frozenset(resident)] += 1
        return of(analysis, target, dim, resident)

    def all_anew(analysis: Any, preferences: Any, tried: Any = None) -> Any:
        nonlocal partitions
        partitions += 1
        return partition.partition(analysis, preferences)

    monkeypatch.setattr(Draft, "of", staticmethod(counted))
    found = planned(text, limit)
    assert max(drafted.values()) == 1
    once = drafted.total()
    monkeypatch.setattr(cuts, "partition", all_anew)
    assert planned(text, limit) == found
    assert partitions > 1
    assert drafted.total() - once > once


@pytest.mark.parametrize("text", [GAUSS, TRIANGLES])
def test_a_form_is_made_once(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each round is a block of its own, a lower room gives no other form."""
    monkeypatch.setattr(Maker, "least_spilled", 1 << 20)  # so that rounds alone do not fit either
    made: list[Any] = []

    def kept(*arguments: Any) -> Any:
        made.append(block_rounds(*arguments))
        return made[-1]

    monkeypatch.setattr(planner, "block_rounds", kept)
    planned(text, 1 << 10)
    assert len(made) == 1
    made.clear()
    planned(text, 1 << 12)
    assert len({str(form.program) for form in made}) == len(made) > 1


@pytest.mark.parametrize("text", [GAUSS, TRIANGLES])
def test_forms_follow_from_how_many_blocks_there_are(text: str) -> None:
    program = parse(text)
    found: dict[Any, set[str]] = {}
    for limit in (1 << 8, 1 << 20):
        for room in (0, 900, 2500, 5000, 5008, 1 << 20):
            form = block_rounds(program, SIZES, limit, room)
            numbers = numbers_of_blocks(program, SIZES, limit, room)
            found.setdefault(numbers, set()).add(f"{form.program} {form.sizes} {form.ends}")
    assert len(found) > 3
    assert all(len(forms) == 1 for forms in found.values())


def test_names_go_on_from_where_they_were_copied() -> None:
    names = Names(("a_0",))
    names.fresh("b")
    copy = names.copy()
    assert (names.fresh("a"), names.fresh("b")) == ("a_1", "b_1")
    assert (copy.fresh("a"), copy.fresh("b")) == ("a_1", "b_1")


class _Code:
    """Code that others see compiled."""

    def __init__(self, compiled: list[Any], begin: Any = None) -> None:
        self.compiled, self.begin = compiled, begin

    def compile(self) -> None:
        if self.begin is not None:
            self.begin()
        self.compiled.append(self)


def _stages(codes: list[_Code]) -> Any:
    return [SimpleNamespace(codes=(code,)) for code in codes]


def test_nobody_waits_for_compilers_once_one_has_failed() -> None:
    compiled: list[Any] = []
    others_wait = threading.Event()

    def refuse() -> None:
        raise CompileError("refused")

    codes = [_Code(compiled, refuse), *(_Code(compiled, others_wait.wait) for _ in range(9))]
    with pytest.raises(CompileError):
        planner._compile(_stages(codes), 2)
    others_wait.set()
    assert len(compiled) <= 2  # of those that were begun


def test_stages_are_compiled_once_each_where_there_are_no_new_threads() -> None:
    """As while Python ends."""
    compiled: list[Any] = []
    codes = [_Code(compiled) for _ in range(3)]
    refused = mock.patch.object(ThreadPoolExecutor, "submit", side_effect=RuntimeError)
    with refused:
        planner._compile(_stages([*codes, codes[0]]), 2)
    assert compiled == codes
