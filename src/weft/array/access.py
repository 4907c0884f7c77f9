"""What keys read of lazy arrays, and write to them: `x[key]`."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array.keys import is_scalar_mask, resolved
from weft.array.lazy import Array
from weft.array.making import node_of
from weft.array.masks import Place, place_of
from weft.array.selected import Selected
from weft.frontend import indexing, layout
from weft.frontend.elementwise import apply, as_dtype
from weft.frontend.graph import Node


def get(array: Array, key: Any) -> Array:
    """`array[key]`."""
    entries = key if isinstance(key, tuple) else (key,)
    if any(isinstance(entry, Array) and entry.dtype == np.bool_ for entry in entries):
        place = place_of(key, array._node.shape)
        if place is not None:
            view = array if place.basic is None else get(array, place.basic)
            return Selected(view._node, place)
    return Array(indexing.get(array._node, resolved(key, array._node.shape)))


def put(node: Node, key: Any, value: Any, combine: str | None) -> Node:
    """An array with a value written to a key, or combined with what is there."""
    if isinstance(key, Array) and is_scalar_mask(key):  # whose value need not be known
        new = node_of(value)
        changed = new if combine is None else apply(combine, node, new)
        changed = layout.broadcast(as_dtype(changed, node.dtype), node.shape)
        return apply("where", node_of(key), changed, node)
    place = place_of(key, node.shape)
    made = None if place is None else _put_at(node, place, value, combine)
    if made is not None:
        return made
    return indexing.put(node, resolved(key, node.shape), node_of(value), combine)


def _put_at(node: Node, place: Place, value: Any, combine: str | None) -> Node | None:
    """An array with a value written to, or combined with, what a mask selects; None: not so."""
    key = None if place.basic is None else resolved(place.basic, node.shape)
    view = node if key is None else indexing.get(node, key)
    new = _value_at(place, view, value)
    if new is None:
        return None
    new = as_dtype(new, node.dtype)
    changed = new if combine is None else as_dtype(apply(combine, view, new), node.dtype)
    made = apply("where", place.spread(len(view.shape)), changed, view)
    return made if key is None else indexing.put(node, key, made, None)


def _value_at(place: Place, view: Node, value: Any) -> Node | None:
    """What is to be at a place, as it is where the mask selects all; None where none knows."""
    rank = len(view.shape)
    if isinstance(value, Selected) and value.place is not None:
        return value.whole if place.fits(value.place, view.shape, value.whole.shape) else None
    new = node_of(value)
    rest = place.rest(rank)
    while len(new.shape) > rest and new.shape[0].poly == 1:
        new = layout.squeeze(new, (0,))
    if len(new.shape) > rest:
        return None
    return layout.broadcast(new, view.shape[rank - rest :]) if new.shape else new
