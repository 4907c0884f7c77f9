"""Views of lazy arrays, which NumPy's users write through: `row = x[0]; row += 1` changes x.

A view knows the array that it is of, and what of it: reading follows what has been written to that
array since, and writing writes there. What is not seen as a view, as what index arrays give, is an
array of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.array.lazy import Array
from weft.frontend import indexing, layout
from weft.frontend.elementwise import apply
from weft.frontend.extent import Extent
from weft.frontend.graph import Node, Shape
from weft.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Keyed:
    """What a basic key selects; `given` is the key as the user's code has it."""

    key: Any
    given: Any

    def get(self, node: Node) -> Node:
        return indexing.get(node, self.key)

    def put(self, node: Node, part: Node) -> Node:
        return indexing.put(node, self.key, part)


@dataclass(frozen=True, slots=True, eq=False)
class Turned:
    """The dimensions in another order."""

    order: tuple[int, ...]

    def get(self, node: Node) -> Node:
        return layout.permute(node, self.order)

    def put(self, node: Node, part: Node) -> Node:
        return layout.permute(part, [self.order.index(axis) for axis in range(len(self.order))])


@dataclass(frozen=True, slots=True, eq=False)
class Reshaped:
    """The elements row by row, in another shape."""

    shape: Shape

    def get(self, node: Node) -> Node:
        return layout.reshape(node, self.shape)

    def put(self, node: Node, part: Node) -> Node:
        return layout.reshape(part, node.shape)


@dataclass(frozen=True, slots=True, eq=False)
class ComplexPart:
    """The real or the imaginary parts."""

    name: str

    def get(self, node: Node) -> Node:
        return apply(self.name, node)

    def put(self, node: Node, part: Node) -> Node:
        other = apply("imag" if self.name == "real" else "real", node)
        return apply("complex", *((part, other) if self.name == "real" else (other, part)))


Part = Keyed | Turned | Reshaped | ComplexPart


class View(Array):
    """A part of another array.

    Attributes
    ----------
    whole : Array
        What it is of, which is no view.
    parts : tuple
        What of it, one after another.
    seen, known : Node
        What the whole was when the view was last read, and what the view was then.
    under : Node or None
        What the whole was before the view was written, until another write comes between: the next
        write of the view is in place of that one.
    """

    __slots__ = ("known", "parts", "seen", "under", "whole")

    def __init__(self, whole: Array, parts: tuple[Part, ...], seen: Node, known: Node) -> None:
        self.whole = whole
        self.parts = parts
        self.seen = seen
        self.known = known
        self.under: Node | None = None

    @property
    def _node(self) -> Node:
        whole = self.whole._node
        if whole is not self.seen:
            node = whole
            for part in self.parts:
                node = part.get(node)
            self.seen, self.known, self.under = whole, node, None
        return self.known

    @_node.setter
    def _node(self, node: Node) -> None:
        whole = self.whole._node
        under = whole if self.under is None or whole is not self.seen else self.under
        nodes = [under]
        for part in self.parts[:-1]:
            nodes.append(part.get(nodes[-1]))
        written = node
        for part, of in zip(reversed(self.parts), reversed(nodes), strict=True):
            written = part.put(of, written)
        self.whole._node = written
        self.seen, self.known, self.under = self.whole._node, node, under


def of(array: Array, part: Part, node: Node) -> View:
    """The part of an array, which it gives as a node."""
    if isinstance(array, View):
        return View(array.whole, (*array.parts, part), array.whole._node, node)
    return View(array, (part,), array._node, node)


def keyed(array: Array, key: Any, given: Any) -> Array:
    """What a key selects: a view where the key is basic, and gives no single element."""
    node = indexing.get(array._node, key)
    entries = key if isinstance(key, tuple) else (key,)
    if node.shape:
        basic = all(not isinstance(one, bool) and not (isinstance(one, Node) and one.shape)
                    for one in entries)  # fmt: skip
    else:
        basic = any(one is Ellipsis for one in entries)
    return of(array, Keyed(key, given), node) if basic else Array(node)


def turned(array: Array, order: Sequence[int], node: Node | None = None) -> View:
    """The array with its dimensions in another order."""
    axes = tuple(order)
    return of(array, Turned(axes), layout.permute(array._node, axes) if node is None else node)


def reshaped(array: Array, node: Node, always: bool = False) -> Array:
    """The array in a node's shape: a view where NumPy need not copy elements that lie apart."""
    if always or not isinstance(array, View) or all(map(_is_stretch, array.parts)):
        return of(array, Reshaped(node.shape), node)
    return Array(node)


def _is_stretch(part: Part) -> bool:
    """Whether a part of what lies row by row does so: rows, and a run of them."""
    if isinstance(part, Reshaped):
        return True
    if isinstance(part, Turned):
        return part.order == tuple(range(len(part.order)))
    if isinstance(part, ComplexPart):
        return False
    entries = part.key if isinstance(part.key, tuple) else (part.key,)
    runs = [one for one in entries if not isinstance(one, int | Extent) and one is not None]
    inner = [one for one in runs if one is not Ellipsis and one != slice(None)]
    if not inner:
        return entries[len(entries) - len(runs) :] == tuple(runs) or not runs
    first = inner[0]
    one_run = len(inner) == 1 and isinstance(first, slice) and first.step in (None, 1)
    return one_run and runs[0] is first and entries[len(entries) - len(runs) :] == tuple(runs)


def is_written(array: Array, key: Any, value: Any) -> bool:
    """Whether a value is a view by this key, so that the array has it: of `x[key] += y`."""
    if type(value) is not View or value.parts[-1].__class__ is not Keyed:
        return False
    own, whole = (array.parts, array.whole) if isinstance(array, View) else ((), array)
    last = value.parts[-1]
    assert isinstance(last, Keyed)
    return (
        value.whole is whole and last.given is key and value.parts[:-1] == own
        and whole._node is value.seen
    )  # fmt: skip
