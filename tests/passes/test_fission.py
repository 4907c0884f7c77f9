"""Fission: every sequence of rule applications leaves a program's meaning."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from programs.agree import assert_agree
from programs.library import EXAMPLES, SIZES
from programs.random_programs import Case, programs

from weft.errors import InternalError, OutOfBoundsError
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.check import check
from weft.fun.interpret import interpret
from weft.fun.show import show
from weft.passes.fission import Split, fission, splits
from weft.passes.pipeline import optimise
from weft.sizes import as_poly

Golden = Callable[[str], None]
SMALL = {"n": 3, "m": 2, "k": 2}


def canonical(program: fun.Program) -> str:
    """The program's text, its names numbered as they appear."""
    names: dict[str, str] = {}
    rename = lambda found: names.setdefault(found[0], f"v{len(names)}")  # noqa: E731
    return re.sub(r"[a-zA-Z_][\w.]*_\d+", rename, show(program))


def specialised(program: fun.Program, sizes: dict[str, int]) -> fun.Program:
    """The program for these sizes alone: every extent that depends on them is a constant."""
    known = {name: as_poly(sizes[name]) for name in program.sizes}
    for derived in program.derived:
        left, right = derived.left.substitute(known), derived.right.substitute(known)
        value = replace(derived, left=left, right=right).evaluate({})
        known[derived.name] = as_poly(value)
    change = walk.Substitution(sizes=known)
    params = tuple(fun.Var(p.name, change.type(p.type)) for p in program.params)
    return replace(
        program, params=params, body=change.body(program.body), sizes=(), derived=(), facts=()
    )


def reachable(program: fun.Program, most: int, depth: int = 99) -> Iterator[fun.Program]:
    """Every program that rules make of this one, breadth first; the first `most` of them."""
    seen = {canonical(program)}
    level = [program]
    for _ in range(depth):
        following = []
        for known in level:
            for split in splits(known):
                new = fission(known, split)
                text = canonical(new)
                if text in seen:
                    continue
                if len(seen) > most:
                    return
                seen.add(text)
                following.append(new)
                yield new
        level = following


def holds(program: fun.Program, arguments: tuple[Any, ...], expected: Any, sizes: Any) -> None:
    check(program, after="fission")
    assert_agree(interpret(program, arguments, sizes), expected, scale=4)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_two_rules(name: str) -> None:
    example = EXAMPLES[name]
    arguments = example.arguments()
    expected = interpret(example.program, arguments, SIZES)
    for program in reachable(example.program, most=400, depth=2):
        holds(program, arguments, expected, SIZES)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_sequence(name: str) -> None:
    """All that can be reached from a program of a few elements (the first thousands of it)."""
    example = EXAMPLES[name]
    sizes = SMALL
    try:
        expected = interpret(example.program, example.arguments(sizes), sizes)
    except OutOfBoundsError:  # it is about larger arrays
        sizes = SIZES
        expected = interpret(example.program, example.arguments(sizes), sizes)
    for program in reachable(specialised(example.program, sizes), most=1500):
        holds(program, example.arguments(sizes), expected, {})


@given(case=programs(), data=st.data())
@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_random_sequences(case: Case, data: st.DataObject) -> None:
    """Fused programs too, cut anywhere: also before the first element and after the last."""
    program = optimise(case.program) if data.draw(st.booleans()) else case.program
    expected = interpret(case.program, case.arguments, case.sizes)
    for _ in range(data.draw(st.integers(1, 5))):
        places = splits(program)
        if not places:
            return
        split = data.draw(st.sampled_from(places))
        at = None
        if split.extent.is_constant:
            at = as_poly(data.draw(st.integers(0, split.extent.constant)))
        elif split.extent.variables() <= case.sizes.keys() and data.draw(st.booleans()):
            at = data.draw(st.sampled_from([as_poly(0), as_poly(1), split.extent]))
        program = fission(program, split, at)
        check(program, after="fission")
    assert_agree(interpret(program, case.arguments, case.sizes), expected, scale=4)


def the(program: fun.Program, target: str, axis: int) -> Split:
    """The place on an axis of a statement or parameter."""
    (found,) = (s for s in splits(program) if (s.target, s.axis) == (target, axis))
    return found


GOLDENS = [
    ("map", 0), ("stencil_edge", 0), ("sum_of_rows", 0), ("sum_of_rows", 1), ("sum", 0),
    ("cumulative_sum", 0), ("exclusive_sum", 0), ("histogram", 0), ("transpose", 1),
    ("flatten", 0), ("broadcast", 0), ("update_column", 0), ("lmad_update", 0),
    ("lmad_slice", 0), ("every_second", 0), ("copy", 0),
]  # fmt: skip


@pytest.mark.parametrize(("name", "axis"), GOLDENS, ids=[f"{n}-{a}" for n, a in GOLDENS])
def test_golden(name: str, axis: int, golden: Golden) -> None:
    program = EXAMPLES[name].program
    params = {param.name for param in program.params}
    target = next(s.target for s in splits(program) if s.target not in params and s.axis == axis)
    golden(show(fission(program, the(program, target, axis))))


def test_a_parameter(golden: Golden) -> None:
    program = EXAMPLES["map"].program
    split = splits(program)[0]
    assert split.target == program.params[0].name
    once = fission(program, split)
    golden(show(once))
    assert split not in splits(once)  # its parts are what is split next


def test_where_operators_would_be_reordered_nothing_is_split() -> None:
    """Of the reduced axes the first alone; of a scatter's, whose last index wins, the first."""
    for name, kept in (("sum_of_squared_differences", 0), ("scatter_last_wins", 0)):
        program = EXAMPLES[name].program
        params = {param.name for param in program.params}
        assert {s.axis for s in splits(program) if s.target not in params} == {kept}


def test_nothing_to_split() -> None:
    program = EXAMPLES["map"].program
    with pytest.raises(InternalError, match="nothing to split at nobody"):
        fission(program, Split("nobody", 0, as_poly(4)))
