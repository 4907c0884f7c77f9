"""Stencils: functions of a cell's neighbourhood."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from weft.array import Array
from weft.errors import ArgumentError, ArgumentTypeError, ShapeError, user_place
from weft.frontend import extent as extents
from weft.frontend import graph, layout, operations
from weft.frontend.elementwise import apply, as_dtype, scalar_node
from weft.frontend.extent import Extent
from weft.frontend.graph import Lambda, Node, Scope, make, scalar_constant, size_scalar
from weft.frontend.layout import axis_number
from weft.frontend.lengths import may_be_empty
from weft.fun import nodes as fun
from weft.functions import traced
from weft.functions.arguments import NumPyOnlyError, array_node
from weft.ops.dtypes import DType

__all__ = ["pad", "stencil"]

_KINDS = ("edge", "reflect", "symmetric", "wrap")
_NUMPYS = ("empty", "linear_ramp", "maximum", "mean", "median", "minimum")
Rule = tuple[fun.BoundaryKind, fun.Const | None] | None


class Neighbourhood:
    """One array as a stencil's function sees it: `s[-1, 0]` is the neighbour above."""

    __slots__ = ("_indices", "_node", "_reach", "_rules")

    def __init__(
        self, node: Node, indices: Sequence[Node], rules: Sequence[Rule], reach: list[list[int]]
    ) -> None:
        self._node = node
        self._indices = indices
        self._rules = rules
        self._reach = reach

    def __getitem__(self, offsets: Any) -> Array:
        given = offsets if isinstance(offsets, tuple) else (offsets,)
        if len(given) != len(self._indices):
            raise ShapeError(
                f"{len(given)} offsets of an array of {len(self._indices)} dimensions",
                "one for each dimension",
                place=user_place(),
            )
        indices, rules = [], []
        for axis, offset in enumerate(map(_offset, given)):
            reach = self._reach[axis]
            reach[0], reach[1] = min(reach[0], offset), max(reach[1], offset)
            index = self._indices[axis]
            if offset:
                index = apply("add", index, scalar_constant(offset, DType.I64))
            indices.append(index)
            rules.append(self._rules[axis] if offset else None)
        boundary = tuple(rules) if any(rule is not None for rule in rules) else ()
        element = operations.Element(boundary)
        return Array(make(element, (self._node, *indices), (), self._node.dtype))

    @property
    def indices(self) -> tuple[Array, ...]:
        """The indices of the cell."""
        return tuple(Array(index) for index in self._indices)


