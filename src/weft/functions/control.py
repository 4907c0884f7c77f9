"""Sequential control flow: cond, fori_loop, while_loop, scan, iterate; and assume."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.array import Array, node_of
from weft.errors import ArgumentError, DTypeError, ShapeError, user_place
from weft.frontend import extent as extents
from weft.frontend import given_lengths, graph, indexing, layout, lengths, operations, symbolic
from weft.frontend.containers import flatten, unflatten
from weft.frontend.elementwise import as_dtype, common_dtype, python_value
from weft.frontend.extent import Extent
from weft.frontend.graph import Lambda, Node, make, scalar_constant
from weft.functions import traced
from weft.functions.arguments import array_node
from weft.functions.creation import filled
from weft.functions.traced import Carried
from weft.ops.dtypes import DType

__all__ = ["assume", "cond", "fori_loop", "iterate", "scan", "while_loop"]


def cond(
    predicate: Any, then: Callable[..., Any], otherwise: Callable[..., Any], /, *operands: Any
) -> Any:
    """The result of one of two functions; only that one is computed.

    Parameters
    ----------
    predicate : boolean scalar
    then, otherwise : callable
        Of the operands; both give the same shapes and containers.
    *operands : any

    Returns
    -------
    weft.Array, or containers of them
    """
    test = node_of(predicate)
    if test.shape:
        raise ShapeError(
            f"cond on an array of shape {layout.values(test.shape)}", "a scalar",
            "wf.where(condition, x, y) to choose for each element", place=user_place(),
        )  # fmt: skip
    value = python_value(test)
    if value is not None:
        return then(*operands) if value else otherwise(*operands)

    def branch(function: Callable[..., Any]) -> tuple[Lambda, Any]:
        return traced.trace(function, lambda scope: (), lambda _: function(*operands), fixed=True)

    (first, structure), (second, other) = branch(then), branch(otherwise)
    if structure != other:
        raise ArgumentError(
            "branches that give different containers", "the same", place=user_place()
        )
    dtypes = []
    for a, b in zip(first.results, second.results, strict=True):
        if layout.values(a.shape) != layout.values(b.shape):
            raise ShapeError(
                f"branches that give shapes {layout.values(a.shape)} and {layout.values(b.shape)}",
                "one shape",
                place=user_place(),
            )
        for own, given in zip(a.shape, b.shape, strict=True):
            extents.require_equal(own, given)
        dtypes.append(common_dtype((a, b)))
    branches = tuple(traced.settled(function, dtypes) for function in (first, second))
    types = tuple((node.shape, dtype) for node, dtype in zip(first.results, dtypes, strict=True))
    node = make(
        operations.If(), (as_dtype(test, DType.BOOL),), (), None, lambdas=branches, types=types
    )
    return traced.picked(node, structure)


def _rounds(
    what: str, carried: Carried, attempt: Callable[[], tuple[Lambda, Sequence[Node], Any]]
) -> Lambda:
    """Trace a loop's body until the dtypes that it carries no longer change."""
    for _ in range(4):
        function, results, structure = attempt()
        if carried.accept(results, structure, what):
            return function
    raise DTypeError(
        f"{what}, whose dtypes change with every round", "stable dtypes", place=user_place()
    )


