"""The graph: what lazy arrays and traced functions are made of.

    node      = operation, inputs, sizes, lambdas, shape, dtype
    lambda    = params, results            -- a sub-graph, called by an operation
    operation = Leaf | Constant | SizeScalar | Param | Pick                -- where values come from
              | Elementwise | Cast | Iota | Empty | Element                -- scalar by scalar
              | Slice | Permute | Reshape | Broadcast | LmadSlice          -- layout changes
              | Gather | Generate | Reduce | Scan | Scatter | Concat       -- data parallelism
              | Update | LmadUpdate | Call | If | For | While              -- the rest

An operation is plain data without sizes: extents that it needs are in the node's `sizes`, so
that graphs which differ in sizes alone look the same (`weft.frontend.key`). An operation
with several results makes a node without dtype, whose results are taken by `Pick`.

A node belongs to a scope: the innermost function among those being traced whose parameters
it depends on (or whose branch it must stay in). It is computed there, once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from weft.errors import Place, interpreted_place, user_frame
from weft.frontend.extent import Extent, constant
from weft.frontend.guards import Guard, take_guards
from weft.frontend.operations import (
    Constant,
    Elementwise,
    Leaf,
    Operation,
    Param,
    Pick,
    SizeScalar,
    Slice,
    Span,
)
from weft.fun import nodes as fun
from weft.ops.dtypes import DType
from weft.records import dataclass

# ---------------------------------------------------------------- nodes


class Scope:
    """The body of a function being traced.

    `fixed`: what is made in it stays in it (a branch: it may not run at all), while
    elsewhere what does not depend on the parameters is computed outside.
    """

    __slots__ = ("chosen", "depth", "fixed")

    def __init__(self, outer: Scope | None, fixed: bool = False) -> None:
        self.depth: int = 1 if outer is None else outer.depth + 1
        self.fixed = fixed
        self.chosen: dict[Any, Any] = {}  # extents that were computed in it, by what they are of


Shape: TypeAlias = tuple[Extent, ...]


def innermost_scope() -> Scope | None:
    """The innermost body that is being traced."""
    return _open.all[-1] if _open.all else None


def scopes_around() -> Iterator[Scope]:
    """The bodies that are being traced, the innermost first."""
    return reversed(_open.all)


class Node:
    """One operation, never changed. Compared by identity."""

    __slots__ = (
        "abstract", "dtype", "guards", "inputs", "lambdas", "line", "needs", "operation", "scope",
        "shape", "sizes", "symbol", "types", "value", "weak",
    )  # fmt: skip

    operation: Operation
    inputs: tuple[Node, ...]
    sizes: tuple[Extent, ...]
    needs: tuple[Node, ...]  # the inputs, and the scalars that the sizes depend on
    symbol: Any  # of a scalar that sizes depend on: see `weft.frontend.symbolic`
    lambdas: tuple[Lambda, ...]
    shape: Shape
    dtype: DType  # absent where `types` is given
    types: tuple[tuple[Shape, DType], ...] | None  # of several results
    weak: bool  # made of Python scalars alone: takes the other operand's dtype
    abstract: bool  # depends on an argument or parameter: has no value yet
    scope: Scope | None
    value: Any  # of a leaf
    guards: tuple[Guard, ...]
    line: tuple[Any, int] | Place | None  # code object and line number

    @property
    def rank(self) -> int:
        return len(self.shape)

    def place(self) -> Place | None:
        if self.line is None or isinstance(self.line, Place):
            return self.line
        code, line = self.line
        return Place(code.co_filename, line, code.co_name)


@dataclass(frozen=True, slots=True, eq=False)
class Lambda:
    """A sub-graph: what it gives for its parameters."""

    params: tuple[Node, ...]
    results: tuple[Node, ...]
    scope: Scope


def user_line() -> tuple[Any, int] | Place | None:
    """Code object and line of the innermost frame outside Weft, or the place interpreted."""
    place = interpreted_place()
    if place is not None:
        return place
    frame = user_frame()
    return None if frame is None else (frame.f_code, frame.f_lineno)


class _Open(threading.local):
    """The scopes being traced in this thread: all of them, and the fixed ones."""

    def __init__(self) -> None:
        self.all: list[Scope] = []
        self.fixed: list[Scope] = []


_open = _Open()


def make(
    operation: Operation,
    inputs: tuple[Node, ...],
    shape: Shape,
    dtype: DType | None,
    sizes: tuple[Extent, ...] = (),
    lambdas: tuple[Lambda, ...] = (),
    types: tuple[tuple[Shape, DType], ...] | None = None,
    weak: bool = False,
) -> Node:
    """A new node, placed at the user's line, in the scope that its inputs require."""
    node = Node.__new__(Node)
    node.operation = operation
    node.inputs = inputs
    node.sizes = sizes
    node.needs = needs = _with_symbols(inputs, sizes)
    node.symbol = None
    node.lambdas = lambdas
    node.shape = shape
    if dtype is not None:
        node.dtype = dtype
    node.types = types
    node.weak = weak
    node.guards = take_guards() if inputs or sizes else ()  # data and constants need none
    node.line = user_line()
    node.scope = scope_of(needs)
    node.abstract = any(source.abstract for source in needs)
    if lambdas:
        _settle(node, lambdas)
    return node


