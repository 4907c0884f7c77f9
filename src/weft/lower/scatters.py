"""Scatters: indices of a block are computed in vector lanes, then written one by one.

At the top, a scatter is spread over the pool

- into few elements, with a commutative operator whose neutral element is known: each tile
  has copies of its own, merged into the destination tile after tile, so that the bits of
  float sums depend on extents alone;
- into more elements than caches hold: each thread goes through all indices and writes those in
  its own range of the destination, which keeps their order. To go through indices takes as long
  as to write what is near, so into fewer one thread does it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from weft.fun import nodes as fun
from weft.fun import operators
from weft.fun.vector_math import has_vector_math
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import bounds, reductions, scans, shapes, spaces
from weft.lower.bodies import lower_body, scalar_results
from weft.lower.emitter import Emitter
from weft.lower.rows import LANES, simd
from weft.lower.unit import memory
from weft.ops.dtypes import DType
from weft.sizes import ZERO, Poly, as_poly, product

BLOCK = 512
PRIVATE = 8192  # elements of a tile's own copies, at most
HALF_CACHE = 2048  # elements: so many copies of a small destination as fit, up to four, so
# that equal indices one after another need not wait for each other
UNROLL = 8
TILE = 1 << 18
WORTH = 1 << 16  # elements below which one thread does it all
NEAR = 16 << 20  # bytes of a destination in which one thread writes as quickly as several


def lower_scatter(e: Emitter, let: fun.Let) -> None:
    scatter = let.expr
    assert isinstance(scatter, fun.Scatter)
    with ExitStack() as scopes:
        for r in scatter.space:
            scopes.enter_context(e.index(r.index.name, imp.ZERO, ZERO, r.extent))
        if e.in_tile or e.serial or not shapes.is_flat(scatter.body):
            _serial(e, let, scatter)
        elif scatter.operator is not None and operators.is_componentwise(scatter.operator):
            _combined(e, let, scatter)
        else:
            _ranges(e, let, scatter)
    for var in let.pattern:
        e.depths["@" + var.name] = e.depth


def _combined(e: Emitter, let: fun.Let, scatter: fun.Scatter) -> None:
    """Private copies of a small destination, ranges of a large one."""
    size = e.named(product(memory(let.pattern[0]).shape))
    small = machine("<=", size, imp.integer(PRIVATE))
    few: list[imp.Stmt] = []
    many: list[imp.Stmt] = []
    if small != imp.Const(False, DType.BOOL):
        with e.level() as few:
            _private(e, let, scatter, size)
    if small != imp.Const(True, DType.BOOL):
        with e.level() as many:
            _ranges(e, let, scatter)
    e.emit(imp.If(small, tuple(few), tuple(many)))


def _serial(e: Emitter, let: fun.Let, scatter: fun.Scatter) -> None:
    outer, last = scatter.space[:-1], scatter.space[-1]

    def row() -> None:
        if shapes.is_flat(scatter.body):
            _row(e, let, scatter, imp.ZERO, e.named(last.extent))
            return
        var = e.unit.integer("i")
        serial, e.serial = e.serial, True
        with e.loop(var, imp.ZERO, e.named(last.extent)):
            e.bind(last.index.name, var)
            write(e, let, scatter, [e.atom(atom) for atom in lower_body(e, scatter.body)])
        e.serial = serial

    spaces.nest(e, outer, row)


def write(e: Emitter, let: fun.Let, scatter: fun.Scatter, values: Sequence[imp.Expr]) -> None:
    """The values of the body, written where its index says, once that is checked."""
    check(e, let, scatter, values)
    _write(e, let, scatter, addresses(e, let, values), values[rank_of(let) :])


def rank_of(let: fun.Let) -> int:
    return len(memory(let.pattern[0]).shape)


def check(e: Emitter, let: fun.Let, scatter: fun.Scatter, values: Sequence[imp.Expr]) -> None:
    for axis, extent in enumerate(memory(let.pattern[0]).shape):
        limit = e.named(extent)
        array = scatter.destinations[0].name
        code = e.unit.failure(array, axis, e.place, index=values[axis])
        inside = bounds.within(e, values[axis], limit)
        fail = imp.Fail(code, values[axis], limit)
        e.emit(imp.If(imp.Apply("logical_not", (inside,), DType.BOOL), (fail,)))


def addresses(e: Emitter, let: fun.Let, values: Sequence[imp.Expr]) -> list[imp.Expr]:
    """The element of each destination's block that the index names."""
    found = []
    for var in let.pattern:
        index = memory(var).index
        total = e.poly(index.offset)
        for value, stride in zip(values, index.strides, strict=False):
            total = machine("+", total, machine("*", value, e.poly(stride)))
        found.append(e.declare(total, depth=e.depth))
    return found


