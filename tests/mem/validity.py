"""Validity (definition 4.4.1 of the thesis): by value and by heap a program gives the same."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from programs.agree import assert_agree
from programs.random_data import Case
from programs.random_memory import generate
from programs.shrink import shrink

from weft.compiler import with_versions
from weft.fun import nodes as fun
from weft.fun.interpret import interpret as by_value
from weft.lmad import Lmad
from weft.lmad.exact import common
from weft.mem import nodes as mem
from weft.mem.check import check
from weft.mem.erase import erase
from weft.mem.interpret import interpret as by_heap
from weft.mem.show import show
from weft.passes.defer import defer
from weft.passes.nest import nest
from weft.passes.pipeline import optimise
from weft.plan.donations import are_as_large
from weft.sizes import Poly, Size

STAGES = ("no-short-circuit no-merge", "no-merge", "no-short-circuit", "")
"""What `weft.config(optimise=...)` leaves out: every pass alone, then all together."""


def is_valid(
    program: fun.Program,
    arguments: Sequence[Any],
    sizes: dict[str, int],
    stages: Sequence[str] = STAGES,
    donated: Mapping[str, int] | None = None,
) -> None:
    """Assert that a program is valid after each stage of memory passes."""
    wanted = by_value(program, arguments, sizes)
    done = []
    for stage in stages:
        for with_blocks in with_versions(program, {}, stage, donated=donated):
            if with_blocks in done or not suits(with_blocks, sizes):
                continue
            done.append(with_blocks)
            check(with_blocks, f"the passes without {stage!r}")
            try:
                assert_agree(by_value(erase(with_blocks), arguments, sizes), wanted)
                assert_agree(by_heap(with_blocks, arguments, sizes), wanted)
            except Exception as error:
                error.add_note(f"without {stage!r}:\n{show(with_blocks)}")
                raise


def donatable(program: fun.Program) -> dict[str, int]:
    """Parameters, each with a result as large, other results for other parameters."""
    found: dict[str, int] = {}
    types = program.result_types
    for param in program.params:
        for number in range(len(types)):
            if are_as_large(param.type, types[number]) and number not in found.values():
                found[param.name] = number
                break
    return found


def suits(program: mem.Program, sizes: dict[str, int]) -> bool:
    """Whether what a version of a program requires of the sizes of a call holds."""
    values = {name: Poly.const(value) for name, value in sizes.items()}
    return all(
        common(*(substitute(index, values) for index in pair)) is None
        for pair in program.conditions
    )


def substitute(index: Lmad, values: dict[str, Size]) -> Lmad:
    dims = tuple((n.substitute(values), s.substitute(values)) for n, s in index.dims)
    return Lmad(index.offset.substitute(values), dims)


def forms(program: fun.Program) -> list[fun.Program]:
    """A program as it is written, and as the passes on FUN leave it."""
    found = [program, defer(program), defer(nest(optimise(program)))]
    return [form for number, form in enumerate(found) if form not in found[:number]]


def holds(case: Case) -> None:
    for program in forms(case.program):
        is_valid(program, case.arguments, case.sizes)
        if donated := donatable(program):
            is_valid(program, case.arguments, case.sizes, donated=donated)


def holds_after_all(case: Case, seed: int) -> None:
    """As `holds`, of one form of the program, which the seed chooses, after all passes."""
    program = nest(optimise(case.program)) if seed % 2 else case.program
    donated = donatable(program) if seed % 3 else {}
    is_valid(program, case.arguments, case.sizes, STAGES[-1:], donated)


def fails(case: Case) -> bool:
    try:
        holds(case)
    except Exception:
        return True
    return False


def all_hold(seeds: range) -> None:
    """Assert that the random programs of seeds are valid; the first that is not, shrunk.

    One in twenty is tried in both forms after every stage, the others as `holds_after_all`.
    """
    for seed in seeds:
        case = generate(random.Random(seed))
        try:
            if seed % 20:
                holds_after_all(case, seed)
            else:
                holds(case)
        except Exception as error:
            smallest = shrink(case, fails) if fails(case) else case
            raise AssertionError(f"seed {seed}: {smallest}") from error
