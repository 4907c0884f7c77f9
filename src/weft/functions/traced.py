"""Tracing the functions that combinators take: Python functions to lambdas of the graph."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from weft.array import Array, node_of, strong
from weft.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError, user_place
from weft.frontend import extent as extents
from weft.frontend import graph, layout, operations, symbolic
from weft.frontend.containers import Structure, flatten, unflatten
from weft.frontend.elementwise import as_dtype, common_dtype
from weft.frontend.extent import Extent
from weft.frontend.graph import Lambda, Node, Scope, Shape
from weft.frontend.guards import record, recording
from weft.functions.statistical import greatest, least
from weft.ops.dtypes import DType

Types = tuple[tuple[Shape, DType], ...]


def trace(
    function: Callable[..., Any],
    parameters: Callable[[Scope], Sequence[Node]],
    call: Callable[[Sequence[Array]], Any] | None = None,
    *,
    fixed: bool = False,
) -> tuple[Lambda, Structure]:
    """A function as a lambda, and the containers of its results.

    Parameters
    ----------
    function : callable
        Of one array for each parameter, unless `call` says how it is called.
    parameters : callable
        Makes the parameters in the body's scope.
    fixed : bool
        The body is a branch: what is made in it stays in it.
    """
    if not callable(function):
        raise ArgumentTypeError(
            f"a {type(function).__name__} where a function is needed", "a function",
            place=user_place(),
        )  # fmt: skip
    with recording() as guards, graph.Tracing(fixed) as scope:
        params = tuple(parameters(scope))
        arrays = [Array(param) for param in params]
        result = function(*arrays) if call is None else call(arrays)
        leaves: list[Any] = []
        structure = flatten(result, leaves)
        results = tuple([node_of(leaf) for leaf in leaves])
    record(guards)
    for node in results:
        symbolic.require_one_shape(node, scope.depth)
    return Lambda(params, results, scope), structure


def with_results(function: Lambda, results: Sequence[Node]) -> Lambda:
    return Lambda(function.params, tuple(results), function.scope)


def settled(function: Lambda, dtypes: Sequence[DType]) -> Lambda:
    """The lambda with its results converted, which happens inside of it."""
    with _inside(function):
        results = [
            strong(node, dtype) if node.weak else as_dtype(node, dtype)
            for node, dtype in zip(function.results, dtypes, strict=True)
        ]
    return with_results(function, results)


class _inside:  # noqa: N801 - read as a verb: `with _inside(function):`
    """Make more nodes in the body of a lambda that has been traced."""

    def __init__(self, function: Lambda) -> None:
        self.tracing = graph.Tracing()
        self.tracing.scope = function.scope

    def __enter__(self) -> None:
        self.tracing.__enter__()

    def __exit__(self, *error: object) -> None:
        self.tracing.__exit__(*error)


def types_of(function: Lambda) -> Types:
    """Shapes and dtypes of a lambda's results; Python scalars have their default dtypes."""
    return tuple((node.shape, node.dtype) for node in function.results)


def picked(node: Node, structure: Structure) -> Any:
    """All results of a node, in containers."""
    assert node.types is not None
    results = [Array(graph.pick(node, k)) for k in range(len(node.types))]
    return unflatten(structure, iter(results))


def index_parameter(scope: Scope, name: str, lower: Extent, upper: Extent) -> Node:
    """An index that is a parameter: lower <= index < upper. Errors call it `name`."""
    node = graph.parameter("i", (), DType.I64, scope, index=True)
    symbolic.bounded(node, name, lower, upper)
    return node


def parameter_names(function: Any, count: int) -> list[str]:
    """What a function calls its first parameters, where that is known."""
    code = getattr(function, "__code__", None)
    given = () if code is None else code.co_varnames[: code.co_argcount]
    return [*given[:count], *"ijklmn"[len(given) :], *["i"] * count][:count]


# ---------------------------------------------------------------- what loops carry


