"""What a graph looks like, whatever its sizes and data: the key of compiled programs.

Two graphs of one key give the same program, but for the names of nodes: they have the same
operations, ranks, dtypes, dimensions of 0 and 1, constants and guards. Size variables are
numbered in the order in which the walk meets them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from weft.frontend.extent import Extent, variable_value
from weft.frontend.graph import Node
from weft.frontend.operations import Leaf, Param
from weft.sizes import Derived, Poly, least


class Walk:
    """The nodes of a graph in an order in which inputs come first.

    Attributes
    ----------
    nodes : list of Node
    leaves : list of Node
        The data, in the order in which the walk meets it.
    names : dict of str to str
        The program's name of each size variable of the graph.
    values : dict of str to int
        What each of them is, by the program's name.
    derived : list of Derived
        Sizes computed from them, in order, by the program's names.
    key : tuple
        Hashable; equal for graphs that give the same program.
    """

    def __init__(self, outputs: Sequence[Node]) -> None:
        self.nodes: list[Node] = []
        self.leaves: list[Node] = []
        self.names: dict[str, str] = {}
        self.values: dict[str, int] = {}
        self.derived: list[Derived] = []
        self.derived_names: dict[Derived, str] = {}
        self.renamed: dict[Poly, Poly] = {}
        self.entries: list[Hashable] = []
        self.numbers: dict[Node, int] = {}
        self.visit(outputs)
        self.entries.append(tuple([self.numbers[node] for node in outputs]))
        self.key = tuple(self.entries)

    def visit(self, outputs: Sequence[Node]) -> None:
        numbers = self.numbers
        stack = list(reversed(outputs))
        opened: set[Node] = set()  # nodes whose lambdas' parameters have been numbered
        while stack:
            node = stack[-1]
            if node in numbers:
                stack.pop()
                continue
            waiting = [source for source in node.needs if source not in numbers]
            if node.lambdas:
                if not waiting and node not in opened:
                    opened.add(node)
                    for function in node.lambdas:
                        for param in function.params:
                            if param not in numbers:  # one lambda may be used twice
                                self._add(param)
                for function in node.lambdas:
                    waiting += [result for result in function.results if result not in numbers]
            if waiting:
                waiting.reverse()
                stack += waiting
                continue
            stack.pop()
            self._add(node)

    def _add(self, node: Node) -> None:
        numbers = self.numbers
        numbers[node] = len(self.nodes)
        self.nodes.append(node)
        operation = node.operation
        if type(operation) is Leaf:
            self.leaves.append(node)
            self._name_dimensions(node.shape)
            self.entries.append((operation, node.weak))
            return
        entry: tuple[Any, ...] = (operation, *[numbers[source] for source in node.inputs])
        if node.sizes:
            entry = (*entry, *[self._size(extent) for extent in node.sizes])
        if node.lambdas:
            for function in node.lambdas:
                entry = (
                    *entry,
                    tuple([numbers[param] for param in function.params]),
                    tuple([numbers[result] for result in function.results]),
                )
        elif type(operation) is Param:
            entry = (*entry, node.dtype)
        if node.guards:
            for guard in node.guards:  # all of them: those of an operation that made no node too
                fact = guard.fact
                self.add_derived(guard.derived)
                entry = (*entry, fact.relation, fact.divisor, self.rename(fact.poly))
        self.entries.append(entry)

    def _name_dimensions(self, shape: tuple[Extent, ...]) -> None:
        for extent in shape:
            name = extent.poly.variable
            if name is not None and name not in self.names:
                self._name(name)

    def _name(self, name: str) -> str:
        kind = "n" if least(name) else "any"
        found = self.names[name] = f"{kind}{len(self.names)}"
        self.values[found] = variable_value(name)
        return found

    def _size(self, extent: Extent) -> Hashable:
        if extent.poly.is_constant:
            return extent.value
        for symbol in extent.symbols:
            self.names[symbol.name] = f"@{self.numbers[symbol.node]}"
        if extent.derived:
            self.add_derived(extent.derived)
        return self.rename(extent.poly)

    def add_derived(self, entries: tuple[Derived, ...]) -> None:
        """Name sizes that are computed from others, those that they need first."""
        for entry in entries:
            if entry.name not in self.names:
                left, right = self.rename(entry.left), self.rename(entry.right)
                known = Derived("", entry.operation, left, right)
                name = self.derived_names.get(known)
                if name is None:
                    name = self.derived_names[known] = f"d{len(self.derived_names)}"
                    self.derived.append(Derived(name, entry.operation, left, right))
                    self.entries.append(known)
                self.names[entry.name] = name

    def rename(self, poly: Poly) -> Poly:
        """The polynomial over the program's names."""
        found = self.renamed.get(poly)
        if found is None:
            renaming: dict[str, Poly | int] = {}
            for monomial in poly.terms:
                for name in monomial:
                    renaming[name] = Poly.var(self.names.get(name) or self._name(name))
            found = self.renamed[poly] = poly.substitute(renaming)
        return found


def graph_key(outputs: Sequence[Node]) -> Walk:
    """The walk of a graph: its `key`, `leaves`, and `values` of sizes.

    The order of `leaves` is that of the parameters of the program that `trace` makes of any
    graph of the key, and `values` holds its sizes.
    """
    return Walk(outputs)
