"""The arguments of compiled functions: data, keys, and what stands for them while tracing."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.array import Array, asarray
from weft.array.making import order_of_rows, refuse_masked
from weft.errors import ArgumentTypeError, UnsupportedError, user_place
from weft.frontend import extent as extents
from weft.frontend import graph
from weft.frontend.containers import flatten, unflatten
from weft.frontend.extent import Extent
from weft.frontend.graph import Node
from weft.frontend.guards import Guard
from weft.frontend.key import Walk
from weft.ops.dtypes import DType, from_numpy
from weft.records import dataclass
from weft.sizes import Fact

Origin: TypeAlias = tuple[int, int] | int
"""Of a size variable: (argument, axis), or its fixed value as an int."""


@dataclass(frozen=True, slots=True)
class Argument:
    """What stands for an argument while a function is traced."""

    number: int

    def describe(self) -> str:
        return f"argument {self.number}"


class Static:
    """Stands for a static argument among the others."""

    def __repr__(self) -> str:
        return "static"


STATIC = Static()


@dataclass(slots=True)
class Foreign:
    """An argument of another array library, and how to give results of its kind."""

    data: npt.NDArray[Any]
    namespace: Any

    def restore(self, result: Any) -> Any:
        leaves: list[Any] = []
        structure = flatten(result, leaves)
        make = self.namespace.from_dlpack
        return unflatten(structure, iter([
            make(np.asarray(leaf)) if isinstance(leaf, np.ndarray | np.generic) else leaf
            for leaf in leaves
        ]))  # fmt: skip


def as_data(leaf: Any) -> Any:
    """An argument as a NumPy array, lazy array, Python scalar, or static value."""
    if isinstance(leaf, np.ndarray):
        refuse_masked(leaf)
        from_numpy(leaf.dtype)
        return leaf if leaf.dtype.isnative else leaf.astype(leaf.dtype.newbyteorder("="))
    if isinstance(leaf, np.generic):
        from_numpy(leaf.dtype)
        return np.asarray(leaf)
    if isinstance(leaf, Array | Extent | bool | int | float | complex | str | None | type | Static):
        return leaf
    if hasattr(leaf, "__dlpack__"):
        if leaf.__dlpack_device__()[0] != 1:
            raise UnsupportedError(
                f"an argument on device {leaf.__dlpack_device__()}", "arrays on the CPU",
                place=user_place(),
            )  # fmt: skip
        return Foreign(np.from_dlpack(leaf), _namespace(leaf))
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return asarray(leaf)
    try:
        hash(leaf)
    except TypeError:
        raise ArgumentTypeError(
            f"an argument of type {type(leaf).__name__}",
            "arrays, numbers, and containers of them",
            "name it in static_argnames, if it is hashable",
            place=user_place(),
        ) from None
    return leaf


def _namespace(leaf: Any) -> Any:
    if hasattr(leaf, "__array_namespace__"):
        return leaf.__array_namespace__()
    return sys.modules[type(leaf).__module__.split(".")[0]]


def concrete(leaf: Any) -> Any:
    """Data of the shape and dtype of a lazy array, taking no memory, for tracing alone."""
    if isinstance(leaf, Foreign):
        return leaf.data
    if isinstance(leaf, Array):
        shape = tuple(e.value for e in leaf._node.shape)
        return np.broadcast_to(np.zeros((), leaf.dtype), shape)
    return leaf


Orders: TypeAlias = tuple[tuple[int, tuple[int, ...]], ...]
"""Of the arguments that lie row by row in another order of their axes: number and order."""


def row_by_row(leaves: list[Any]) -> tuple[list[Any], Orders]:
    """Arguments with their axes in the order in which they lie, and which these are.

    A sum along what lies side by side in memory is then one of rows, and a product the library's.
    """
    orders = tuple(
        (number, order)
        for number, leaf in enumerate(leaves)
        if isinstance(leaf, np.ndarray) and (order := order_of_rows(leaf)) is not None
    )
    if orders:
        leaves = leaves.copy()
        for number, order in orders:
            leaves[number] = leaves[number].transpose(order)
    return leaves, orders


def exact_key(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        return leaf.shape, leaf.dtype
    if isinstance(leaf, float | complex):
        return type(leaf)
    return type(leaf), leaf


def _is_size(leaf: Any) -> bool:
    """Whether it is an int of any value; those that no int64 holds are part of the program."""
    return isinstance(leaf, int) and not isinstance(leaf, bool) and -(2**63) < leaf < 2**63


def pattern_key(leaf: Any, any_length: bool = False) -> Any:
    """What of an argument one trace serves; one for any length serves 0 and 1 as other numbers."""
    if isinstance(leaf, np.ndarray):
        few = -1 if any_length else 2
        return leaf.dtype, tuple([n if n < few else -1 for n in leaf.shape])
    if isinstance(leaf, float | complex):
        return type(leaf)
    if _is_size(leaf):
        if -2 < leaf < 2 and not any_length:
            return int, leaf
        return int, "negative" if leaf < 0 else "some"
    return type(leaf), leaf


def kind_of(static: Any) -> Any:
    """What tells a static value from others that are equal to it: types, and signs of zeros."""
    if isinstance(static, tuple):
        return type(static), *map(kind_of, static)
    if isinstance(static, frozenset):
        return type(static), frozenset((value, kind_of(value)) for value in static)
    if dataclasses.is_dataclass(static) and not isinstance(static, type):
        parts = dataclasses.fields(static)
        return type(static), *(kind_of(getattr(static, part.name)) for part in parts)
    if isinstance(static, float | complex | np.generic):
        return type(static), repr(static)
    return type(static)


@dataclass(slots=True)
class Placed:
    """An argument's stand-in: what the function gets, and where sizes come from."""

    value: Any
    node: Node | None = None
    extent: Extent | None = None


