"""Nodes to statements, one case an operation: the walk that `trace` drives."""

from __future__ import annotations

from typing import assert_never

from weft.errors import TracingError
from weft.frontend import operations
from weft.frontend.graph import Node
from weft.frontend.values import Values, View
from weft.fun import nodes as fun
from weft.fun.builder import Builder
from weft.sizes import ZERO, Poly, Size


class Emitter(Values):
    """Emits the statements of nodes."""

    def emit(self, node: Node, b: Builder) -> tuple[fun.Atom, ...]:
        operation = node.operation
        match operation:
            case operations.SizeScalar():
                return (b.scalar(self.size(node.sizes[0])),)
            case operations.Elementwise() | operations.Cast() | operations.Iota():
                return (self._elementwise(node, b),)
            case operations.Empty(dtype):
                return (b.let(fun.Empty(dtype, self.shape(node)), self.type(node)),)
            case operations.Element(boundary):
                return (self._element(node, b, boundary),)
            case (
                operations.Slice()
                | operations.Permute()
                | operations.Reshape()
                | operations.Broadcast()
                | operations.LmadSlice()
            ):
                return (b.let(self._view(operation, node, b), self.type(node)),)
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
                extents = tuple(map(self.size, node.sizes))
                arguments = tuple(self._argument(source, b) for source in node.inputs)
                call = fun.Call(routine, arguments, options, extents)
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

    def _argument(self, node: Node, b: Builder) -> fun.Atom:
        """What a library call takes: memory that is known before the program runs, or a copy."""
        source = node
        while isinstance(source.operation, View):
            if len(source.inputs) > 1:  # a part whose place is computed
                return b.let(fun.Copy(self.array(node)), self.type(node))
            source = source.inputs[0]
        return self.atom(node)

    def _view(self, operation: View, node: Node, b: Builder) -> fun.Expr:
        """A layout change of the first input; a scalar where one element is left or spread."""
        source = self.atom(node.inputs[0])
        if not node.inputs[0].shape or isinstance(operation, operations.Broadcast):
            return fun.Broadcast(source, self.shape(node))
        assert isinstance(source, fun.Var)
        match operation:
            case operations.Slice(dims):
                spans = self._dims(node, b, dims, node.inputs[1:])
                return fun.Slice(source, spans) if node.shape else fun.Index(source, points(spans))
            case operations.Permute(axes):
                return fun.Permute(source, axes)
            case operations.Reshape():
                if not node.shape:
                    return fun.Index(source, (ZERO,) * len(node.inputs[0].shape))
                return fun.Reshape(source, self.shape(node))
            case operations.LmadSlice():
                return fun.LmadSlice(source, *self._lmad(node, b, node.inputs[1:]))
            case _:
                assert_never(operation)

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


def points(dims: tuple[fun.Span | Size, ...]) -> tuple[Size, ...]:
    """The indices of dimensions that a slice leaves out."""
    return tuple(dim for dim in dims if not isinstance(dim, fun.Span))
