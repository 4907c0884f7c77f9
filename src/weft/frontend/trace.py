"""From a graph to a FUN program.

    trace(outputs) -> Traced

Sizes that the graph's operations require to be equal become one; every node becomes a
statement in the body that it belongs to, but for elementwise operations used once, which are
computed in the kernel of their consumer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.frontend.emit import Emitter
from weft.frontend.graph import Node
from weft.frontend.guards import Guard
from weft.frontend.key import Walk, graph_key
from weft.frontend.operations import Leaf
from weft.frontend.symbolic import require_one_shape
from weft.fun import nodes as fun
from weft.fun.builder import Builder, Names
from weft.records import dataclass
from weft.sizes import Derived, Fact, Poly, Size, as_poly, least


@dataclass(frozen=True, slots=True)
class Traced:
    """A program and what it was made of.

    Attributes
    ----------
    program : fun.Program
    leaves : list of Node
        The data of each parameter, in order: `leaf.value`.
    values : dict of str to int
        The size variables of the graph, by the program's names (also those that were
        found to be equal to others, which the program no longer has).
    """

    program: fun.Program
    leaves: list[Node]
    values: dict[str, int]


def trace(
    outputs: Sequence[Node],
    name: str = "main",
    guards: Sequence[Guard] = (),
    parameters: Mapping[Node, str] | None = None,
    walk: Walk | None = None,
) -> Traced:
    """The program that computes nodes.

    Parameters
    ----------
    outputs : sequence of Node
    name : str
        The program's name.
    guards : sequence of Guard
        Those of the whole trace (a compiled function's); they become facts.
    parameters : mapping of Node to str, optional
        Names for leaves.
    walk : Walk, optional
        `graph_key(outputs)`, where the caller has it already.
    """
    walk = graph_key(outputs) if walk is None else walk
    sizes = Unifier(walk)
    for node in walk.nodes:
        for guard in node.guards:
            sizes.add(guard)
    for guard in guards:
        sizes.add(guard)
    used = dict(walk.values)
    derived = sizes.derived()
    names = Names([*used, *(entry.name for entry in derived)])
    params = []
    for leaf in walk.leaves:
        given = (parameters or {}).get(leaf, "x")
        base = given if given.isascii() and given.isidentifier() else "x"
        params.append(fun.Var(names.fresh(base), _type(leaf, sizes)))
    builder = Builder(names)
    emitter = Emitter(builder, walk, sizes.size, dict(zip(walk.leaves, params, strict=True)))
    for node in outputs:
        require_one_shape(node)
    results = [emitter.result(node) for node in outputs]
    kept = tuple(name for name in used if name not in sizes.equal)
    facts = tuple(dict.fromkeys(sizes.facts()))
    program = fun.Program(name, tuple(params), builder.body(results), kept, tuple(derived), facts)
    return Traced(program, walk.leaves, walk.values)


def _type(leaf: Node, sizes: Unifier) -> fun.Type:
    assert isinstance(leaf.operation, Leaf)
    if not leaf.shape:
        return fun.Scalar(leaf.dtype)
    return fun.Array(leaf.dtype, tuple(sizes.size(extent.poly) for extent in leaf.shape))


def _difference(left: str, right: str) -> Poly:
    return Poly.var(left) - Poly.var(right)


def _in_order(entries: list[Derived]) -> list[Derived]:
    """Those first that others need: an equality may have put a later size into an earlier one."""
    names = {entry.name for entry in entries}
    ordered: list[Derived] = []
    while entries:
        ready = next(
            entry for entry in entries
            if names.isdisjoint(entry.left.variables() | entry.right.variables())
        )  # fmt: skip
        names.remove(ready.name)
        entries = [entry for entry in entries if entry is not ready]
        ordered.append(ready)
    return ordered


class Unifier:
    """Size variables made equal where the graph requires it.

    An equality `n = p`, p without n, removes the variable that the walk met last; what
    cannot be solved so stays a fact.
    """

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self.equal: dict[str, Size] = {}  # removed variables; values hold none of them
        self.kept: list[Fact] = []
        self.memo: dict[Poly, Size] = {}
        self.order = walk.values

    def size(self, poly: Poly) -> Size:
        """A polynomial of the graph, over the program's sizes."""
        found = self.memo.get(poly)
        if found is None:
            found = self.memo[poly] = self.walk.rename(poly).substitute(self.equal)
        return found

    def add(self, guard: Guard) -> None:
        self.walk.add_derived(guard.derived)
        fact = guard.fact
        poly = self.walk.rename(fact.poly).substitute(self.equal)
        if fact.relation != "==0" or not self._solve(poly):
            self.kept.append(Fact(fact.relation, poly, fact.divisor))

    def _solve(self, poly: Poly) -> bool:
        if poly == 0:
            return True
        known = list(self.order)
        candidates = [
            name for name in poly.variables()
            if name in self.order and poly.degree(name) == 1 and poly.coefficient(name) in (1, -1)
            and not self._derives(name, poly)
        ]  # fmt: skip
        if not candidates:
            return self._solve_derived(poly)
        name = max(candidates, key=known.index)
        rest = poly.without(name)
        value = -rest if poly.coefficient(name) == 1 else rest
        self._remove(name, value)
        if not value.is_constant and value.variable is None:
            self.kept.append(Fact(">=0", value - least(name)))
        return True

    def _solve_derived(self, poly: Poly) -> bool:
        """A derived size that is a constant; two that are equal: the later becomes the first."""
        names = [entry.name for entry in self.walk.derived if entry.name in poly.variables()]
        if len(names) == 1 and poly.degree(names[0]) == 1:
            factor, rest = poly.coefficient(names[0]), poly.without(names[0])
            if factor not in (1, -1) or not rest.is_constant:
                return False
            self._remove(names[0], as_poly(-factor.constant * rest.constant))
        elif len(names) == 2 and poly in (_difference(*names), _difference(*names[::-1])):
            self._remove(names[1], Poly.var(names[0]))
        else:
            return False
        return True

    def _remove(self, name: str, value: Size) -> None:
        self.equal = {n: p.substitute({name: value}) for n, p in self.equal.items()}
        self.equal[name] = value
        self.memo.clear()

    def _derives(self, name: str, poly: Poly) -> bool:
        """Whether a derived size of the polynomial is computed from the variable."""
        entries = {entry.name: entry for entry in self.walk.derived}
        stack = [entries[other] for other in poly.variables() if other in entries]
        while stack:
            entry = stack.pop()
            sides = (entry.left.substitute(self.equal), entry.right.substitute(self.equal))
            needed = sides[0].variables() | sides[1].variables()
            if name in needed:
                return True
            stack += [entries[other] for other in needed if other in entries]
        return False

    def derived(self) -> list[Derived]:
        """The derived sizes, those computed alike being one."""
        found: dict[Derived, str] = {}
        result = []
        for entry in self.walk.derived:
            if entry.name in self.equal:
                continue
            left, right = entry.left.substitute(self.equal), entry.right.substitute(self.equal)
            same = found.get(Derived("", entry.operation, left, right))
            if same is not None:
                self._remove(entry.name, Poly.var(same))
                continue
            found[Derived("", entry.operation, left, right)] = entry.name
            result.append(Derived(entry.name, entry.operation, left, right))
        return _in_order(result)

    def facts(self) -> list[Fact]:
        """What is left to check: no fact that holds of all sizes."""
        result = []
        for fact in self.kept:
            poly = fact.poly.substitute(self.equal)
            if not poly.is_constant:
                result.append(Fact(fact.relation, poly, fact.divisor))
        return result


__all__ = ["Traced", "Walk", "graph_key", "trace"]
