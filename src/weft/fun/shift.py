"""Copies of a body with other indices."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.ops.dtypes import DType
from weft.sizes import Size


def shift(
    body: fun.Body,
    to: Mapping[str, Size],
    names: Names,
    fresh: Callable[[str], str] | None = None,
) -> fun.Body:
    """The body with indices replaced by polynomials and, used as values, by statements.

    Parameters
    ----------
    body : fun.Body
    to : mapping of str to Size
        The replacement of each index (an int64 scalar that the body does not bind).
    names : Names
        Of the program.
    fresh : callable, optional
        New names of what the body binds: needed where the body is copied, not moved.
    """
    used = {
        a.name
        for let in walk.statements(body)
        for a in walk.operands(let.expr)[0]
        if isinstance(a, fun.Var)
    } | _results(body)
    head: list[fun.Let] = []
    atoms: dict[str, fun.Atom] = {}
    for name, size in to.items():
        if name in used:
            var = fun.Var(names.fresh("at"), fun.Scalar(DType.I64))
            head.append(fun.Let((var,), fun.SizeValue(size)))
            atoms[name] = var
    shifted = walk.Substitution(atoms, to, fresh).body(body)
    return fun.Body((*head, *shifted.statements), shifted.results)


def _results(body: fun.Body) -> set[str]:
    """Variables that are results of the body or of a body inside it."""
    found = {a.name for a in body.results if isinstance(a, fun.Var)}
    for let in body.statements:
        for inner in walk.bodies(let.expr):
            found |= _results(inner)
    return found
