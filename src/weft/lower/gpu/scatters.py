"""Scatters with exact operators on a device: every item combines elements by atomic operations.

Sums of integers, their extremes and their bits are the same in any order; what is not, sums of
floats, keeps the order of the space, and is one item's. A launch chooses between

- a copy of the destination in each group's memory, where it fits and there are elements for it:
  a group combines a stretch of the elements there, then its copy with the destination;
- the destination itself.

    let h = scatter d over (i < n) { x[i], 1 } with add
    =>  for 256 items of a group { copy[..] = 0; barrier
          for i in the group's stretch { atomic copy[x[i]] add 1 }; barrier
          for b below m { if copy[b] != 0 { atomic h[b] add copy[b] } } }
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import reduce as fold

from weft.fun import nodes as fun
from weft.fun import operators
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.imp.walk import may_leave
from weft.lower import bounds, scans, scatters, shapes, spaces
from weft.lower.bodies import lower_body
from weft.lower.emitter import Emitter
from weft.lower.gpu import versions
from weft.lower.gpu.host import Host
from weft.lower.unit import memory
from weft.ops.dtypes import DType
from weft.plan import launches
from weft.sizes import ONE, ZERO, Size, as_poly, product

_GROUP = 256
_SHARED_BYTES = 32768  # of a group's copies
_LEAST = 4096  # elements that are worth a copy,
_GROUPS = 512  # and groups that have one, at most
_ATOMIC = ("add", "minimum", "maximum", "bitwise_and", "bitwise_or", "bitwise_xor")
_DTYPES = (DType.I32, DType.U32, DType.I64, DType.U64)


def suits(scatter: fun.Scatter) -> bool:
    """Whether its operator gives the same in any order, and devices have it."""
    return (
        scatter.operator is not None
        and operators.is_componentwise(scatter.operator)
        and all(operation in _ATOMIC for operation in _operations(scatter.operator))
        and all(param.type.dtype in _DTYPES for param in scatter.operator.params)
        and shapes.is_flat(scatter.body)
    )


def _operations(operator: fun.Lambda) -> list[str]:
    """The operation of each component."""
    exprs = [let.expr for let in operator.body.statements]
    return [expr.operation for expr in exprs if isinstance(expr, fun.Apply)]


def lower(host: Host, let: fun.Let, scatter: fun.Scatter) -> None:
    """A scatter that `suits`; by one item on a device that lacks its atomic operations."""
    if host.dialect == "cuda" or not _has_long_extremes(scatter):
        _atomically(host, let, scatter)
        return
    with host.inside() as atomically:
        _atomically(host, let, scatter)
    with host.inside() as by_one_item, host.by_one_item():
        host.statement(host.e, let)
    both = tuple(atomically), tuple(by_one_item)
    host.steps.append(launches.Branch(launches.LONG_EXTREMES, *both))


def _has_long_extremes(scatter: fun.Scatter) -> bool:
    assert scatter.operator is not None
    return any(
        operation in ("minimum", "maximum") and param.type.dtype.itemsize == 8
        for operation, param in zip(
            _operations(scatter.operator), scatter.operator.params, strict=False
        )
    )


def _atomically(host: Host, let: fun.Let, scatter: fun.Scatter) -> None:
    """Both forms, of which a launch takes one."""
    shape = memory(let.pattern[0]).shape
    extents = [r.extent for r in scatter.space]
    host.know(*extents, *shape)
    copied = ZERO
    if all(host.is_sized(size) for size in (*extents, *shape)):
        copied = _launch_copies(host, let, scatter, product(shape), product(extents))
    if copied != ONE:
        host.launch(
            let, "scatter", scatter.space, lambda k: _direct(k, let, scatter), 1 - copied
        )


def _launch_copies(
    host: Host, let: fun.Let, scatter: fun.Scatter, size: Size, points: Size
) -> Size:
    """Launch the form with copies; 1 where it runs."""
    most = _SHARED_BYTES // sum(var.type.dtype.itemsize for var in let.pattern)
    whether = versions.below(host, size, most + 1) * (1 - versions.below(host, points, _LEAST))
    groups = versions.minimum(host, versions.ceil(host, points, _LEAST), as_poly(_GROUPS))
    k, item = host.kernel_emitter(), host.unit.integer("item")
    _Copies(k, let, scatter, most).run(item, points, groups)
    if whether == ZERO or may_leave(k.levels[0]):
        return ZERO
    label = spaces.describe("scatter", scatter.space, let.pattern)
    host.unit.kernels.append(f"{label}, into copies of groups where they fit")
    host.add(k, "histogram", item, whether * groups * _GROUP, _GROUP)
    return whether


def _direct(k: Emitter, let: fun.Let, scatter: fun.Scatter) -> None:
    """One element combined with the destination."""
    values = [k.atom(atom) for atom in lower_body(k, scatter.body)]
    scatters.check(k, let, scatter, values)
    rank = scatters.rank_of(let)
    _combine(k, let, scatter, values[:rank], values[rank:])


def _combine(
    k: Emitter, let: fun.Let, scatter: fun.Scatter, indices: Sequence[imp.Expr],
    values: Sequence[imp.Expr],
) -> None:  # fmt: skip
    """destination[indices] = operator(destination[indices], values), atomically."""
    assert scatter.operator is not None
    for operation, var, address, value in zip(
        _operations(scatter.operator), let.pattern, scatters.addresses(k, let, indices), values,
        strict=True,
    ):  # fmt: skip
        pointer = k.pointer(memory(var).block, var.type.dtype)
        k.emit(imp.Atomic(operation, pointer, address, value))


class _Copies:
    """What an item of a group that has a copy does."""

    def __init__(self, k: Emitter, let: fun.Let, scatter: fun.Scatter, most: int) -> None:
        assert scatter.operator is not None
        self.k, self.let, self.scatter = k, let, scatter
        self.operations = _operations(scatter.operator)
        self.copies = [k.shared(var.type.dtype, most) for var in let.pattern]
        self.neutral = [scans.neutral(scatter.operator, n) for n in range(len(let.pattern))]
        self.size = k.named(product(memory(let.pattern[0]).shape))

    def run(self, item: imp.Var, points: Size, groups: Size) -> None:
        """The stretch of the item's group, between two walks over its copy."""
        k, space, group = self.k, self.scatter.space, imp.integer(_GROUP)
        lane = k.declare(machine("%", item, group), "lane")
        with self._every(lane) as at:
            for copy, value in zip(self.copies, self.neutral, strict=True):
                k.emit(imp.Store(copy, at, value))
        k.emit(imp.Barrier())
        end, count = k.named(points), k.named(groups)
        share = spaces.ceil(k, end, count)
        first = k.declare(machine("*", k.declare(machine("/", item, group)), share))
        last = k.declare(machine("min", end, k.declare(machine("+", first, share))))
        number = k.unit.integer("i")
        with ExitStack() as scopes:
            for r in space:
                scopes.enter_context(k.index(r.index.name, imp.ZERO, ZERO, r.extent))
            begin = k.declare(machine("+", first, lane))
            scopes.enter_context(k.loop(number, begin, last, step=_GROUP))
            spaces.decode(k, space, number)
            self._element([k.atom(atom) for atom in lower_body(k, self.scatter.body)])
        k.emit(imp.Barrier())
        with self._every(lane) as at:
            values = [k.declare(imp.Load(copy, at), depth=k.depth) for copy in self.copies]
            changed: list[imp.Expr] = [
                imp.Apply("not_equal", (value, none), DType.BOOL)
                for value, none in zip(values, self.neutral, strict=True)
            ]
            with k.branch(fold(lambda a, b: machine("||", a, b), changed)):
                indices = scatters.indices_of(k, self.let, at)
                _combine(k, self.let, self.scatter, indices, values)

    @contextmanager
    def _every(self, lane: imp.Expr) -> Iterator[imp.Expr]:
        """Inside, elements of the copy, neighbours by neighbouring items."""
        at = self.k.unit.integer("b")
        with self.k.loop(at, lane, self.size, step=_GROUP):
            yield at

    def _element(self, values: list[imp.Expr]) -> None:
        """One element combined with the copy, if its index is inside of the destination."""
        k, rank = self.k, scatters.rank_of(self.let)
        for axis, extent in enumerate(memory(self.let.pattern[0]).shape):
            limit = k.named(extent)
            inside = bounds.within(k, values[axis], limit)
            array = self.scatter.destinations[0].name
            code = k.unit.failure(array, axis, k.place, index=values[axis])
            fail = imp.Fail(code, values[axis], limit, stays=True)
            k.emit(imp.If(imp.Apply("logical_not", (inside,), DType.BOOL), (fail,)))
        all_inside = fold(lambda a, b: machine("&&", a, b), [
            bounds.within(k, values[axis], k.named(extent))
            for axis, extent in enumerate(memory(self.let.pattern[0]).shape)
        ])  # fmt: skip
        with k.branch(all_inside):
            at = scatters.dense(k, self.let, values[:rank])
            for operation, copy, value in zip(
                self.operations, self.copies, values[rank:], strict=True
            ):
                k.emit(imp.Atomic(operation, copy, at, value))
