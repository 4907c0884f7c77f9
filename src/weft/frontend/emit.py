"""Nodes to statements: the walk that `trace` drives."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

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
_VIEWS = (
    operations.Slice,
    operations.Permute,
    operations.Reshape,
    operations.Broadcast,
    operations.LmadSlice,
)


class Emitter:
    """Emits each node once, in the body of its scope.

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

    # ------------------------------------------------------------ atoms

    def result(self, node: Node) -> fun.Atom:
        """A result of the program: memory of its own, shared with no other."""
        atom = self.atom(node)
        if not isinstance(atom, fun.Var) or not isinstance(atom.type, fun.Array):
            return atom
        if atom.name in self.taken or isinstance(node.operation, _VIEWS):
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
            self.memos[top.scope][top] = self._emit(top, builder)
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
        memo = self.memos.get(node.scope)
        if memo is None:
            raise TracingError(
                "a value that was made inside a traced function is used outside of it",
                advice="return it from the function",
                place=node.place(),
            )
        return memo.get(node)

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
        return self.builders[node.scope]

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
        known = self.memos[node.scope].get(node)
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

    # ------------------------------------------------------------ one node

    def _emit(self, node: Node, b: Builder) -> tuple[fun.Atom, ...]:
        operation = node.operation
        match operation:
            case operations.SizeScalar():
                return (b.scalar(self.size(node.sizes[0])),)
            case operations.Elementwise() | operations.Cast() | operations.Iota():
                return (self._elementwise(node, b),)
            case operations.Element(boundary):
                return (self._element(node, b, boundary),)
            case operations.Slice(dims):
                spans = self._dims(node, b, dims, node.inputs[1:])
                if not node.shape:
                    return (
                        b.let(
                            fun.Index(self.array(node.inputs[0]), self._points(spans)),
                            self.type(node),
                        ),
                    )
                return (b.let(fun.Slice(self.array(node.inputs[0]), spans), self.type(node)),)
            case operations.Permute(axes):
                return (b.let(fun.Permute(self.array(node.inputs[0]), axes), self.type(node)),)
            case operations.Reshape():
                return (self._reshape(node, b),)
            case operations.Broadcast():
                source = self.atom(node.inputs[0])
                return (b.let(fun.Broadcast(source, self.shape(node)), self.type(node)),)
            case operations.LmadSlice():
                offset, pairs = self._lmad(node, b, node.inputs[1:])
                sliced = fun.LmadSlice(self.array(node.inputs[0]), offset, pairs)
                return (b.let(sliced, self.type(node)),)
            case operations.LmadUpdate():
                offset, pairs = self._lmad(node, b, node.inputs[2:])
                array, value = map(self.array, node.inputs[:2])
                return (b.let(fun.LmadUpdate(array, offset, pairs, value), self.type(node)),)
            case operations.Update(dims):
                spans = self._dims(node, b, dims, node.inputs[2:])
                updated = fun.Update(self.array(node.inputs[0]), spans, self.atom(node.inputs[1]))
                return (b.let(updated, self.type(node)),)
            case operations.Gather():
                return (self._gather(node, b),)
            case operations.Generate():
                return self._generate(node, b)
            case operations.Reduce():
                return self._reduce(node, b)
            case operations.Scan():
                return self._scan(node, b)
            case operations.Scatter():
                return self._scatter(node, b)
            case operations.Concat(axis):
                arrays = tuple(map(self.array, node.inputs))
                return (b.let(fun.Concat(arrays, axis), self.type(node)),)
            case operations.Call(routine, options):
                call = fun.Call(routine, tuple(map(self.atom, node.inputs)), options)
                return b.bind(call, self.types(node))
            case operations.If():
                then, otherwise = (self.body(b, function, ()) for function in node.lambdas)
                branch = fun.If(self.atom(node.inputs[0]), then, otherwise)
                b.place = node.place()
                return b.bind(branch, self.types(node))
            case operations.For() | operations.While():
                return self._loop(node, b)
            case operations.Leaf() | operations.Param() | operations.Constant() | operations.Pick():
                raise TracingError(
                    "a parameter of a traced function is used outside of it",
                    advice="return the value from the function",
                    place=node.place(),
                )
            case _:
                assert_never(operation)

    def _elementwise(self, node: Node, b: Builder) -> fun.Atom:
        if not node.shape:
            return self.compute(b, node, (), node, 0)
        inner = b.inner()
        space = self.space(inner, self.shape(node))
        indices = tuple([Poly.var(r.index.name) for r in space])
        if isinstance(node.operation, operations.Iota):
            result = self.element(inner, node, indices, node)
        else:
            result = self.compute(inner, node, indices, node, 0)
        return b.let(fun.Kernel(space, inner.body([result])), self.type(node))

    def _element(
        self,
        node: Node,
        b: Builder,
        boundary: tuple[tuple[fun.BoundaryKind, fun.Const | None] | None, ...],
    ) -> fun.Atom:
        array = self.array(node.inputs[0])
        indices = tuple(self.poly(b, x) for x in node.inputs[1:])
        rules: list[fun.Boundary | None] = []
        for rule, extent in zip(boundary, self.shape(node.inputs[0]), strict=False):
            rules.append(None if rule is None else fun.Boundary(rule[0], ZERO, extent, rule[1]))
        return b.let(fun.Index(array, indices, tuple(rules)), self.type(node))

    def _dims(
        self,
        node: Node,
        b: Builder,
        dims: tuple[operations.SliceDim, ...],
        scalars: tuple[Node, ...],
    ) -> tuple[fun.Span | Size, ...]:
        sizes = iter([self.size(extent) for extent in node.sizes])
        moving = iter([self.poly(b, scalar) for scalar in scalars])
        result: list[fun.Span | Size] = []
        for dim in dims:
            match dim:
                case operations.Span(step):
                    start = next(sizes)
                    result.append(fun.Span(start, next(sizes), step))
                case operations.MovingSpan(step):
                    result.append(fun.Span(next(moving), next(sizes), step))
                case operations.Point():
                    result.append(next(sizes))
                case operations.MovingPoint():
                    result.append(next(moving))
                case _:
                    assert_never(dim)
        return tuple(result)

    @staticmethod
    def _points(dims: tuple[fun.Span | Size, ...]) -> tuple[Size, ...]:
        return tuple(dim for dim in dims if not isinstance(dim, fun.Span))

    def _reshape(self, node: Node, b: Builder) -> fun.Atom:
        source = self.atom(node.inputs[0])
        if not node.shape:  # of one element, to a scalar
            assert isinstance(source, fun.Var)
            zeros = (ZERO,) * len(node.inputs[0].shape)
            return b.let(fun.Index(source, zeros), self.type(node))
        if not node.inputs[0].shape:
            return b.let(fun.Broadcast(source, self.shape(node)), self.type(node))
        assert isinstance(source, fun.Var)
        return b.let(fun.Reshape(source, self.shape(node)), self.type(node))

    def _lmad(
        self, node: Node, b: Builder, scalars: tuple[Node, ...]
    ) -> tuple[Size, tuple[tuple[Size, Size], ...]]:
        offset, *strides = (self.poly(b, scalar) for scalar in scalars)
        extents = (self.size(extent) for extent in node.sizes)
        return offset, tuple(zip(extents, strides, strict=True))

    # ------------------------------------------------------------ data parallelism

    def _gather(self, node: Node, b: Builder) -> fun.Atom:
        operation = node.operation
        assert isinstance(operation, operations.Gather)
        inner = b.inner()
        space = self.space(inner, self.shape(node))
        over = [Poly.var(r.index.name) for r in space]
        first, last = operation.before, operation.before + operation.rank
        kept = iter(over[:first] + over[last:])
        where = tuple(over[first:last])
        gathered = dict(zip(operation.axes, node.inputs[1:], strict=True))
        indices = tuple(
            inner.size(self.element(inner, gathered[axis], where, node))
            if axis in gathered
            else next(kept)
            for axis in range(len(node.inputs[0].shape))
        )
        inner.place = node.place()
        value = inner.let(fun.Index(self.array(node.inputs[0]), indices), fun.Scalar(node.dtype))
        return b.let(fun.Kernel(space, inner.body([value])), self.type(node))

    def _generate(self, node: Node, b: Builder) -> tuple[fun.Atom, ...]:
        inner = b.inner()
        space = self.space(inner, tuple(self.size(extent) for extent in node.sizes))
        (function,) = node.lambdas
        body = self.body(inner, function, tuple(r.index for r in space), fresh=False)
        return b.bind(fun.Kernel(space, body), self.types(node))

    def _reduce(self, node: Node, b: Builder) -> tuple[fun.Atom, ...]:
        operation = node.operation
        assert isinstance(operation, operations.Reduce)
        elements, neutral = node.inputs[: operation.count], node.inputs[operation.count :]
        inner = b.inner()
        shape = tuple(self.size(e) for e in self._element_shape(node))
        kept = [axis for axis in range(len(shape)) if axis not in operation.axes]
        order = [*kept, *operation.axes]
        space = self.space(inner, tuple(shape[axis] for axis in order))
        index: dict[int, Size] = {
            a: Poly.var(r.index.name) for a, r in zip(order, space, strict=True)
        }
        indices = tuple(index[axis] for axis in range(len(shape)))
        values = [self.element(inner, x, indices, node) for x in elements]
        reduction = fun.Reduce(
            space, len(operation.axes), inner.body(values),
            self.operator(b, node, operation.operator, elements),
            tuple(map(self.atom, neutral)),
        )  # fmt: skip
        return b.bind(reduction, self.types(node))

    def _scan(self, node: Node, b: Builder) -> tuple[fun.Atom, ...]:
        operation = node.operation
        assert isinstance(operation, operations.Scan)
        elements, initial = node.inputs[: operation.count], node.inputs[operation.count :]
        inner = b.inner()
        space = self.space(inner, tuple(self.size(e) for e in self._element_shape(node)))
        indices = tuple(Poly.var(r.index.name) for r in space)
        values = [self.element(inner, x, indices, node) for x in elements]
        scan = fun.Scan(
            space, inner.body(values), self.operator(b, node, operation.operator, elements),
            tuple(map(self.atom, initial)), operation.exclusive,
        )  # fmt: skip
        return b.bind(scan, self.types(node))

    def _scatter(self, node: Node, b: Builder) -> tuple[fun.Atom, ...]:
        operation = node.operation
        assert isinstance(operation, operations.Scatter)
        count, rank = operation.count, operation.rank
        destinations = node.inputs[:count]
        values, where = node.inputs[count : 2 * count], node.inputs[2 * count :]
        inner = b.inner()
        kept = self.shape(destinations[0])[len(where) :]
        space = self.space(inner, (*(self.size(e) for e in node.sizes), *kept))
        over = tuple(Poly.var(r.index.name) for r in space)
        indices: list[fun.Atom] = [self.element(inner, x, over[:rank], node) for x in where]
        indices += [r.index for r in space[rank:]]
        results = [*indices, *(self.element(inner, x, over, node) for x in values)]
        combine = None
        if operation.operator is not None:
            combine = self.operator(b, node, operation.operator, destinations)
        scatter = fun.Scatter(
            tuple(map(self.array, destinations)), space, inner.body(results), combine
        )
        return b.bind(scatter, self.types(node))

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

    def _loop(self, node: Node, b: Builder) -> tuple[fun.Atom, ...]:
        inner = b.inner()
        form: fun.For | fun.While
        if isinstance(node.operation, operations.For):
            (function,) = node.lambdas
            lower, upper = (self.poly(b, x) for x in node.inputs[:2])
            initial = node.inputs[2:]
            index = inner.index("k")
            params = tuple(inner.var(_base(p), self.type(p)) for p in function.params[1:])
            form = fun.For(index, lower, upper)
            body = self.body(inner, function, (index, *params), fresh=False)
        else:
            condition, function = node.lambdas
            initial = node.inputs
            params = tuple(inner.var(_base(p), self.type(p)) for p in function.params)
            form = fun.While(self.body(inner, condition, params))
            body = self.body(inner, function, params)
        loop = fun.Loop(params, tuple(map(self.atom, initial)), form, body)
        b.place = node.place()
        return b.bind(loop, self.types(node))


def _base(param: Node) -> str:
    """What a parameter is called in the program."""
    name = param.operation.name if isinstance(param.operation, operations.Param) else ""
    return name if name.isidentifier() and name.isascii() else "v"