def _write(
    e: Emitter,
    let: fun.Let,
    scatter: fun.Scatter,
    addresses: Sequence[imp.Expr],
    values: Sequence[imp.Expr],
    pointers: Sequence[imp.Pointer] = (),
) -> None:
    pointers = pointers or [e.pointer(memory(var).block, var.type.dtype) for var in let.pattern]
    if scatter.operator is not None:
        old = [
            e.declare(imp.Load(pointer, address), depth=e.depth)
            for pointer, address in zip(pointers, addresses, strict=True)
        ]
        values = reductions.combine(e, scatter.operator, old, values)
    for pointer, address, value in zip(pointers, addresses, values, strict=True):
        e.emit(imp.Store(pointer, address, value))


# ---------------------------------------------------------------- rows in blocks


def _blocks(
    e: Emitter,
    let: fun.Let,
    scatter: fun.Scatter,
    lower: imp.Expr,
    upper: imp.Expr,
    addresses: Callable[[imp.Var, Sequence[imp.Expr]], list[imp.Expr]],
    width: int,
    dtype: DType,
    consume: Callable[[imp.Var, list[imp.Expr], list[imp.Expr]], None],
    own: Callable[[imp.Expr], imp.Expr] | None = None,
) -> None:
    """Blocks of a row: `width` addresses made of the checked indices, and values, in lanes;
    then `consume(lane, addresses, values)` one after another, for addresses that are `own`."""
    name = scatter.space[-1].index.name
    rank = rank_of(let)
    block = e.unit.integer("i")
    with e.loop(block, lower, upper, step=BLOCK):
        e.emit(imp.Poll())
        left = e.declare(machine("-", upper, block))
        count = e.declare(machine("min", imp.integer(BLOCK), left))
        constants: dict[int, imp.Expr] = {}
        results = scatter.body.results[rank:]
        buffers = [
            None if isinstance(atom, fun.Const) else e.local(atom.type.dtype, BLOCK, "value")
            for atom in results
        ]
        places = [e.local(dtype, BLOCK, "at") for _ in range(width)]
        var = e.unit.integer("l")
        with simd(e, var, imp.ZERO, _lanes(e, scatter.body, count)):
            lane: imp.Expr = var
            if has_vector_math(scatter.body):
                lane = e.declare(machine("min", var, e.declare(machine("-", count, imp.ONE))))
            e.bind(name, e.declare(machine("+", block, lane)))
            values = scalar_results(e, scatter.body)
            _watch(e, let, scatter, values)
            for pointer, address in zip(places, addresses(var, values), strict=True):
                e.emit(imp.Store(pointer, var, imp.Cast(dtype, address)))
            for k, (buffer, value) in enumerate(zip(buffers, values[rank:], strict=True)):
                if buffer is None:
                    constants[k] = value
                else:
                    e.emit(imp.Store(buffer, var, value))
        lanes = None if own is None else _compact(e, places[0], count, own)
        number = e.unit.integer("l")
        with e.loop(number, imp.ZERO, count if lanes is None else lanes[1], unroll=UNROLL):
            var = number
            if lanes is not None:
                lane = imp.Cast(DType.I64, imp.Load(lanes[0], number))
                var = e.declare_here(lane)
            at = [
                e.declare(imp.Cast(DType.I64, imp.Load(pointer, var)), depth=e.depth)
                for pointer in places
            ]
            read = [
                constants[k] if buffer is None else e.declare(imp.Load(buffer, var), depth=e.depth)
                for k, buffer in enumerate(buffers)
            ]
            consume(var, at, read)


def _compact(
    e: Emitter, places: imp.Pointer, count: imp.Expr, own: Callable[[imp.Expr], imp.Expr]
) -> tuple[imp.Pointer, imp.Expr]:
    """The lanes whose addresses are `own`, and how many: no processor foresees which are."""
    lanes = e.local(DType.I32, BLOCK, "lane")
    kept = e.mutable(DType.I64, imp.ZERO, "kept")
    var = e.unit.integer("l")
    with e.loop(var, imp.ZERO, count, unroll=UNROLL):
        at = e.declare(imp.Load(places, var), depth=e.depth)
        e.emit(imp.Store(lanes, kept, imp.Cast(DType.I32, var)))
        e.emit(imp.Assign(kept, machine("+", kept, imp.Select(own(at), imp.ONE, imp.ZERO))))
    return lanes, kept