def _offset(value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise ArgumentTypeError(
            f"a {type(value).__name__} as a stencil's offset",
            "integers that are known when the function is traced",
            "s[-1, 0] is the neighbour above",
            place=user_place(),
        ) from None


def stencil(function: Callable[..., Any], /, *arrays: Any, boundary: Any = "edge") -> Any:
    """The function of each cell's neighbourhood.

    Parameters
    ----------
    function : callable
        Of one accessor for each array: `s[-1, 0]` is the value one row above the cell. It
        gives a scalar, or containers of scalars.
    *arrays : array_like
        Of one shape.
    boundary : str, number, or sequence of them
        What neighbours outside are, for all axes or for each: "edge", "reflect", "symmetric"
        and "wrap" as for `numpy.pad`, or a constant. "keep": cells that have neighbours
        outside keep the value of the first array.

    Returns
    -------
    weft.Array, or containers of them
        Of the arrays' shape.

    Raises
    ------
    ShapeError
        For arrays of different shapes, and scalars.
    """
    nodes = [array_node(x) for x in arrays]
    if not nodes or not nodes[0].shape:
        raise ShapeError(
            "a stencil of scalars", "arrays of one dimension or more", place=user_place()
        )
    shape = nodes[0].shape
    for node in nodes[1:]:
        if layout.values(node.shape) != layout.values(shape):
            raise ShapeError(
                f"a stencil of shapes {layout.values(shape)} and {layout.values(node.shape)}",
                "one shape",
                place=user_place(),
            )
        for own, other in zip(shape, node.shape, strict=True):
            extents.require_equal(own, other)
    rules = _rules(boundary, len(shape))
    kept = [axis for axis, rule in enumerate(rules) if rule == "keep"]
    reach = [[0, 0] for _ in shape]

    def parameters(scope: Scope) -> list[Node]:
        return [traced.index_parameter(scope, "i", layout.ZERO, extent) for extent in shape]

    found: list[Any] = [None]

    def call(indices: Sequence[Array]) -> Any:
        places = [array._node for array in indices]
        views = [
            Neighbourhood(node, places, [_rule(rule, node) for rule in rules], reach)
            for node in nodes
        ]
        if not kept:
            return function(*views)
        inside, structure = traced.trace(
            function, lambda scope: (), lambda _: function(*views), fixed=True
        )
        found[0] = structure
        return _kept(
            inside, nodes[0], places, [(axis, reach[axis][0], reach[axis][1]) for axis in kept]
        )

    body, structure = traced.trace(function, parameters, call)
    if any(node.shape for node in body.results):
        raise ShapeError("a stencil's function that gives arrays", "scalars", place=user_place())
    body = traced.settled(body, [node.dtype for node in body.results])
    types = tuple((shape, dtype) for _, dtype in traced.types_of(body))
    node = make(
        operations.Generate(len(shape)), (), (), None, sizes=shape, lambdas=(body,), types=types
    )
    return traced.picked(node, found[0] if kept else structure)


def _kept(
    inside: Lambda, first: Node, indices: Sequence[Node], reaches: list[tuple[int, int, int]]
) -> list[Array]:
    """The function's results inside, the first array's value in cells at the border."""
    tests = []
    for axis, lowest, highest in reaches:
        index, extent = indices[axis], first.shape[axis]
        if lowest:
            tests.append(apply("greater_equal", index, scalar_constant(-lowest, DType.I64)))
        if highest:
            tests.append(apply("less", index, size_scalar(extent - highest)))
    if not tests:
        tests = [scalar_constant(True, DType.BOOL)]
    test = tests[0]
    for other in tests[1:]:
        test = apply("logical_and", test, other)
    dtypes = [node.dtype for node in inside.results]

    def border(_: Any) -> list[Array]:
        value = make(operations.Element(), (first, *indices), (), first.dtype)
        return [Array(as_dtype(value, dtype)) for dtype in dtypes]

    outside, _ = traced.trace(border, lambda scope: (), border, fixed=True)
    branches = (traced.settled(inside, dtypes), outside)
    types = tuple(((), dtype) for dtype in dtypes)
    node = make(operations.If(), (test,), (), None, lambdas=branches, types=types)
    return [Array(graph.pick(node, k)) for k in range(len(types))]


def _rules(boundary: Any, rank: int) -> list[Any]:
    given = list(boundary) if isinstance(boundary, tuple | list) else [boundary] * rank
    if len(given) != rank:
        raise ArgumentError(
            f"{len(given)} boundaries of {rank} axes", "one for each", place=user_place()
        )
    for rule in given:
        if isinstance(rule, str) and rule != "keep" and rule not in _KINDS:
            raise ArgumentError(
                f"boundary {rule!r}", f"a number, or one of keep, {', '.join(_KINDS)}",
                place=user_place(),
            )  # fmt: skip
    return given


def _rule(rule: Any, node: Node) -> Rule:
    if rule == "keep":
        return None
    if isinstance(rule, str):
        return cast(fun.BoundaryKind, rule), None
    value = as_dtype(scalar_node(rule), node.dtype)
    if not isinstance(value.operation, operations.Constant):
        raise ArgumentError(f"boundary {rule!r}", "a number", place=user_place())
    return "constant", value.operation.const


def pad(x: Any, pad_width: Any, /, mode: str = "constant", *, constant_values: Any = 0) -> Array:
    """x with a border, as `numpy.pad` makes it.

    Parameters
    ----------
    x : array_like
    pad_width : int, (before, after), one pair for each axis, or a dict of those of some axes
    mode : {"constant", "edge", "reflect", "symmetric", "wrap"}
    constant_values : number

    Raises
    ------
    ShapeError
        For an empty axis, where the border is made of elements; for widths of other axes.
    ArgumentError, ArgumentTypeError
        For widths that are negative, or no integers.
    NumPyOnlyError
        For NumPy's other modes, and for constants of each side.
    """
    node = array_node(x)
    rank = len(node.shape)
    widths = _widths(pad_width, rank)
    if mode != "constant" and mode not in _KINDS:
        refusal = NumPyOnlyError if mode in _NUMPYS or callable(mode) else ArgumentError
        raise refusal(f"mode {mode!r}", f"constant, {', '.join(_KINDS)}", place=user_place())
    if np.ndim(constant_values):
        raise NumPyOnlyError(
            f"constant_values {constant_values!r}", "one number", place=user_place()
        )
    rule = _rule(constant_values if mode == "constant" else mode, node)
    if not rank or all(width == [0, 0] for width in widths):
        return Array(node)
    if mode != "constant":
        _require_elements(node, widths, mode)
    shape = tuple(
        e + (before + after) for e, (before, after) in zip(node.shape, widths, strict=True)
    )

    rules = tuple(rule if width != [0, 0] else None for width in widths)
    return Array(shifted(node, [before for before, _ in widths], shape, rules))


def _widths(pad_width: Any, rank: int) -> list[list[Any]]:
    """What is added before and after each axis."""
    expected = "an int, (before, after), or one pair for each axis"
    if isinstance(pad_width, dict):
        some = {axis_number(axis, rank): width for axis, width in pad_width.items()}
        return [_widths(some.get(axis, 0), 1)[0] for axis in range(rank)]
    try:
        given = np.asarray(pad_width)
        widths: list[list[Any]] = np.broadcast_to(given, (rank, 2)).tolist()
    except ValueError:
        raise ShapeError(
            f"pad_width {pad_width!r} of an array of {rank} dimensions", expected,
            place=user_place(),
        ) from None  # fmt: skip
    every = given.ravel().tolist()  # ints, among which are extents where a function is traced
    if given.dtype.kind == "b" or not all(isinstance(width, int | Extent) for width in every):
        raise ArgumentTypeError(f"pad_width {pad_width!r}", expected, place=user_place())
    if any(width < 0 for width in every):
        raise ArgumentError(f"pad_width {pad_width!r}", "0 or more", place=user_place())
    return widths


def _require_elements(node: Node, widths: Sequence[Sequence[Any]], mode: str) -> None:
    """Refuse a border that is made of the elements of an axis that has none."""
    for axis, (extent, width) in enumerate(zip(node.shape, widths, strict=True)):
        if width == [0, 0]:
            continue
        if may_be_empty(extent):
            raise ShapeError(
                f"axis {axis} of length {extent} is padded by mode {mode!r}",
                "an axis that is not empty",
                "mode 'constant' extends empty axes too",
                place=user_place(),
            )
        extents.require_at_least(extent, extents.constant(1))


def shifted(
    node: Node, by: Sequence[int], shape: tuple[Extent, ...], rules: tuple[Rule, ...]
) -> Node:
    """An array of `shape` whose element i is element i - by, under a boundary rule for each axis.

    A kernel, which fuses with what reads it.
    """

    def element(indices: Sequence[Array]) -> Array:
        places = [
            apply("subtract", index._node, scalar_constant(amount, DType.I64))
            for index, amount in zip(indices, by, strict=True)
        ]
        return Array(make(operations.Element(rules), (node, *places), (), node.dtype))

    def parameters(scope: Scope) -> list[Node]:
        return [traced.index_parameter(scope, "i", layout.ZERO, extent) for extent in shape]

    body, _ = traced.trace(element, parameters, element)
    types = ((shape, node.dtype),)
    made = make(
        operations.Generate(len(shape)), (), (), None, sizes=shape, lambdas=(body,), types=types
    )
    return graph.pick(made, 0)
