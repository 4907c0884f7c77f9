"""Nodes as values of a program: atoms, sizes, elements in kernel bodies, traced functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from weft.errors import TracingError
from weft.frontend import graph, operations
from weft.frontend.extent import Extent
from weft.frontend.graph import Lambda, Node, Scope
from weft.frontend.key import Walk
from weft.fun import nodes as fun
from weft.fun.builder import Builder
from weft.ops.dtypes import DType
from weft.sizes import ONE, ZERO, Poly, Size

_DEEPEST = 24  # elementwise operations nested in one kernel body; fusion joins the rest
View: TypeAlias = (
    operations.Slice
    | operations.Permute
    | operations.Reshape
    | operations.Broadcast
    | operations.LmadSlice
)
"""What moves no data: only the places of elements change."""


class Values(ABC):
    """What nodes are in the program: each is emitted once, in the body of its scope.

    `size` turns a polynomial of the graph into one of the program.
    """

    def __init__(
        self,
        builder: Builder,
        walk: Walk,
        size: Callable[[Poly], Size],
        leaves: dict[Node, fun.Var],
    ) -> None:
        self.sizes = size
        self.builders: dict[Scope | None, Builder] = {None: builder}
        self.memos: dict[Scope | None, dict[Node, tuple[fun.Atom, ...]]] = {
            None: {leaf: (var,) for leaf, var in leaves.items()}
        }
        self.uses: dict[Node, int] = {}
        for node in walk.nodes:
            for source in node.needs:
                self.uses[source] = self.uses.get(source, 0) + 1
            for function in node.lambdas:
                for result in function.results:
                    self.uses[result] = self.uses.get(result, 0) + 1
        self.taken: set[str] = {var.name for var in leaves.values()}  # not to be results again

    @abstractmethod
    def emit(self, node: Node, b: Builder) -> tuple[fun.Atom, ...]:
        """All results of one node, what it needs having been emitted."""

    # ------------------------------------------------------------ atoms

    def result(self, node: Node) -> fun.Atom:
        """A result of the program: memory of its own, shared with no other."""
        atom = self.atom(node)
        if not isinstance(atom, fun.Var) or not isinstance(atom.type, fun.Array):
            return atom
        if atom.name in self.taken or isinstance(node.operation, View):
            atom = self.builders[None].let(fun.Copy(atom), atom.type)
        self.taken.add(atom.name)
        return atom

    def atom(self, node: Node) -> fun.Atom:
        """A node's value, as a variable or constant."""
        return self.atoms(node)[0]

    def atoms(self, node: Node) -> tuple[fun.Atom, ...]:
        """All results of a node; what they need is emitted first, without deep recursion."""
        found = self._known(node)
        if found is not None:
            return found
        stack = [node]
        while stack:
            top = stack[-1]
            if self._known(top) is not None:
                stack.pop()
                continue
            waiting = [x for x in self._needed(top) if self._known(x) is None]
            if waiting:
                stack += reversed(waiting)
                continue
            stack.pop()
            builder = self._builder(top)
            builder.place = top.place()
            self.memos[self._home(top)][top] = self.emit(top, builder)
        found = self._known(node)
        assert found is not None
        return found

    def _known(self, node: Node) -> tuple[fun.Atom, ...] | None:
        operation = node.operation
        if type(operation) is operations.Constant:
            return (operation.const,)
        if type(operation) is operations.Pick:
            several = self._known(node.inputs[0])
            return None if several is None else (several[operation.number],)
        return self.memos[self._home(node)].get(node)

    def _home(self, node: Node) -> Scope | None:
        """The scope where a node is emitted.

        What depends on no parameter can be outside of the branch where it was made, too: a mask
        is, whose elements are counted while the branch is traced.
        """
        if node.scope in self.memos:
            return node.scope
        if not node.abstract:
            return None
        raise TracingError(
            "a value that was made inside a traced function is used outside of it",
            advice="return it from the function",
            place=node.place(),
        )

    def _needed(self, node: Node) -> tuple[Node, ...]:
        """The inputs that must be emitted before a node (inlined ones need theirs)."""
        if isinstance(node.operation, operations.Pick):
            return (node.inputs[0],)
        if not self._reads_elements(node):
            return node.needs
        needed: list[Node] = [*node.needs[len(node.inputs) :]]
        for source in node.inputs:
            if self._inlined(source, node, 1):
                self._below(source, node, 1, needed)
            else:
                needed.append(source)
        return tuple(needed)

    def _below(self, node: Node, consumer: Node, depth: int, needed: list[Node]) -> None:
        for source in node.inputs:
            if self._inlined(source, consumer, depth + 1):
                self._below(source, consumer, depth + 1, needed)
            else:
                needed.append(source)

    def _builder(self, node: Node) -> Builder:
        return self.builders[self._home(node)]

    def size(self, extent: Extent) -> Size:
        """An extent as a polynomial over sizes and scalars of the program."""
        size = self.sizes(extent.poly)
        if not extent.symbols:
            return size
        return size.substitute({
            variable: self.poly(self._builder(symbol.node), symbol.node)
            for symbol in extent.symbols
            if (variable := self.sizes(Poly.var(symbol.name)).variable) is not None
        })  # fmt: skip

    def shape(self, node: Node) -> tuple[Size, ...]:
        return tuple([self.size(extent) for extent in node.shape])

    def type(self, node: Node) -> fun.Type:
        return self.type_of(node.shape, node.dtype)

    def type_of(self, shape: graph.Shape, dtype: DType) -> fun.Type:
        if not shape:
            return fun.Scalar(dtype)
        return fun.Array(dtype, tuple([self.size(extent) for extent in shape]))

    def types(self, node: Node) -> tuple[fun.Type, ...]:
        if node.types is None:
            return (self.type(node),)
        return tuple(self.type_of(shape, dtype) for shape, dtype in node.types)

    def array(self, node: Node) -> fun.Var:
        atom = self.atom(node)
        assert isinstance(atom, fun.Var)
        return atom

    # ------------------------------------------------------------ elements

    def _reads_elements(self, node: Node) -> bool:
        """Whether a node is a kernel that reads its inputs element by element."""
        return bool(node.shape or isinstance(node.operation, operations.Reduce)) and isinstance(
            node.operation,
            operations.Elementwise
            | operations.Cast
            | operations.Reduce
            | operations.Scan
            | operations.Scatter
            | operations.Gather,
        )

    def _inlined(self, node: Node, consumer: Node, depth: int) -> bool:
        """Whether elements of a node are computed in its consumer's kernel."""
        operation = node.operation
        if type(operation) is operations.Iota:
            return True
        if not isinstance(operation, operations.Elementwise | operations.Cast) or not node.shape:
            return False
        if depth > _DEEPEST or self.uses.get(node, 0) != 1 or node.scope is not consumer.scope:
            return False
        shape, wanted = node.shape, self._element_shape(consumer)
        if isinstance(consumer.operation, operations.Scatter | operations.Gather):
            return True
        return shape is wanted or self.shape(node) == tuple(self.size(e) for e in wanted)

    def _element_shape(self, consumer: Node) -> graph.Shape:
        """The shape over which a consumer reads its inputs."""
        if isinstance(consumer.operation, operations.Reduce | operations.Scan):
            return max((x.shape for x in consumer.inputs), key=len)
        return consumer.shape

    def element(
        self, inner: Builder, node: Node, indices: tuple[Size, ...], consumer: Node, depth: int = 1
    ) -> fun.Atom:
        """An element of a node, in a kernel body; dimensions align on the right."""
        if not node.shape:
            return self.atom(node)
        indices = indices[len(indices) - len(node.shape) :]
        operation = node.operation
        if type(operation) is operations.Iota:
            index = indices[operation.axis]
            if node.shape[operation.axis].poly == 1:
                index = ZERO
            name = index.variable
            return inner.scalar(index) if name is None else fun.Var(name, fun.Scalar(DType.I64))
        known = self.memos[self._home(node)].get(node)
        if known is None and self._inlined(node, consumer, depth):
            return self.compute(inner, node, indices, consumer, depth)
        shape = self.shape(node)
        exact = tuple([ZERO if n == ONE else i for n, i in zip(shape, indices, strict=True)])
        return inner.let(fun.Index(self.array(node), exact), fun.Scalar(node.dtype))

    def compute(
        self, inner: Builder, node: Node, indices: tuple[Size, ...], consumer: Node, depth: int
    ) -> fun.Atom:
        """An element of an elementwise node, computed in a kernel body."""
        arguments = tuple(
            [self.element(inner, x, indices, consumer, depth + 1) for x in node.inputs]
        )
        inner.place = node.place()
        match node.operation:
            case operations.Elementwise(operation):
                return inner.let(fun.Apply(operation, arguments), fun.Scalar(node.dtype))
            case operations.Cast(dtype):
                return inner.let(fun.Cast(dtype, arguments[0]), fun.Scalar(dtype))
        raise AssertionError(node.operation)

    def space(self, inner: Builder, shape: tuple[Size, ...]) -> tuple[fun.Range, ...]:
        return tuple([fun.Range(inner.index(), extent) for extent in shape])

    def poly(self, builder: Builder, node: Node) -> Size:
        """An int64 scalar as a polynomial."""
        return builder.size(self.atom(node))

    # ------------------------------------------------------------ functions

    def operator(self, b: Builder, node: Node, name: str, elements: tuple[Node, ...]) -> fun.Lambda:
        """A scalar operation of the table, or the node's lambda, as an operator."""
        inner = b.inner()
        if name and name != "lambda":
            dtype = elements[0].dtype
            left, right = (inner.var(base, fun.Scalar(dtype)) for base in ("a", "b"))
            total = inner.let(fun.Apply(name, (left, right)), fun.Scalar(dtype))
            return fun.Lambda((left, right), inner.body([total]))
        (function,) = node.lambdas
        params = tuple(inner.var("a", self.type(param)) for param in function.params)
        return fun.Lambda(params, self.body(inner, function, params, fresh=False))

    def body(
        self, outer: Builder, function: Lambda, params: tuple[fun.Atom, ...], fresh: bool = True
    ) -> fun.Body:
        """The body of a lambda, its parameters being `params`."""
        inner = outer.inner() if fresh else outer
        scope = function.scope
        before = (self.builders[scope], self.memos[scope]) if scope in self.memos else None
        self.builders[scope] = inner
        self.memos[scope] = {x: (a,) for x, a in zip(function.params, params, strict=True)}
        try:
            results = [self.atom(result) for result in function.results]
            return inner.body(results)
        finally:
            del self.builders[scope], self.memos[scope]
            if before is not None:
                self.builders[scope], self.memos[scope] = before