def _lanes(e: Emitter, body: fun.Body, count: imp.Expr) -> imp.Expr:
    """So many, or where vector math is called, whole vectors: none is done by scalar math."""
    if not has_vector_math(body):
        return count
    above = e.declare(machine("+", count, imp.integer(LANES - 1)))
    return e.declare(machine("&", above, imp.integer(-LANES)))


def _watch(e: Emitter, let: fun.Let, scatter: fun.Scatter, values: Sequence[imp.Expr]) -> None:
    for axis, extent in enumerate(memory(let.pattern[0]).shape):
        e.watch(values[axis], e.named(extent), scatter.destinations[0].name, axis)


def _row(
    e: Emitter,
    let: fun.Let,
    scatter: fun.Scatter,
    lower: imp.Expr,
    upper: imp.Expr,
    own: Callable[[imp.Expr], imp.Expr] | None = None,
) -> None:
    """Writes of one row, in order: those whose (first) addresses are `own`."""

    def consume(_: imp.Var, at: list[imp.Expr], values: list[imp.Expr]) -> None:
        _write(e, let, scatter, at, values)

    _blocks(
        e,
        let,
        scatter,
        lower,
        upper,
        lambda _, v: addresses(e, let, v),
        len(let.pattern),
        DType.I64,
        consume,
        own,
    )


# ---------------------------------------------------------------- into many elements


