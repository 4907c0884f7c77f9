"""Nested tuples, lists, dictionaries and dataclasses, as flat lists and back."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

Structure: TypeAlias = Any
"""Hashable: None for one value, or (kind, its parts' structures)."""


def flatten(value: Any, leaves: list[Any]) -> Structure:
    """Append the values inside containers to `leaves`; the structure builds them again."""
    if isinstance(value, tuple):
        return (type(value), tuple([flatten(part, leaves) for part in value]))
    if isinstance(value, list):
        return (list, tuple([flatten(part, leaves) for part in value]))
    if isinstance(value, dict):
        kind = OrderedDict if isinstance(value, OrderedDict) else dict
        return (kind, tuple([(key, flatten(part, leaves)) for key, part in value.items()]))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [
            (f.name, flatten(getattr(value, f.name), leaves)) for f in dataclasses.fields(value)
        ]
        return (type(value), tuple(parts))
    leaves.append(value)
    return None


def unflatten(structure: Structure, leaves: Iterator[Any]) -> Any:
    """The containers of a structure around values."""
    if structure is None:
        return next(leaves)
    kind, parts = structure
    if kind is dict or kind is OrderedDict:
        return kind((key, unflatten(part, leaves)) for key, part in parts)
    if dataclasses.is_dataclass(kind):
        given = {name: unflatten(part, leaves) for name, part in parts}
        others = [f.name for f in dataclasses.fields(kind) if not f.init]
        late = {name: given.pop(name) for name in others}
        make: Any = kind
        made = make(**given)
        for name, value in late.items():
            object.__setattr__(made, name, value)  # of frozen ones too
        return made
    values = [unflatten(part, leaves) for part in parts]
    if kind is list or kind is tuple:
        return kind(values)
    return kind(*values)  # a named tuple


def count_leaves(structure: Structure) -> int:
    """How many values the containers of a structure hold."""
    if structure is None:
        return 1
    kind, parts = structure
    if kind is dict or kind is OrderedDict or dataclasses.is_dataclass(kind):
        parts = [part for _, part in parts]
    return sum(map(count_leaves, parts))


def map_leaves(function: Callable[[Any], Any], value: Any) -> Any:
    """The containers with a function applied to each value."""
    leaves: list[Any] = []
    structure = flatten(value, leaves)
    return unflatten(structure, iter([function(leaf) for leaf in leaves]))
