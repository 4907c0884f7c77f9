"""Fission: every sequence of rule applications leaves a program's meaning."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from typing import Any, TypeAlias
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from programs.agree import assert_agree
from programs.library import EXAMPLES, SIZES
from programs.random_programs import Case, programs
from slow import examples

from weft.errors import InternalError, OutOfBoundsError
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.fun.check import check
from weft.fun.interpret import Evaluator, interpret
from weft.fun.show import show, show_let
from weft.passes.fission import Split, _Fission, fission, splits
from weft.passes.pipeline import optimise
from weft.sizes import ZERO, as_poly

Golden = Callable[[str], None]
SMALL = {"n": 3, "m": 2, "k": 2}
LARGER = {"n": 4, "m": 4, "k": 2}


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


def small(name: str) -> tuple[fun.Program, tuple[Any, ...]]:
    """A program of a few elements, and its arguments."""
    example = EXAMPLES[name]
    for sizes in (SMALL, LARGER, SIZES):
        try:
            interpret(example.program, example.arguments(sizes), sizes)
        except OutOfBoundsError:  # it is about larger arrays
            continue
        return specialised(example.program, sizes), example.arguments(sizes)
    raise AssertionError(f"{name} is about larger arrays yet")


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_sequence(name: str) -> None:
    """All that can be reached from a program of a few elements (the first thousands of it)."""
    program, arguments = small(name)
    expected = interpret(program, arguments, {})
    for found in reachable(program, most=1500):
        holds(found, arguments, expected, {})


# ---------------------------------------------------------------- every rule application

# A rule reads one statement, and gives others in its place whose last binds the same variables.
# Programs that sequences of rules reach are therefore as many as there are ways to combine what is
# reached of each statement; but the statements are few. Where each rule at each of them leaves the
# value of what it binds, so does every sequence: none of them does anything else.

Values: TypeAlias = dict[str, list[Any]]


def bound(program: fun.Program, arguments: tuple[Any, ...]) -> Values:
    """What each variable, outside of kernels, has been bound to: in loops, one after another."""
    names = {var.name for let in walk.sequential(program.body) for var in let.pattern}
    values: Values = {p.name: [a] for p, a in zip(program.params, arguments, strict=True)}
    evaluate = Evaluator.let

    def noted(self: Evaluator, let: fun.Let) -> None:
        evaluate(self, let)
        for var in let.pattern:
            if var.name in names:
                values.setdefault(var.name, []).append(np.array(self.values[var.name]))

    with mock.patch.object(Evaluator, "let", noted):
        interpret(program, arguments, {})
    return values


def digest(values: list[Any]) -> str:
    """Values in short; those that differ in rounding alone are the same."""
    found = sha256()
    for value in map(np.asarray, values):
        rounded = np.round(value, 6) + 0 if value.dtype.kind in "fc" else value
        found.update(f"{value.dtype} {value.shape} ".encode() + rounded.tobytes())
    return found.hexdigest()[:16]


def places(program: fun.Program, values: Values) -> Iterator[tuple[Split, tuple[str, int]]]:
    """Where rules apply, and what is split there: a statement, what it reads told by its value."""
    known = {name: digest(found) for name, found in values.items()}
    variables = Names.of(program).taken
    lets = {let.pattern[0].name: let for let in walk.sequential(program.body)}
    for split in splits(program):
        text = f"a parameter {split.target}"
        if split.target in lets:
            let = lets[split.target]
            names = {var.name: f"result {k}" for k, var in enumerate(let.pattern)}

            def rename(found: re.Match[str], names: dict[str, str] = names) -> str:
                if found[0] not in variables:
                    return found[0]
                return names.setdefault(found[0], known.get(found[0], f"v{len(names)}"))

            text = re.sub(r"[a-zA-Z_][\w.]*", rename, show_let(let))
        yield split, (text, split.axis)


Applied: TypeAlias = tuple[fun.Program, Values, fun.Program]


def applications(
    program: fun.Program, arguments: tuple[Any, ...], seen: set[tuple[str, int]]
) -> Iterator[Applied]:
    """Every rule at every statement that sequences of rules reach: programs before and after."""
    pending = [program]
    while pending:
        known = pending.pop()
        values = bound(known, arguments)
        for split, place in places(known, values):
            if place not in seen:
                seen.add(place)
                new = fission(known, split)
                pending.append(new)
                yield known, values, new


UNENDING = {"growing_slices": 40, "shrinking_slices": 40, "growing_blocks": 40}
"""Rows that are as long as the round says are cut for ever, in halves of which some are empty: of
their programs, so many applications of rules."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_rule_at_every_statement(name: str) -> None:
    """To the end, but for three programs: what all sequences of rules do, at all 64 others.

    (Svensson et al. explore all choices for 28 programs.)
    """
    program, arguments = small(name)
    expected = interpret(program, arguments, {})
    found = applications(program, arguments, set())
    for _, before, new in islice(found, UNENDING.get(name)):
        check(new, after="fission")
        after = bound(new, arguments)
        for variable in before.keys() & after.keys():
            assert_agree(after[variable], before[variable], scale=4)
        assert_agree(interpret(new, arguments, {}), expected, scale=4)
    if name in UNENDING:
        assert next(found, None) is not None


def test_sequences_do_nothing_else() -> None:
    """What rules of all sequences are applied to is what they are applied to one by one."""
    compared, few = 0, 60
    for program, arguments in map(small, EXAMPLES):
        reached = [program, *reachable(program, most=few)]
        if len(reached) > few:
            continue  # there are more
        applied: set[tuple[str, int]] = set()
        for known in reached:
            applied.update(place for _, place in places(known, bound(known, arguments)))
        alone: set[tuple[str, int]] = set()
        for _ in applications(program, arguments, alone):
            pass
        assert applied == alone
        compared += 1
    assert compared >= 36


def test_a_wrong_rule_is_found() -> None:
    """One whose second part begins where the first one does."""
    shifted = _Fission.shifted

    def begun_anew(self: Any, space: Any, body: Any, axis: int, start: Any, extent: Any) -> Any:
        return shifted(self, space, body, axis, ZERO, extent)

    with mock.patch.object(_Fission, "shifted", begun_anew), pytest.raises(AssertionError):
        test_every_rule_at_every_statement("map")


@given(case=programs(), data=st.data())
@settings(
    max_examples=examples(80), deadline=None, derandomize=True,
    suppress_health_check=list(HealthCheck),
)
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
