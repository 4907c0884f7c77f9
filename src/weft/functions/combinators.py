"""Parallel combinators: map, generate, reduce, associative_scan, backpermute, scatter."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

from weft.array import Array, node_of, strong
from weft.errors import ArgumentError, ShapeError, user_place
from weft.frontend import extent as extents
from weft.frontend import graph, indexing, layout, lengths, operations
from weft.frontend.containers import flatten, unflatten
from weft.frontend.elementwise import apply, as_dtype, broadcast_shapes
from weft.frontend.graph import Lambda, Node, Scope, make, scalar_constant
from weft.functions import traced
from weft.functions.arguments import array_node, axes_of, one_axis, shape_of
from weft.functions.statistical import kept_shape, last_axis
from weft.ops.dtypes import DType

__all__ = ["associative_scan", "backpermute", "generate", "map", "reduce", "scatter"]


def map(function: Callable[..., Any], /, *arrays: Any) -> Any:
    """The function of each sub-array along the first axis, all in parallel.

    Parameters
    ----------
    function : callable
        Of one array for each of `arrays`: scalars of vectors, rows of matrices. It is traced
        once. It may itself use combinators: parallelism nests.
    *arrays : array_like
        Of one length along their first axes; the other axes are free.

    Returns
    -------
    weft.Array, or containers of them
        The results, stacked along a new first axis.

    Raises
    ------
    ShapeError
        For scalars, and for lengths that differ.
    """
    nodes = [array_node(x) for x in arrays]
    if not nodes or any(not node.shape for node in nodes):
        raise ShapeError("map over scalars", "arrays of one dimension or more", place=user_place())
    count = nodes[0].shape[0]
    for node in nodes[1:]:
        if not lengths.agree(node.shape[0], count):
            raise ShapeError(
                f"map over arrays of lengths {count} and {node.shape[0]}",
                "one length along the first axes",
                place=user_place(),
            )
        count = extents.require_equal(count, node.shape[0])

    def call(indices: Sequence[Array]) -> Any:
        return function(*(Array(indexing.get(node, indices[0]._node)) for node in nodes))

    return _generated((count,), function, call)


def generate(shape: Any, function: Callable[..., Any], /) -> Any:
    """An array whose element at each index is the function of the index.

    Parameters
    ----------
    shape : int or tuple of int
    function : callable
        Of one int64 scalar for each dimension; gives scalars or arrays, in containers.

    Returns
    -------
    weft.Array, or containers of them
        Of `shape`, then the shape of what the function gives.
    """
    return _generated(shape_of(shape), function, None)


def _generated(space: tuple[extents.Extent, ...], function: Any, call: Any) -> Any:
    names = traced.parameter_names(function, len(space)) if call is None else ["i"]

    def parameters(scope: Scope) -> list[Node]:
        return [
            traced.index_parameter(scope, name, layout.ZERO, extent)
            for name, extent in zip(names, space, strict=True)
        ]

    body, structure = traced.trace(function, parameters, call)
    body = traced.settled(body, [node.dtype for node in body.results])
    types = tuple(((*space, *shape), dtype) for shape, dtype in traced.types_of(body))
    node = make(
        operations.Generate(len(space)), (), (), None, sizes=space, lambdas=(body,), types=types
    )
    return traced.picked(node, structure)


def backpermute(shape: Any, function: Callable[..., Any], x: Any, /) -> Array:
    """The array of a shape whose element at each index is that of `x` at another index.

    Parameters
    ----------
    shape : int or tuple of int
    function : callable
        From the indices of an element to the indices in `x`: an int64 scalar or a tuple.
    x : array_like
    """
    source = Array(array_node(x))

    def element(*indices: Array) -> Array:
        where = function(*indices)
        return source[tuple(where) if isinstance(where, tuple | list) else where]

    return generate(shape, element)  # type: ignore[no-any-return]


# ---------------------------------------------------------------- reductions and scans


class _Elements:
    """The arrays of a reduction or scan, broadcast to one shape, and their containers."""

    def __init__(self, arrays: tuple[Any, ...]) -> None:
        if not arrays:
            raise ArgumentError("no arrays to combine", "one or more", place=user_place())
        leaves: list[Any] = []
        self.structure = flatten(arrays[0] if len(arrays) == 1 else tuple(arrays), leaves)
        nodes = [array_node(leaf) for leaf in leaves]
        self.shape = broadcast_shapes([node.shape for node in nodes], "reduce")
        self.nodes = [
            strong(n, n.dtype) if n.weak else layout.broadcast(n, self.shape) for n in nodes
        ]

    def operator(self, op: Callable[..., Any]) -> tuple[Lambda, list[DType]]:
        """An operator on two elements as a lambda, and the dtypes that it keeps."""
        dtypes = [node.dtype for node in self.nodes]
        count = len(dtypes)
        for _ in range(4):

            def parameters(scope: Scope, dtypes: list[DType] = dtypes) -> list[Node]:
                return [graph.parameter("a", (), dtype, scope) for dtype in dtypes * 2]

            def call(arrays: Sequence[Array]) -> Any:
                left = unflatten(self.structure, iter(arrays[:count]))
                return op(left, unflatten(self.structure, iter(arrays[count:])))

            function, structure = traced.trace(op, parameters, call)
            if structure != self.structure or any(node.shape for node in function.results):
                raise ArgumentError(
                    f"an operator that gives {len(function.results)} results",
                    f"{count} scalars, in the containers of its arguments",
                    place=user_place(),
                )
            found = [
                dtype if node.weak else node.dtype
                for node, dtype in zip(function.results, dtypes, strict=True)
            ]
            if found == dtypes:
                break
            dtypes = found
        return traced.settled(function, dtypes), dtypes

    def typed(self, dtypes: list[DType]) -> list[Node]:
        return [as_dtype(n, dtype) for n, dtype in zip(self.nodes, dtypes, strict=True)]

    def given(self, init: Any, dtypes: list[DType]) -> list[Node]:
        """Initial values, in the containers of the elements."""
        leaves: list[Any] = []
        structure = flatten(init, leaves)
        if structure != self.structure:
            raise ArgumentError(
                f"{len(leaves)} initial values", f"{len(dtypes)}, in the same containers",
                place=user_place(),
            )  # fmt: skip
        nodes = [node_of(leaf) for leaf in leaves]
        return [
            strong(n, d) if n.weak else as_dtype(n, d) for n, d in zip(nodes, dtypes, strict=True)
        ]


def reduce(op: Any, init: Any, /, *arrays: Any, axis: Any = -1) -> Any:
    """Elements combined along axes by an associative operator.

    Parameters
    ----------
    op : callable or str
        Of two elements. Of several arrays an element is a tuple (or whatever containers the
        arrays are given in), and the operator gives one. `"add"`, `"max"`, `wf.add`,
        `operator.mul` and their like are known.
    init : scalar, or containers of them
        What the operator leaves as it is: 0 for a sum. (Of a known operator, any value.)
    *arrays : array_like
    axis : int, tuple of int or None
        All axes for None.

    Returns
    -------
    weft.Array, or containers of them
        Without the axes.
    """
    elements = _Elements(arrays)
    axes = axes_of(axis, len(elements.shape))
    kept = kept_shape(elements.shape, axes)
    name = traced.operation_name(op)
    if name is not None and elements.structure is None:
        dtype = traced.known_dtype(name, elements.nodes[0].dtype)
        node = as_dtype(elements.nodes[0], dtype)
        neutral = scalar_constant(traced.neutral_of(name, dtype), dtype)
        total = make(operations.Reduce(axes, 1, name), (node, neutral), kept, dtype)
        if init is None:
            return Array(total)
        return Array(apply(name, elements.given(init, [dtype])[0], total))
    if init is None:
        raise ArgumentError("init=None", "what the operator leaves as it is", place=user_place())
    function, dtypes = elements.operator(op)
    inputs = (*elements.typed(dtypes), *elements.given(init, dtypes))
    types = tuple((kept, dtype) for dtype in dtypes)
    operation = operations.Reduce(axes, len(dtypes), "")
    node = make(operation, inputs, (), None, lambdas=(function,), types=types)
    return traced.picked(node, elements.structure)


def associative_scan(
    op: Any, /, *arrays: Any, init: Any = None, axis: int = -1, exclusive: bool = False
) -> Any:
    """Running combinations along an axis by an associative operator.

    Parameters
    ----------
    op : callable or str
        As for `reduce`.
    *arrays : array_like
    init : scalar, or containers of them, optional
        Combined in first. An exclusive scan needs one, unless the operator is a known one.
    axis : int
        The last by default; JAX's is the first.
    exclusive : bool
        Each result leaves out its own element.

    Returns
    -------
    weft.Array, or containers of them
        Of the shape of the arrays.
    """
    elements = _Elements(arrays)
    along = one_axis(axis, len(elements.shape))
    name = traced.operation_name(op) if elements.structure is None else None
    if name is not None:
        dtype = traced.known_dtype(name, elements.nodes[0].dtype)
        nothing = 0 if exclusive and name == "add" else traced.neutral_of(name, dtype)
        neutral = [scalar_constant(nothing, dtype)]
        start = neutral if init is None else elements.given(init, [dtype])
        return unflatten(
            elements.structure,
            iter(_scanned(elements.typed([dtype]), start, along, name, None, exclusive)),
        )
    function, dtypes = elements.operator(op)
    if init is None:
        if exclusive:
            raise ArgumentError("an exclusive scan", "init=...", place=user_place())
        results = _scanned_from_nothing(elements.typed(dtypes), along, function)
    else:
        start = elements.given(init, dtypes)
        results = _scanned(elements.typed(dtypes), start, along, "", function, exclusive)
    return unflatten(elements.structure, iter(results))


def _scanned(
    nodes: list[Node],
    initial: list[Node],
    axis: int,
    name: str,
    function: Lambda | None,
    exclusive: bool,
) -> list[Array]:
    moved, back = zip(*(last_axis(node, axis) for node in nodes), strict=True)
    types = tuple((node.shape, node.dtype) for node in moved)
    scan = make(
        operations.Scan(len(nodes), name, exclusive), (*moved, *initial), (), None,
        lambdas=() if function is None else (function,), types=types,
    )  # fmt: skip
    return [Array(layout.permute(graph.pick(scan, k), order)) for k, order in enumerate(back)]


def _scanned_from_nothing(nodes: list[Node], axis: int, function: Lambda) -> list[Array]:
    """A scan without initial value: elements carry whether there is one."""
    count = len(nodes)
    dtypes = [node.dtype for node in nodes]

    def parameters(scope: Scope) -> list[Node]:
        side = [DType.BOOL, *dtypes]
        return [graph.parameter("a", (), dtype, scope) for dtype in side * 2]

    def call(arrays: Sequence[Array]) -> Any:
        params = [array._node for array in arrays]
        left, *first = params[: count + 1]
        right, *second = params[count + 1 :]
        joined = substituted(function, [*first, *second])
        both = apply("logical_and", left, right)
        values = [
            apply("where", both, whole, apply("where", right, b, a))
            for whole, a, b in zip(joined, first, second, strict=True)
        ]
        return [Array(apply("logical_or", left, right)), *(Array(value) for value in values)]

    wrapped, _ = traced.trace(builtins.list, parameters, call)
    there = scalar_constant(True, DType.BOOL)
    inputs = [layout.broadcast(there, nodes[0].shape), *nodes]
    nothing = [scalar_constant(0, node.dtype) for node in inputs]
    return _scanned(inputs, nothing, axis, "", wrapped, False)[1:]


def substituted(function: Lambda, arguments: Sequence[Node]) -> list[Node]:
    """The results of a lambda of scalars on other arguments: its nodes made again."""
    known: dict[Node, Node] = dict(zip(function.params, arguments, strict=True))

    def again(node: Node) -> Node:
        found = known.get(node)
        if found is None:
            if node.scope is not function.scope or node.lambdas or not node.inputs:
                return node
            inputs = tuple(again(source) for source in node.inputs)
            found = known[node] = make(
                node.operation, inputs, node.shape, node.dtype, node.sizes, node.lambdas, node.types
            )
        return found

    return [again(result) for result in function.results]


# ---------------------------------------------------------------- scatter


def scatter(dest: Any, indices: Any, values: Any, /, combine: Any = None) -> Any:
    """An array with values written at indices.

    Parameters
    ----------
    dest : array_like, or tuple of them
    indices : array_like of int, or tuple of them
        One array for each of the first dimensions of `dest`; an array alone is the first
        dimension's. An index outside is an error, a negative one too.
    values : array_like, or tuple of them
        Of the shape of the index arrays, then that of the other dimensions of `dest`; or of
        one that broadcasts to it.
    combine : callable or str, optional
        Combines what is there with what comes, in order. Without one, the last of equal
        indices wins.

    Returns
    -------
    weft.Array, or tuple of them
    """
    several = isinstance(dest, tuple)
    targets = [array_node(x) for x in (dest if several else (dest,))]
    given = [node_of(x) for x in (values if several else (values,))]
    if len(given) != len(targets):
        raise ArgumentError(
            f"{len(given)} values for {len(targets)} arrays", "as many", place=user_place()
        )
    where = [array_node(x) for x in (indices if isinstance(indices, tuple) else (indices,))]
    where = [as_dtype(x, DType.I64) for x in where]
    shape = broadcast_shapes([x.shape for x in where], "scatter")
    kept = targets[0].shape[len(where) :]
    sent = []
    for target, value in zip(targets, given, strict=True):
        value = as_dtype(value, target.dtype)
        sent.append(layout.broadcast(value, (*shape, *kept)) if value.shape else value)
    name = None if combine is None else traced.operation_name(combine)
    lambdas: tuple[Lambda, ...] = ()
    if combine is not None and (name is None or several):
        name = "lambda"
        elements = _Elements(tuple(Array(scalar_constant(0, t.dtype)) for t in targets))
        function, _ = elements.operator(combine)
        lambdas = (traced.settled(function, [t.dtype for t in targets]),)
    operation = operations.Scatter(len(targets), len(shape), name)
    node = make(
        operation, (*targets, *sent, *where), (), None, sizes=shape, lambdas=lambdas,
        types=tuple((t.shape, t.dtype) for t in targets),
    )  # fmt: skip
    results = tuple(Array(graph.pick(node, k)) for k in range(len(targets)))
    return results if several else results[0]