class Carried:
    """Values that a loop or an operator takes and gives back, of the same shapes and dtypes.

    A value made of Python scalars takes the dtype of what comes back.
    """

    def __init__(self, values: Any) -> None:
        leaves: list[Any] = []
        self.structure = flatten(values, leaves)
        self.nodes = [node_of(leaf) for leaf in leaves]
        self.weak = [node.weak for node in self.nodes]
        self.dtypes = [node.dtype for node in self.nodes]

    def parameters(self, scope: Scope) -> list[Node]:
        return [
            graph.parameter("v", node.shape, dtype, scope)
            for node, dtype in zip(self.nodes, self.dtypes, strict=True)
        ]

    def values(self, arrays: Sequence[Array]) -> Any:
        return unflatten(self.structure, iter(arrays))

    def initial(self) -> tuple[Node, ...]:
        return tuple(
            strong(node, dtype) if node.weak else as_dtype(node, dtype)
            for node, dtype in zip(self.nodes, self.dtypes, strict=True)
        )

    def types(self) -> Types:
        return tuple((n.shape, d) for n, d in zip(self.nodes, self.dtypes, strict=True))

    def accept(self, results: Sequence[Node], structure: Structure, what: str) -> bool:
        """Check what comes back; False where dtypes changed, and tracing must start again."""
        if structure != self.structure:
            raise ArgumentError(
                f"{what} gives {_shown(structure)}",
                f"what it takes: {_shown(self.structure)}",
                place=user_place(),
            )
        stable = True
        for k, (node, result) in enumerate(zip(self.nodes, results, strict=True)):
            if layout.values(node.shape) != layout.values(result.shape):
                raise ShapeError(
                    f"{what} takes shape {layout.values(node.shape)} and gives "
                    f"{layout.values(result.shape)}",
                    "the same shape: it is what the next round takes",
                    place=user_place(),
                )
            for own, given in zip(node.shape, result.shape, strict=True):
                extents.require_equal(own, given)
            wanted = self.dtypes[k]
            if result.weak or result.dtype is wanted:
                if result.weak and result.dtype is not wanted and self.weak[k]:
                    stable = self._widen(k, result) and stable
                continue
            if self.weak[k]:
                stable = self._widen(k, result) and stable
            elif not np.can_cast(result.dtype.numpy, wanted.numpy, "same_kind"):
                raise DTypeError(
                    f"{what} takes {wanted.numpy} and gives {result.dtype.numpy}",
                    "the same dtype: it is what the next round takes",
                    f"start from {result.dtype.numpy}",
                    place=user_place(),
                )
        return stable

    def _widen(self, k: int, result: Node) -> bool:
        """Take over a result's dtype; True where it is the one there is."""
        shadow = graph.make(operations.Param("v"), (), (), self.dtypes[k], weak=True)
        dtype = common_dtype((shadow, result))
        if dtype is self.dtypes[k]:
            return True
        self.dtypes[k] = dtype
        return False


def _shown(structure: Structure) -> str:
    leaves: list[Any] = []
    flatten(structure, leaves)
    return "one array" if structure is None else f"{structure[0].__name__} of {len(structure[1])}"


# ---------------------------------------------------------------- operators by name


@cache
def _named() -> dict[Any, str]:
    from weft import functions

    names = (
        "add", "multiply", "maximum", "minimum", "logical_and", "logical_or", "bitwise_and",
        "bitwise_or", "bitwise_xor", "logical_xor",
    )  # fmt: skip
    table: dict[Any, str] = {name: name for name in names}
    table |= {getattr(functions, name): name for name in names}
    table |= {getattr(np, name): name for name in names}
    table |= {
        operator.add: "add", operator.mul: "multiply", operator.and_: "bitwise_and",
        operator.or_: "bitwise_or", operator.xor: "bitwise_xor", "max": "maximum",
        "min": "minimum", max: "maximum", min: "minimum",
    }  # fmt: skip
    return table


def operation_name(op: Any) -> str | None:
    """The scalar operation that an operator is, where it is a known one."""
    try:
        name = _named().get(op)
    except TypeError:
        return None
    if name is None and isinstance(op, str):
        known = ", ".join(sorted(k for k in _named() if isinstance(k, str)))
        raise ArgumentError(
            f"operator {op!r}", f"a function, or one of {known}", place=user_place()
        )
    return name


def neutral_of(name: str, dtype: DType) -> Any:
    """What a known operation leaves as it is on either side."""
    match name:
        case "add":
            return -0.0 if dtype.kind == "f" else 0
        case "multiply":
            return 1
        case "maximum":
            return least(dtype)
        case "minimum":
            return greatest(dtype)
        case "logical_and":
            return True
        case "bitwise_and":
            return True if dtype is DType.BOOL else int(np.array(-1).astype(dtype.numpy))
        case _:
            return 0


def known_dtype(name: str, dtype: DType) -> DType:
    """The dtype in which a known operation combines elements of a dtype."""
    return DType.BOOL if name.startswith("logical") else dtype
