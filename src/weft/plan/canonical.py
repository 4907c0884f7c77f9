"""Programs that differ in names alone, as one: what is the same is compiled once.

    program main(v_81: f64[n0, n1]) { let v_86 : f64[box_v_86_upper_0 - box_v_86_lower_0, n1] = .. }
=>  program main(v0: f64[s0, s1]) { let v1 : f64[box2 - box3, s1] = .. }
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.sizes import Poly, Size

_NUMBER = re.compile(r"(\d+)")


def canonical(program: fun.Program) -> tuple[fun.Program, dict[str, str]]:
    """A program with names by their order, and its sizes' former names by the new ones.

    Sizes that it does not use are left out, and facts about them.
    """
    derived = {entry.name: entry for entry in program.derived}
    used = dict.fromkeys(_sizes_used(program))
    order: dict[str, None] = {}

    def add(names: Iterable[str]) -> None:
        for name in sorted(names, key=_natural):
            if name in derived:
                add(derived[name].left.variables() | derived[name].right.variables())
            order[name] = None

    add(used)
    sizes = [name for name in order if name in program.sizes]
    new = {
        name: f"{'box' if name.startswith('box') else 's'}{number}"
        for number, name in enumerate(name for name in order if name in {*sizes, *derived})
    }
    to: dict[str, Size] = {old: Poly.var(name) for old, name in new.items()}
    count = iter(range(1 << 62))
    substitution = walk.Substitution({}, to, lambda _: f"v{next(count)}")
    params = tuple(map(substitution.binder, program.params))
    body = substitution.body(program.body)
    made = replace(
        program, params=params, body=body, sizes=tuple(new[name] for name in sizes),
        derived=tuple(
            replace(e, name=new[e.name], left=e.left.substitute(to), right=e.right.substitute(to))
            for e in program.derived if e.name in new
        ),
        facts=tuple(
            replace(fact, poly=fact.poly.substitute(to))
            for fact in program.facts if fact.poly.variables() <= new.keys()
        ),
    )  # fmt: skip
    return made, {new[name]: name for name in sizes}


def _sizes_used(program: fun.Program) -> set[str]:
    known = {*program.sizes, *(entry.name for entry in program.derived)}
    found: set[str] = set()
    for param in program.params:
        found.update(*(size.variables() for size in walk.type_sizes(param.type)))
    for let in walk.statements(program.body):
        found.update(walk.used_names(let.expr))
        for var in let.pattern:
            found.update(*(size.variables() for size in walk.type_sizes(var.type)))
    return found & known


def _natural(name: str) -> list[tuple[int, str, int]]:
    """A key by which `v_9` comes before `v_10`: the order is the same for the next names."""
    return [
        (1, "", int(part)) if part.isdigit() else (0, part, 0)
        for part in _NUMBER.split(name) if part
    ]  # fmt: skip