def scope_of(needs: tuple[Node, ...]) -> Scope | None:
    """The scope of what is computed of nodes; None outside of all bodies."""
    scope = _open.fixed[-1] if _open.fixed else None
    for source in needs:
        inner = source.scope
        if source.abstract and inner is not None and (scope is None or inner.depth > scope.depth):
            scope = inner
    return scope


def _with_symbols(inputs: tuple[Node, ...], sizes: tuple[Extent, ...]) -> tuple[Node, ...]:
    for extent in sizes:
        if extent.symbols:
            inputs += tuple([s.node for s in extent.symbols if s.node not in inputs])
    return inputs


def _settle(node: Node, lambdas: tuple[Lambda, ...]) -> None:
    """The scope of a node with lambdas: also that of what they capture."""
    for function in lambdas:
        for captured in captures(function):
            node.abstract = node.abstract or captured.abstract
            inner = captured.scope
            if inner is not None and (node.scope is None or inner.depth > node.scope.depth):
                node.scope = inner


def captures(function: Lambda) -> list[Node]:
    """The nodes outside a lambda that its inside uses."""
    depth = function.scope.depth
    found: list[Node] = []
    seen: set[Node] = set()
    stack = list(function.results)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.scope is None or node.scope.depth < depth:
            found.append(node)
            continue
        stack.extend(node.needs)
        for inner in node.lambdas:
            stack.extend(inner.results)
    return found


def leaf(
    value: Any, shape: Shape, dtype: DType, *, weak: bool = False, abstract: bool = False
) -> Node:
    """Data. `shape`: constants 0 and 1, or fresh size variables."""
    pattern = tuple([e.value if e.is_constant else -1 for e in shape])
    node = make(Leaf(dtype, pattern), (), shape, dtype, weak=weak)
    node.value = value
    node.abstract = abstract
    node.scope = None
    return node


def scalar_constant(value: Any, dtype: DType, *, weak: bool = False) -> Node:
    """A scalar that is part of the program."""
    if dtype.kind == "b":
        value = bool(value)
    elif dtype.is_integer:
        value = int(value)
    elif dtype.is_float:
        value = float(value)
    else:
        value = complex(value)
    return make(Constant(fun.Const(value, dtype)), (), (), dtype, weak=weak)


def size_scalar(extent: Extent, *, weak: bool = False) -> Node:
    """An extent as an int64 scalar."""
    if extent.is_constant:
        return scalar_constant(extent.value, DType.I64, weak=weak)
    return make(SizeScalar(), (), (), DType.I64, sizes=(extent,), weak=weak)


def leading(node: Node, shape: Shape) -> Node:
    """The first elements along each dimension, of which there are as many or more."""
    if all(own.poly == wanted.poly for own, wanted in zip(node.shape, shape, strict=True)):
        return node
    zero = constant(0)
    sizes = tuple([size for extent in shape for size in (zero, extent)])
    return make(Slice((Span(),) * len(shape)), (node,), shape, node.dtype, sizes=sizes)


def parameter(name: str, shape: Shape, dtype: DType, scope: Scope, *, index: bool = False) -> Node:
    """A parameter of the function whose body is `scope`."""
    node = make(Param(name, index), (), shape, dtype)
    node.scope = scope
    node.abstract = True
    return node


def pick(node: Node, number: int) -> Node:
    """One result of a node that has several."""
    assert node.types is not None
    shape, dtype = node.types[number]
    return make(Pick(number), (node,), shape, dtype)


@contextmanager
def apart() -> Iterator[None]:
    """Make nodes that belong to no function being traced: lambdas that are kept and shared."""
    all_, fixed = _open.all, _open.fixed
    _open.all, _open.fixed = [], []
    try:
        yield
    finally:
        _open.all, _open.fixed = all_, fixed


class Tracing:
    """`with Tracing(fixed) as scope`: what is made inside belongs to a function's body."""

    def __init__(self, fixed: bool = False) -> None:
        self.scope = Scope(_open.all[-1] if _open.all else None, fixed)

    def __enter__(self) -> Scope:
        _open.all.append(self.scope)
        if self.scope.fixed:
            _open.fixed.append(self.scope)
        return self.scope

    def __exit__(self, *error: object) -> None:
        _open.all.pop()
        if self.scope.fixed:
            _open.fixed.pop()


def is_index(node: Node) -> bool:
    """Whether a scalar is computed from indices, sizes and constants by + - * alone.

    Such an index is affine: it does not count from the end when negative.
    """
    operation = node.operation
    if isinstance(operation, Param):
        return operation.index
    if isinstance(operation, Constant):
        return True
    if isinstance(operation, SizeScalar):
        return all(map(is_index, node.needs))
    if isinstance(operation, Elementwise):
        return operation.operation in ("add", "subtract", "multiply", "negative") and all(
            map(is_index, node.inputs)
        )
    return False
