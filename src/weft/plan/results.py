"""What a program gives: results of their own, and the memory that those take which stay in it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.plan.protocols import Sink


def with_owned_results(program: fun.Program) -> tuple[fun.Program, dict[str, Any]]:
    """Results that are parameters become copies; those that are constants are set aside."""
    params = {param.name: param for param in program.params}
    names = Names.of(program)
    lets = list(program.body.statements)
    copies: dict[str, fun.Var] = {}
    results: list[fun.Atom] = []
    constants: dict[str, Any] = {}
    for number, atom in enumerate(program.body.results):
        if isinstance(atom, fun.Const):
            constants[f"constant {number}"] = atom.dtype.numpy.type(atom.value)
        elif atom.name in params and isinstance(atom.type, fun.Array):
            if atom.name not in copies:
                copies[atom.name] = fun.Var(names.fresh(atom.name), atom.type)
                lets.append(fun.Let((copies[atom.name],), fun.Copy(params[atom.name])))
            atom = copies[atom.name]
        results.append(atom)
    return replace(program, body=fun.Body(tuple(lets), tuple(results))), constants


def bytes_given(
    program: fun.Program, sizes: Mapping[str, int], sinks: Mapping[str, Sequence[Sink | None]]
) -> int:
    """Bytes of the results that become new arrays in memory, each as often as it is given.

    `sinks`: where each result goes. However a program is cut, they are there when it ends.
    """
    given = 0
    for name, type_ in _arrays(program).items():
        times = sum(sink is None for sink in sinks.get(name, ()))
        shape = (int(extent.evaluate(sizes)) for extent in walk.type_sizes(type_))
        given += times * type_.dtype.itemsize * math.prod(shape)
    return given


def place_of_results(program: fun.Program) -> Place | None:
    """Where the first array that is a result is made."""
    names = _arrays(program).keys()
    for let in program.body.statements:
        if any(var.name in names for var in let.pattern):
            return let.place
    return None


def _arrays(program: fun.Program) -> dict[str, fun.Array]:
    return {
        atom.name: atom.type
        for atom in program.body.results
        if isinstance(atom, fun.Var) and isinstance(atom.type, fun.Array)
    }
