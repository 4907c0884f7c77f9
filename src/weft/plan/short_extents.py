"""Lengths of a few elements that are reduced, as constants of the program.

    reduce (i < n; k < m) { x[i, k] * w[k] }  =>  reduce (i < n; k < 3) { x[i, k] * w[k] }

A reduction of a few elements, of a known number, is straight-line code, of which compilers make
vectors over rows. Rows of an unknown length are reduced one by one, in lanes few of which are used.
What is written follows from the extents of whole arrays, never from boxes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.vector_math import has_vector_math
from weft.ops.dtypes import DType
from weft.plan.work import work

_FEW = 16  # elements, of which straight-line code is made
_ENOUGH = 1 << 16  # scalar operations that are worth code of their own


def reduced_extents(program: fun.Program) -> tuple[tuple[str, ...], ...]:
    """The size variables that are the extents of what is reduced, for each reduction.

    Parameters
    ----------
    program : fun.Program
        As it was traced, before fusion.
    """
    if has_vector_math(program.body):
        # Compilers do not load all such rows as vectors, and functions of numbers have other bits.
        return ()
    known = set(program.sizes)
    reductions = (
        let.expr for let in walk.statements(program.body) if isinstance(let.expr, fun.Reduce)
    )
    found = dict.fromkeys(tuple(sorted(_variables(reduce))) for reduce in reductions)
    return tuple(names for names in found if names and known.issuperset(names))


def constants(
    program: fun.Program, reduced: Sequence[tuple[str, ...]], sizes: Mapping[str, int]
) -> dict[str, int]:
    """The variables of `reduced_extents` that are constants of the program for these sizes."""
    found = {
        name: sizes[name]
        for names in reduced
        if all(sizes[name] <= _FEW for name in names)
        for name in names
    }
    if found and sum(work(let, sizes) for let in program.body.statements) < _ENOUGH:
        return {}
    return found


def with_constants(program: fun.Program, values: Mapping[str, int]) -> fun.Program:
    """The program for sizes of these values, which are still given to it."""
    substitution = walk.Substitution(
        {name: fun.Const(value, DType.I64) for name, value in values.items()}
    )
    params = tuple(map(substitution.binder, program.params))
    return replace(program, params=params, body=substitution.body(program.body))


def _variables(reduce: fun.Reduce) -> set[str]:
    """The extents of what is reduced, where all are variables or constants; else none."""
    found: set[str] = set()
    for r in reduce.space[len(reduce.space) - reduce.reduced :]:
        name = r.extent.variable
        if name is not None:
            found.add(name)
        elif not r.extent.is_constant:
            return set()
    return found