def fori_loop(
    lower: Any, upper: Any, body: Callable[[Any, Any], Any], init: Any, /, *, unroll: Any = None
) -> Any:
    """`body(i, value)` for i from lower to before upper, each value made from the last.

    Parameters
    ----------
    lower, upper : int or integer scalar
    body : callable
        Of the index and the value; gives a value of the same shapes and dtypes.
    init : array_like, or containers of them
        The first value. Python scalars take the dtype of what the body gives.
    unroll : optional
        JAX's, taken and not used.

    Returns
    -------
    weft.Array, or containers of them
        The last value; `init` where there are no rounds.
    """
    carried = Carried(init)
    bounds = (indexing.index_node(_bound(lower)), indexing.index_node(_bound(upper)))
    first, last = map(symbolic.extent_of, bounds)
    (name,) = traced.parameter_names(body, 1)

    def attempt() -> tuple[Lambda, Sequence[Node], Any]:
        function, structure = traced.trace(
            body,
            lambda scope: (
                traced.index_parameter(scope, name, first, last),
                *carried.parameters(scope),
            ),
            lambda arrays: body(arrays[0], carried.values(arrays[1:])),
        )
        return function, function.results, structure

    function = _rounds("the body of fori_loop", carried, attempt)
    function = traced.settled(function, carried.dtypes)
    node = make(
        operations.For(), (*bounds, *carried.initial()), (), None, lambdas=(function,),
        types=carried.types(),
    )  # fmt: skip
    return traced.picked(node, carried.structure)


def _bound(value: Any) -> Any:
    if isinstance(value, Array):
        return value._node
    return extents.literal(value)


def while_loop(condition: Callable[[Any], Any], body: Callable[[Any], Any], init: Any, /) -> Any:
    """`body(value)` while `condition(value)` holds, each value made from the last.

    Parameters
    ----------
    condition : callable
        Of the value; gives a boolean scalar.
    body : callable
        Of the value; gives a value of the same shapes and dtypes.
    init : array_like, or containers of them
    """
    carried = Carried(init)

    def attempt() -> tuple[Lambda, Sequence[Node], Any]:
        function, structure = traced.trace(
            body, carried.parameters, lambda arrays: body(carried.values(arrays))
        )
        return function, function.results, structure

    function = traced.settled(_rounds("the body of while_loop", carried, attempt), carried.dtypes)
    test, structure = traced.trace(
        condition, carried.parameters, lambda arrays: condition(carried.values(arrays))
    )
    if structure is not None or test.results[0].shape:
        raise ArgumentError("a condition that is no scalar", "one boolean", place=user_place())
    test = traced.settled(test, [DType.BOOL])
    node = make(
        operations.While(),
        carried.initial(),
        (),
        None,
        lambdas=(test, function),
        types=carried.types(),
    )
    return traced.picked(node, carried.structure)


def scan(function: Callable[[Any, Any], Any], init: Any, xs: Any, /, length: Any = None) -> Any:
    """A loop over the first axis that carries a value and gives one result for each round.

    Parameters
    ----------
    function : callable
        Of (carried value, sub-arrays of xs); gives (carried value, result).
    init : array_like, or containers of them
    xs : array_like, or containers of them, or None
        Of one length along their first axes; None, if `length` is given.
    length : int, optional
        The number of rounds.

    Returns
    -------
    carry, ys
        The last carried value, and the results stacked along a new first axis.
    """
    leaves: list[Any] = []
    containers = flatten(xs, leaves) if xs is not None else (tuple, ())
    nodes = [array_node(leaf) for leaf in leaves]
    count = _length(nodes, length)
    carried = Carried(init)
    found: list[Any] = [None]

    def attempt() -> tuple[Lambda, Sequence[Node], Any]:
        def call(arrays: Sequence[Array]) -> Any:
            index = arrays[0]._node
            parts = iter([Array(indexing.get(node, index)) for node in nodes])
            element = None if xs is None else unflatten(containers, parts)
            result = function(carried.values(arrays[1:]), element)
            if not isinstance(result, tuple) or len(result) != 2:
                raise ArgumentError(
                    "the function of scan does not give two things", "(carry, result)",
                    place=user_place(),
                )  # fmt: skip
            return result

        body, structure = traced.trace(
            function,
            lambda scope: (
                traced.index_parameter(scope, "k", layout.ZERO, count),
                *carried.parameters(scope),
            ),
            call,
        )
        carry, results = structure[1]
        found[0] = results
        size = len(carried.nodes)
        return body, body.results[:size], carry

    body = _rounds("the function of scan", carried, attempt)
    size = len(carried.nodes)
    body, buffers = _with_buffers(body, count, carried, size)
    bounds = (scalar_constant(0, DType.I64), graph.size_scalar(count))
    types = (*carried.types(), *((b.shape, b.dtype) for b in buffers))
    node = make(
        operations.For(), (*bounds, *carried.initial(), *buffers), (), None, lambdas=(body,),
        types=types,
    )  # fmt: skip
    picked = [Array(graph.pick(node, k)) for k in range(len(types))]
    return unflatten(carried.structure, iter(picked[:size])), unflatten(
        found[0], iter(picked[size:])
    )


