"""Statements as a graph of uses, so that passes can join them and put them in order again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.fun import nodes as fun
from weft.fun import walk
from weft.records import dataclass


@dataclass(slots=True)
class Node:
    """A statement, perhaps joined of several, and the nodes whose results it uses."""

    let: fun.Let
    needs: set[int]


def nodes_of(statements: Sequence[fun.Let]) -> dict[int, Node]:
    """A node for each statement, by its position."""
    owner: dict[str, int] = {}
    nodes: dict[int, Node] = {}
    for number, let in enumerate(statements):
        used = set(walk.used_names(let.expr))
        for var in let.pattern:
            for size in walk.type_sizes(var.type):
                used |= size.variables()
        nodes[number] = Node(let, {owner[name] for name in used if name in owner})
        owner.update((var.name, number) for var in let.pattern)
    return nodes


def depends(nodes: Mapping[int, Node], number: int, on: int) -> bool:
    """Whether there is a path of uses from one node to another (or they are the same)."""
    seen: set[int] = set()
    stack = [number]
    while stack:
        at = stack.pop()
        if at == on:
            return True
        if at not in seen:
            seen.add(at)
            stack.extend(nodes[at].needs)
    return False


def in_order(nodes: Mapping[int, Node]) -> list[fun.Let]:
    """The statements, each after those it needs, otherwise in the order they had."""
    placed: dict[int, None] = {}

    def place(number: int) -> None:
        if number not in placed:
            for need in sorted(nodes[number].needs):
                place(need)
            placed[number] = None

    for number in sorted(nodes):
        place(number)
    return [nodes[number].let for number in placed]
