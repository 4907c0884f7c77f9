"""Keys of which one entry is a mask: what they select is computed where it is."""

from __future__ import annotations

from dataclasses import field
from typing import Any, TypeAlias

import numpy as np

from weft.array.keys import require_fit, resolved
from weft.array.lazy import Array
from weft.array.making import node_of
from weft.frontend import indexing, layout, lengths, operations
from weft.frontend.extent import Extent
from weft.frontend.graph import Node, Shape
from weft.records import dataclass

Key: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a key points that has one mask, and else slices and integers beside it.

    Attributes
    ----------
    basic : tuple or None
        The key with all that the mask is over in its stead; None where that is the whole array.
    mask : Node
    axis : int
        Its first dimension among those of what `basic` gives.
    resolved : list
        The key of what the mask selects, once it has been computed, for all that it selects from.
    """

    basic: Key | None
    mask: Node
    axis: int
    resolved: list[Any] = field(default_factory=list)

    def rest(self, rank: int) -> int:
        """How many dimensions come after the mask's."""
        return rank - self.axis - len(self.mask.shape)

    def fits(self, other: Place, shape: Shape, of_other: Shape) -> bool:
        """Whether two places select the same, of arrays of shapes that are the same."""
        one = self.axis == other.axis and alike(self.mask, other.mask)
        return one and lengths.agree_all(shape, of_other)

    def spread(self, rank: int) -> Node:
        """The mask with dimensions of one for those after it."""
        mask = self.mask
        for _ in range(self.rest(rank)):
            mask = layout.expand(mask, len(mask.shape))
        return mask

    def compressed(self, whole: Node) -> Node:
        """What the mask selects, which computes it."""
        if not self.resolved:
            key = (*[slice(None)] * self.axis, Array(self.mask))
            self.resolved.append(resolved(key, whole.shape))
        return indexing.get(whole, self.resolved[0])


def place_of(key: Any, shape: Shape) -> Place | None:
    """The place of a key into a shape that has one mask; None of others."""
    entries = key if isinstance(key, tuple) else (key,)
    masks = [k for k, entry in enumerate(entries) if _is_mask(entry)]
    if len(masks) != 1 or not all(map(_is_plain, entries[: masks[0]] + entries[masks[0] + 1 :])):
        return None
    number = masks[0]
    mask = entries[number]
    covered = sum(entry is not Ellipsis for entry in entries) - 1 + mask.ndim
    missing = len(shape) - covered
    if missing < 0 or sum(entry is Ellipsis for entry in entries) > 1:
        return None  # which resolving the key refuses
    basic: list[Any] = []
    axis = 0
    for entry in entries[:number]:
        spans = [slice(None)] * missing if entry is Ellipsis else [entry]
        basic += spans
        axis += sum(isinstance(one, slice) for one in spans)
    at = len(basic)
    after = [
        one for entry in entries[number + 1 :]
        for one in ([slice(None)] * missing if entry is Ellipsis else [entry])
    ]  # fmt: skip
    if not _side_by_side([*basic, 0, *after]):
        return None  # NumPy moves what the mask selects to the front
    node = node_of(mask)
    require_fit(node, shape[at : at + len(node.shape)])
    whole = all(isinstance(one, slice) and one == slice(None) for one in (*basic, *after))
    spans = [slice(None)] * len(node.shape)
    return Place(None if whole else (*basic, *spans, *after), node, axis)


def _is_mask(entry: Any) -> bool:
    return isinstance(entry, Array | np.ndarray) and entry.dtype == np.bool_ and entry.ndim > 0


def _is_plain(entry: Any) -> bool:
    """Whether an entry is a slice, an ellipsis, or an integer."""
    if isinstance(entry, bool | np.bool_):
        return False
    if isinstance(entry, Array):
        return not entry.ndim and entry._node.dtype.is_integer
    return entry is Ellipsis or isinstance(entry, slice | int | np.integer | Extent)


def _side_by_side(entries: list[Any]) -> bool:
    """Whether no slice is between entries that are none."""
    places = [k for k, entry in enumerate(entries) if not isinstance(entry, slice)]
    return places[-1] - places[0] == len(places) - 1


def alike(left: Node, right: Node) -> bool:
    """Whether two nodes are the same operations on the same nodes."""
    known: set[tuple[int, int]] = set()
    pairs = [(left, right)]
    while pairs:
        left, right = pairs.pop()
        if left is right or (id(left), id(right)) in known:
            continue
        if not _do_the_same(left, right):
            return False
        known.add((id(left), id(right)))
        pairs += zip(left.inputs, right.inputs, strict=True)
    return True


def _do_the_same(left: Node, right: Node) -> bool:
    """Whether two nodes are the same operation, on inputs that may differ."""
    return (
        (len(left.inputs) > 0 or isinstance(left.operation, operations.Constant))
        and left.operation == right.operation
        and not (left.lambdas or right.lambdas)
        and left.dtype is right.dtype
        and [size.poly for size in left.sizes] == [size.poly for size in right.sizes]
        and len(left.inputs) == len(right.inputs)
    )
