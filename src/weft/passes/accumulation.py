"""What the rounds of a loop accumulate: scalars, and elements of arrays."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.ops.dtypes import DType
from weft.passes.dependence import Access, Dims, Rounds, elements_apart, reads
from weft.passes.knowledge import Knowledge
from weft.passes.versions import Chain, bound_in

OPERATIONS = (
    "add", "multiply", "minimum", "maximum", "logical_and", "logical_or", "bitwise_and",
    "bitwise_or", "bitwise_xor",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Accumulation:
    """new = operation(old, element) in each round.

    Attributes
    ----------
    operation : str
    dtype : DType
    elements : tuple of (Atom, bool)
        What each step takes, in order, and whether it is subtracted.
    links : frozenset of str
        The steps' names.
    """

    operation: str
    dtype: DType
    elements: tuple[tuple[fun.Atom, bool], ...]
    links: frozenset[str]

    def element(self, statements: list[fun.Let], names: Names) -> fun.Atom:
        """What a round adds in all; statements that compute it are appended."""
        total: fun.Atom | None = None
        for atom, subtracted in self.elements:
            element = atom
            if subtracted:
                element = fun.Var(names.fresh("m"), fun.Scalar(self.dtype))
                statements.append(fun.Let((element,), fun.Apply("negative", (atom,))))
            if total is not None:
                joined = fun.Var(names.fresh("j"), fun.Scalar(self.dtype))
                both = fun.Apply(self.operation, (total, element))
                statements.append(fun.Let((joined,), both))
                element = joined
            total = element
        assert total is not None
        return total


def of_scalar(
    param: fun.Var, result: fun.Atom, body: fun.Body, unordered: bool
) -> Accumulation | None:
    """How a loop's body accumulates a scalar; None where it does something else with it.

    `unordered`: rounds have no order, so that floats that do not compare need not be told apart.
    """
    if not isinstance(param.type, fun.Scalar):
        return None
    bound = bound_in(body)
    elements: list[tuple[fun.Atom, bool]] = []  # and whether it is subtracted
    operation, links, last = "", set[str](), result
    while isinstance(last, fun.Var) and last.name != param.name:
        let = bound.get(last.name)
        step = None if let is None else _step(let.expr, bound, param, unordered)
        if step is None or (operation and step[0] != operation):
            return None
        operation, previous, element, negated = step
        elements.append((element, negated))
        links.add(last.name)
        last = previous
    if not operation or not isinstance(last, fun.Var):
        return None
    if _uses(body, links) & {param.name, *links}:
        return None
    return Accumulation(operation, param.type.dtype, tuple(elements[::-1]), frozenset(links))


def _step(
    expr: fun.Expr, bound: Mapping[str, fun.Let], param: fun.Var, unordered: bool
) -> tuple[str, fun.Atom, fun.Atom, bool] | None:
    """(operation, what is accumulated so far, the element, whether it is subtracted)."""
    if not isinstance(expr, fun.Apply):
        return None
    if expr.operation == "subtract":
        return "add", expr.arguments[0], expr.arguments[1], True
    if expr.operation not in OPERATIONS:
        return None
    left, right = expr.arguments
    for one, other in ((left, right), (right, left)):
        if _leads_to(one, bound, param):
            return expr.operation, one, other, False
    return None


def _leads_to(atom: fun.Atom, bound: Mapping[str, fun.Let], param: fun.Var) -> bool:
    """Whether a value is made of the parameter by operations alone."""
    while isinstance(atom, fun.Var):
        if atom.name == param.name:
            return True
        let = bound.get(atom.name)
        if let is None or not isinstance(let.expr, fun.Apply):
            return False
        nearer = [a for a in let.expr.arguments if _leads_to(a, bound, param)]
        if len(nearer) != 1:
            return False
        atom = nearer[0]
    return False


def _uses(body: fun.Body, links: set[str]) -> set[str]:
    """Names that statements use which are no links of the accumulation."""
    used: set[str] = set()
    for let in body.statements:
        if let.pattern[0].name not in links:
            used |= walk.used_names(let.expr)
    return used


def without(body: fun.Body, links: Collection[str]) -> list[fun.Let]:
    """A body's statements that are no steps of accumulations."""
    return [let for let in body.statements if let.pattern[0].name not in links]


def reduction(
    space: tuple[fun.Range, ...], body: fun.Body, sums: Sequence[Accumulation], names: Names
) -> fun.Reduce:
    """All of some accumulations, over all of a space."""
    lefts, rights, lets = [], [], []
    for found in sums:
        type_ = fun.Scalar(found.dtype)
        left, right, both = (fun.Var(names.fresh(base), type_) for base in "abt")
        lets.append(fun.Let((both,), fun.Apply(found.operation, (left, right))))
        lefts.append(left)
        rights.append(right)
    results = tuple(let.pattern[0] for let in lets)
    operator = fun.Lambda((*lefts, *rights), fun.Body(tuple(lets), results))
    neutrals = tuple(neutral(found.operation, found.dtype) for found in sums)
    return fun.Reduce(space, len(space), body, operator, neutrals)


def neutral(operation: str, dtype: DType) -> fun.Const:
    """What an operation leaves as it is."""
    value: Any = 0
    match operation:
        case "add":
            value = -0.0 if dtype.kind == "f" else complex(-0.0, -0.0) if dtype.kind == "c" else 0
        case "multiply":
            value = 1
        case "logical_and":
            value = True
        case "bitwise_and":
            value = True if dtype is DType.BOOL else int(np.array(-1).astype(dtype.numpy))
        case "maximum" | "minimum":
            value = _extreme(dtype, operation == "maximum")
    if dtype.kind == "b":
        value = bool(value)
    elif dtype.kind == "f":
        value = float(value)
    elif dtype.kind == "c":
        value = complex(value)
    return fun.Const(value, dtype)


def _extreme(dtype: DType, least: bool) -> Any:
    if dtype.kind == "b":
        return not least
    if dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        return int(info.min if least else info.max)
    return -np.inf if least else np.inf


# ---------------------------------------------------------------- elements of arrays


@dataclass(frozen=True, slots=True)
class Elements:
    """One element that every round accumulates: x[dims] = operation(x[dims], element)."""

    number: int
    dims: Dims
    found: Accumulation
    body: fun.Body  # without the accumulation


def of_elements(
    chains: Mapping[int, Chain], loop: fun.Loop, rounds: Rounds, known: Knowledge
) -> Elements | None:
    """The element that every round of a loop accumulates, where that is all that it does."""
    if len(chains) != 1 or len(loop.params) != 1:
        return None
    ((number, chain),) = chains.items()
    if len(chain.writes) != 1:
        return None
    (write,) = chain.writes
    if any(isinstance(dim, fun.Span) or not dim.variables() <= rounds.outside
           for dim in write.dims):  # fmt: skip
        return None
    old = [
        let for let in loop.body.statements
        if isinstance(let.expr, fun.Index) and let.expr.array.name == chain.root.name
        and let.expr.indices == write.dims
    ]  # fmt: skip
    if len(old) != 1:
        return None
    statements = tuple(let for let in loop.body.statements if let not in (old[0], write.let))
    body = fun.Body(statements, (write.value,))
    found = of_scalar(old[0].pattern[0], write.value, body, unordered=False)
    if found is None:
        return None
    body = fun.Body(tuple(without(body, found.links)), ())
    written = Access(chain.root.name, write.dims, (), None)
    inside = known.within(rounds.index, rounds.lower, rounds.upper - 1)
    for access in reads(body, {chain.root.name}, ()):
        if not elements_apart(access, written, inside):
            return None
    return Elements(number, write.dims, found, body)
