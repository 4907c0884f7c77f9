"""Lengths that a program computes, known before it is planned.

A plan says how long all arrays are. Where the program computes some of them, as a slice up to
an element of an array does, a program of its own computes these first, and the rest takes them as
sizes.

    let k = x[0]; let part: f64[k] = slice y[0 for k]; ..
 => let k = x[0] in k                                      (measure)
    (size any_k) let part: f64[any_k] = slice y[0 for any_k]; ..
"""

from __future__ import annotations

from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.ops.dtypes import DType
from weft.passes.remove_dead import remove_dead_in
from weft.passes.simplify import simplify
from weft.records import dataclass
from weft.sizes import Poly

_MAY_BE_NONE = "any_"
"""Begins sizes of which nothing is known: they may be 0."""


@dataclass(frozen=True, slots=True)
class Parted:
    """A program in two.

    Attributes
    ----------
    measure : fun.Program
        Gives lengths, int64 scalars; of the parameters it has those that they are made of.
    rest : fun.Program
        The program, with sizes for them.
    sizes : tuple of str
        The names of these sizes, in the order of the results of `measure`.
    """

    measure: fun.Program
    rest: fun.Program
    sizes: tuple[str, ...]


def part(program: fun.Program) -> Parted | None:
    """What computes lengths of arrays, and the rest; None where all are known."""
    known = {*program.sizes, *(derived.name for derived in program.derived)}
    if all(_lengths(let) <= known for let in walk.statements(program.body)):
        return None
    program = simplify(program)  # a loop of one round is none
    statements = program.body.statements
    scalars = _scalars(program.body)
    wanted = sorted(set().union(*map(_lengths, statements)) & scalars)
    if not wanted:
        return None
    names = {name: _MAY_BE_NONE + name for name in wanted}
    body = walk.Substitution(sizes={n: Poly.var(size) for n, size in names.items()})
    rest = replace(
        program, body=body.body(program.body), sizes=(*program.sizes, *names.values())
    )
    return Parted(_measure(program, wanted), rest, tuple(names.values()))


def _measure(program: fun.Program, wanted: list[str]) -> fun.Program:
    """What scalars are made of, with these as results."""
    results = tuple(fun.Var(name, fun.Scalar(DType.I64)) for name in wanted)
    body = remove_dead_in(replace(program.body, results=results))
    used = walk.free_names(body)
    params = tuple(param for param in program.params if param.name in used)
    return replace(program, params=params, body=body)


def _scalars(body: fun.Body) -> set[str]:
    """The scalars that a body's own statements give."""
    return {
        var.name for let in body.statements for var in let.pattern
        if isinstance(var.type, fun.Scalar)
    }  # fmt: skip


def _lengths(let: fun.Let) -> set[str]:
    """The variables of the lengths of what a statement gives."""
    return {
        name for var in let.pattern for size in walk.type_sizes(var.type)
        for name in size.variables()
    }  # fmt: skip