def placeholder(leaf: Any, number: int, any_length: bool = False) -> Placed:
    if isinstance(leaf, np.ndarray):
        shape = tuple([extents.variable(n, any_length) for n in leaf.shape])
        node = graph.leaf(Argument(number), shape, from_numpy(leaf.dtype), abstract=True)
        return Placed(Array(node), node)
    if isinstance(leaf, float | complex):
        dtype = DType.F64 if isinstance(leaf, float) else DType.C128
        node = graph.leaf(Argument(number), (), dtype, weak=True, abstract=True)
        return Placed(Array(node), node)
    if _is_size(leaf):
        extent = extents.variable(leaf, any_length)
        return Placed(leaf if extent.is_constant else extent, extent=extent)
    return Placed(leaf)


def origins_of(walk: Walk, placed: list[Placed]) -> dict[str, Origin]:
    """Where the value of each size variable of a graph comes from."""
    found: dict[str, Origin] = {}
    for number, place in enumerate(placed):
        if place.node is not None:
            for axis, extent in enumerate(place.node.shape):
                name = extent.poly.variable
                if name is not None:
                    found[name] = (number, axis)
        elif place.extent is not None:
            for name in place.extent.poly.variables():
                found[name] = (number, -1)
    return {
        renamed: found.get(name, walk.values[renamed])
        for name, renamed in walk.names.items()
        if renamed in walk.values
    }


def facts_of(walk: Walk, guards: Sequence[Guard]) -> tuple[Fact, ...]:
    """All that must hold of a call's sizes for the trace to be the same."""
    every = [guard for node in walk.nodes for guard in node.guards] + list(guards)
    facts = []
    for guard in every:
        walk.add_derived(guard.derived)
        fact = guard.fact
        facts.append(Fact(fact.relation, walk.rename(fact.poly), fact.divisor))
    return tuple(dict.fromkeys(facts))


def data_of(leaf: Node) -> Any:
    """The data of a leaf that the function holds itself."""
    value = leaf.value
    return (
        value
        if isinstance(value, np.ndarray) or hasattr(value, "read")
        else np.asarray(value, leaf.dtype.numpy)
    )