def _ranges(e: Emitter, let: fun.Let, scatter: fun.Scatter) -> None:
    """All in order; or each thread writes a range of the first destination's memory, if it is far.

    That is where strides are positive.
    """
    target = memory(let.pattern[0])
    same = all(memory(var).index == target.index for var in let.pattern)
    cheap = shapes.cost(scatter.body)
    small = cheap.is_constant and cheap.constant <= 32
    label = spaces.describe("scatter", scatter.space, let.pattern)
    points = e.named(product(r.extent for r in scatter.space))
    outer, last = scatter.space[:-1], scatter.space[-1]
    positive = all(e.unit.nonnegative(stride) for stride in target.index.strides)

    def in_order() -> None:
        with spaces.parallel(e, imp.ONE, label):
            spaces.nest(e, outer, lambda: _row(e, let, scatter, imp.ZERO, e.named(last.extent)))

    if not (same and small and positive):
        in_order()
        return
    span = e.named(
        target.index.offset
        + sum(((extent - 1) * stride for extent, stride in target.index.dims), as_poly(1))
    )
    bytes_ = sum(var.type.dtype.itemsize for var in let.pattern)
    far = machine(">", span, imp.integer(NEAR // bytes_))
    several = e.declare(machine("&&", machine(">=", points, imp.integer(WORTH)), far))
    with e.level() as one:
        in_order()
    with e.level() as shared:
        _in_ranges(e, let, scatter, span, label)
    e.emit(imp.If(several, tuple(shared), tuple(one)))


def _in_ranges(
    e: Emitter, let: fun.Let, scatter: fun.Scatter, span: imp.Expr, label: str
) -> None:
    """Each thread writes what is in its range of `span` elements."""
    outer, last = scatter.space[:-1], scatter.space[-1]
    tiles = e.poly(Poly.var("threads"))
    with spaces.parallel(e, tiles, label) as tile:
        share = e.declare(machine("+", machine("/", span, tiles), imp.ONE))
        lower = e.declare(machine("*", tile, share))
        upper = e.declare(machine("+", lower, share))

        def own(at: imp.Expr) -> imp.Expr:
            return machine("&&", machine(">=", at, lower), machine("<", at, upper))

        spaces.nest(e, outer, lambda: _row(e, let, scatter, imp.ZERO, e.named(last.extent), own))


# ---------------------------------------------------------------- into few elements


def _private(e: Emitter, let: fun.Let, scatter: fun.Scatter, size: imp.Expr) -> None:
    """Tiles with copies of their own, merged in turn; exact operators in any order."""
    operator = scatter.operator
    assert operator is not None
    outer, last = scatter.space[:-1], scatter.space[-1]
    turn = e.pointer(e.unit.scratch(), DType.I64)
    shared = [e.shared_pointer(memory(var).block, var.type.dtype) for var in let.pattern]
    e.emit(imp.Store(turn, imp.ZERO, imp.ZERO))
    label = spaces.describe("scatter", scatter.space, let.pattern)
    exact = all(var.type.dtype.kind in "biu" for var in let.pattern)
    neutral = [scans.neutral(operator, k) for k in range(len(let.pattern))]
    fit = e.declare(machine("/", imp.integer(HALF_CACHE), e.declare(machine("max", imp.ONE, size))))
    two = imp.Select(machine(">=", fit, imp.integer(2)), imp.integer(2), imp.ONE)
    copies = e.declare(imp.Select(machine(">=", fit, imp.integer(4)), imp.integer(4), two))
    total = e.declare(machine("*", size, copies))
    arrays: list[imp.Pointer] = []
    offsets: list[imp.Pointer] = []

    @contextmanager
    def around(tile: imp.Var) -> Iterator[None]:
        arrays[:] = [e.local(var.type.dtype, PRIVATE, "mine") for var in let.pattern]
        var = e.unit.integer("l")
        with simd(e, var, imp.ZERO, total):
            for array, value in zip(arrays, neutral, strict=True):
                e.emit(imp.Store(array, var, value))
        # Which copy a lane of a block adds to, as a table: int64 products are slow in lanes.
        offsets[:] = [e.local(DType.I32, BLOCK, "offset")]
        mask = e.declare(machine("-", copies, imp.ONE))
        var = e.unit.integer("l")
        with simd(e, var, imp.ZERO, imp.integer(BLOCK)):
            start = machine("*", machine("&", var, mask), size)
            e.emit(imp.Store(offsets[0], var, imp.Cast(DType.I32, start)))
        yield
        e.emit(imp.Lock(turn, imp.ZERO) if exact else imp.Await(turn, imp.ZERO, tile))
        _merge(e, let, scatter, size, copies, arrays, shared)
        after = imp.ZERO if exact else machine("+", tile, imp.ONE)
        e.emit(imp.Publish(turn, imp.ZERO, after))

    def row(lower: imp.Expr, upper: imp.Expr) -> None:
        def address(lane: imp.Var, values: Sequence[imp.Expr]) -> list[imp.Expr]:
            element = imp.Cast(DType.I32, dense(e, let, values))
            return [machine("+", element, imp.Load(offsets[0], lane))]

        def consume(_: imp.Var, at: list[imp.Expr], values: list[imp.Expr]) -> None:
            old = [e.declare(imp.Load(array, at[0]), depth=e.depth) for array in arrays]
            for array, value in zip(
                arrays, reductions.combine(e, operator, old, values), strict=True
            ):
                e.emit(imp.Store(array, at[0], value))

        _blocks(e, let, scatter, lower, upper, address, 1, DType.I32, consume)

    spaces.parallel_rows(
        e, outer, last.extent, as_poly(1), label, row, tile_work=TILE, around=around,
        ordered=not exact,
    )  # fmt: skip


def dense(e: Emitter, let: fun.Let, values: Sequence[imp.Expr]) -> imp.Expr:
    """The index as a row-major element number."""
    total: imp.Expr = imp.ZERO
    for value, extent in zip(values, memory(let.pattern[0]).shape, strict=False):
        total = machine("+", machine("*", total, e.named(extent)), value)
    return e.declare(total, depth=e.depth)


def indices_of(e: Emitter, let: fun.Let, element: imp.Expr) -> list[imp.Expr]:
    """The index of the row-major element of a number."""
    rest = element
    indices: list[imp.Expr] = []
    for extent in reversed(memory(let.pattern[0]).shape[1:]):
        limit = e.named(extent)
        indices.insert(0, e.declare(machine("%", rest, limit)))
        rest = e.declare(machine("/", rest, limit))
    return [rest, *indices]


def _merge(
    e: Emitter,
    let: fun.Let,
    scatter: fun.Scatter,
    size: imp.Expr,
    copies: imp.Expr,
    arrays: Sequence[imp.Pointer],
    shared: Sequence[imp.Pointer],
) -> None:
    """destination = operator(destination, copy), copy after copy."""
    operator = scatter.operator
    assert operator is not None
    copy, element = e.unit.integer("copy"), e.unit.integer("i")
    with e.loop(copy, imp.ZERO, copies), e.loop(element, imp.ZERO, size):
        indices = indices_of(e, let, element)
        own = e.declare(machine("+", machine("*", copy, size), element))
        values = [e.declare(imp.Load(array, own), depth=e.depth) for array in arrays]
        _write(e, let, scatter, addresses(e, let, indices), values, shared)