def _length(nodes: list[Node], length: Any) -> Extent:
    if not nodes:
        if length is None:
            raise ArgumentError("scan over nothing", "arrays, or length=...", place=user_place())
        return given_lengths.as_length(length)
    if any(not node.shape for node in nodes):
        raise ShapeError("scan over scalars", "arrays of one dimension or more", place=user_place())
    count = nodes[0].shape[0]
    for node in nodes[1:]:
        if not lengths.agree(node.shape[0], count):
            raise ShapeError(
                f"scan over lengths {count} and {node.shape[0]}", "one length",
                place=user_place(),
            )  # fmt: skip
        count = extents.require_equal(count, node.shape[0])
    return count


def _with_buffers(
    body: Lambda, count: Extent, carried: Carried, size: int
) -> tuple[Lambda, list[Node]]:
    """The body that also writes each round's results into arrays that it carries."""
    results = body.results[size:]
    body = traced.settled(body, [*carried.dtypes, *(node.dtype for node in results)])
    buffers, params, updated = [], [], []
    with traced._inside(body):
        for result in body.results[size:]:
            shape = (count, *result.shape)
            buffers.append((shape, result.dtype))
            param = graph.parameter("ys", shape, result.dtype, body.scope)
            params.append(param)
            updated.append(indexing.put(param, body.params[0], result))
    initial = [filled(scalar_constant(0, dtype), shape) for shape, dtype in buffers]
    whole = Lambda((*body.params, *params), (*body.results[:size], *updated), body.scope)
    return whole, initial


def iterate(
    function: Callable[..., Any],
    x: Any,
    n: Any,
    /,
    every: int | None = None,
    with_step: bool = False,
) -> Any:
    """The function applied n times: f(f(... f(x))).

    Parameters
    ----------
    function : callable
        Of x (with `with_step`: of the number of the step and x); gives its next state.
    x : array_like, or containers of them
    n : int or integer scalar
    every : int, optional
        Also keep the state after every so many steps.
    with_step : bool

    Returns
    -------
    weft.Array, or containers of them
        The last state; with `every`, (last state, kept states along a new first axis).
    """

    def step(index: Any, state: Any) -> Any:
        return function(index, state) if with_step else function(state)

    if every is None:
        return fori_loop(0, n, step, x)
    if extents.integer(every) < 1:
        raise ArgumentError(f"every {every} steps", "1 or more", place=user_place())
    rounds, rest = divmod(given_lengths.as_length(n), every)
    start = Carried(x)
    state = start.values([Array(node) for node in start.initial()])

    def several(carry: Any, _: Any) -> Any:
        first, state = carry
        state = fori_loop(0, every, lambda k, s: step(first + k, s), state)
        return (first + every, state), state

    zero = Array(scalar_constant(0, DType.I64))
    (_, state), kept = scan(several, (zero, state), None, length=rounds)
    done = rounds * every
    begun = Array(graph.size_scalar(extents.as_extent(done)))
    state = fori_loop(0, rest, lambda k, s: step(begun + k, s), state)
    return state, kept


def assume(fact: Any, /) -> None:
    """State a fact about sizes: `wf.assume(n == q * b + 1)`.

    In a function being traced the comparison has become a condition of the program, which
    passes may use; it is checked at every call.

    Raises
    ------
    ArgumentError
        Where it does not hold.
    """
    if not fact:
        raise ArgumentError(
            "an assumption does not hold", "sizes for which it does", place=user_place()
        )
