"""After every memory pass programs are valid: those of the library, and random ones."""

from __future__ import annotations

import random
from itertools import islice

import pytest
from hypothesis import HealthCheck, given, settings
from mem.programs import CASES
from mem.test_introduce import sizes_of
from mem.validity import STAGES, all_hold, forms, holds, is_valid
from programs.library import EXAMPLES, SIZES
from programs.random_data import Case
from programs.random_memory import generate, memory_programs
from programs.random_programs import programs
from programs.shrink import shrink
from slow import examples

from weft.compiler import with_memory
from weft.fun import nodes as fun
from weft.fun import walk
from weft.lmad.overlap import Verdict

SETTINGS = settings(
    max_examples=examples(25), deadline=None, derandomize=True,
    suppress_health_check=list(HealthCheck),
)
CHUNK = 1000
CHUNKS = 100


@pytest.mark.parametrize("name", CASES)
def test_hand_built(name: str) -> None:
    program, arguments = CASES[name]()
    for form in forms(program):
        is_valid(form, arguments, sizes_of(name))


@pytest.mark.parametrize("name", [name for name in EXAMPLES if not name.startswith("call_")])
def test_library(name: str) -> None:
    example = EXAMPLES[name]
    for form in forms(example.program):
        is_valid(form, example.arguments(), SIZES)


@given(memory_programs())
@SETTINGS
def test_random_memory(case: Case) -> None:
    holds(case)


@given(programs(extents=(2, 3, 5)))
@SETTINGS
def test_random_programs(case: Case) -> None:
    holds(case)


def test_random_seeds() -> None:
    all_hold(range(examples(40)))


@pytest.mark.parametrize("seed", [362, 784, 817, 88320])
def test_seeds_that_once_failed(seed: int) -> None:
    all_hold(range(seed, seed + 1))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_hundred_thousand(chunk: int) -> None:
    all_hold(range(CHUNK * chunk, CHUNK * (chunk + 1)))


# ---------------------------------------------------------------- the tests' own tests


def statements(case: Case) -> list[fun.Let]:
    return list(walk.statements(case.program.body))


def test_random_programs_are_of_every_kind() -> None:
    found: dict[type, int] = {}
    for seed in range(300):
        for kind in {type(let.expr) for let in statements(generate(random.Random(seed)))}:
            found[kind] = found.get(kind, 0) + 1
    wanted = set(fun.Expr.__args__) - {fun.Call, fun.Empty}  # type: ignore[attr-defined]
    assert {kind for kind in wanted if found.get(kind, 0) < 10} == set()


def test_some_arrays_are_overwritten_before_they_are_read() -> None:
    programs = (generate(random.Random(seed)).program for seed in range(450))
    lets = ([let for f in forms(p) for let in walk.statements(f.body)] for p in programs)
    found = (any(isinstance(let.expr, fun.Empty) for let in each) for each in lets)
    assert sum(islice(filter(None, found), 3)) == 3


def test_most_programs_are_short_circuited() -> None:
    """What is made elsewhere, and what is left: both kinds are frequent."""
    moved = refused = 0
    for seed in range(40):
        program = generate(random.Random(seed)).program
        made = with_memory(program, {}, "no-merge")
        moved += made.program != with_memory(program, {}, "no-short-circuit no-merge").program
        refused += any(remark.condition == "overlap" for remark in made.remarks)
    assert moved > 24
    assert refused > 8


def test_a_wrong_analysis_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were nothing ever to overlap, many programs would be wrong."""
    monkeypatch.setattr("weft.mem.scope.overlap", lambda *_: Verdict("no", "assumed"))

    def fails(case: Case) -> bool:
        try:
            is_valid(case.program, case.arguments, case.sizes, STAGES[1:2])
        except Exception:
            return True
        return False

    cases = (generate(random.Random(seed)) for seed in range(40))
    bad = list(islice(filter(fails, cases), 3))
    assert len(bad) == 3
    least = min(bad, key=lambda case: len(statements(case)))
    smallest = shrink(least, fails)
    assert len(statements(smallest)) < max(12, len(statements(least)) // 2)
    monkeypatch.undo()
    holds(smallest)
