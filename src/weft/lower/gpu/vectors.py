"""Straight-line kernels on a GPU: an item does a vector of neighbours, loaded and stored at once.

A warp's 32 items ask for 128 bytes at a time where each reads a float32, and for 32 where it
reads a byte; with 16 bytes for each item it takes a quarter, or a sixteenth, of the instructions
to keep as much memory under way. (V. Volkov, "Better performance at lower occupancy", GTC 2010.)

    kernel (i < n) { f(x[i], y[i]) }
    =>  item k:  load x[4 k ..], y[4 k ..]; for l < 4 { z_l = f(x_l, y_l) }; store z[4 k ..]

All that varies from one index of the last dimension to the next must be side by side in memory,
and begin where a vector does, which the launch finds out; what is left of a row at its end is
done element by element. Elements are computed by the same operations as by an item each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import bounds, kernels, merging, shapes, spaces
from weft.lower.bodies import lower_body
from weft.lower.emitter import Emitter
from weft.lower.gpu import versions
from weft.lower.gpu.host import GROUP, Host
from weft.lower.unit import Placed, memory
from weft.mem import neighbours
from weft.mem.nodes import MemArray
from weft.ops.dtypes import DType
from weft.records import dataclass
from weft.sizes import ONE, ZERO, Poly, Size, as_poly, product

BYTES = 16  # of a GPU's widest load
_BUSY = 1 << 18  # items that keep a GPU busy: of fewer elements each has one
_MOST = 8  # arrays that are read or written by vectors: registers hold a vector of each


@dataclass(frozen=True, slots=True)
class _Vectors:
    """What a kernel reads and writes by vectors: the reads' statements by their results' names."""

    lanes: int
    reads: Mapping[str, fun.Index]
    arrays: tuple[MemArray, ...]
    addresses: tuple[Size, ...]  # of the arrays, in elements


def by_vectors(host: Host, let: fun.Let, kernel: fun.Kernel, gpu: Size) -> Size:
    """Launch a kernel by vectors, where it suits, the launch finds them aligned, and it is large.

    Parameters
    ----------
    gpu : Size
        1 where the device is one, else 0.

    Returns
    -------
    Size
        1 where it is left to one item for each index, else 0.
    """
    space = kernels.fused(host.e, let, kernel)
    *outer, last = space
    found = _vectors(let, kernel, last.index.name)
    count = product(r.extent for r in space)
    if found is None or not host.is_sized(count):
        return ONE
    whole = aligned(host, found.lanes, found.arrays, found.addresses, kernel.space, outer)
    few = versions.below(host, versions.divide(host, count, as_poly(found.lanes)), _BUSY)
    whether = whole * (1 - few) * gpu
    if whether == ZERO:
        return ONE
    parts = versions.ceil(host, last.extent, found.lanes)
    items = product(r.extent for r in outer) * parts
    k, item = host.kernel_emitter(), host.unit.integer("item")
    with ExitStack() as scopes:
        for r in kernel.space:
            scopes.enter_context(k.index(r.index.name, imp.ZERO, ZERO, r.extent))
        if any(bounds.check(k, access) for access in found.reads.values()):
            return ONE  # what each element has to check, items do
        scopes.enter_context(k.branch(machine("<", item, k.named(items))))
        part: imp.Expr = item
        if outer:
            spaces.decode(k, tuple(outer), k.declare(machine("/", item, k.named(parts))))
            part = k.declare(machine("%", item, k.named(parts)))
        _part(k, let, kernel, last, found, part)
    host.unit.kernels.append(spaces.describe("map by vectors", kernel.space, let.pattern))
    host.add(k, "vectors", item, whether * items, GROUP)
    return 1 - whether


def _part(
    k: Emitter, let: fun.Let, kernel: fun.Kernel, last: fun.Range, found: _Vectors, part: imp.Expr
) -> None:  # fmt: skip
    """A row's vector of a number, or the elements at its end; other indices are known."""
    lanes, extent = imp.integer(found.lanes), k.named(last.extent)
    lower = k.declare(machine("*", part, lanes), "lower")
    upper = k.declare(machine("+", lower, lanes), "upper")
    with k.level() as whole:
        _vector(k, let, kernel, last.index.name, found, lower)
    with k.level() as elements:
        var = k.unit.integer("i")
        with k.loop(var, lower, extent):
            k.bind(last.index.name, var)
            kernels.lower_results(k, let, kernel)
    k.emit(imp.If(machine("<=", upper, extent), tuple(whole), tuple(elements)))


def _vector(
    k: Emitter, let: fun.Let, kernel: fun.Kernel, lane: str, found: _Vectors, lower: imp.Expr
) -> None:  # fmt: skip
    """A whole vector: loads, then its elements, then stores."""
    lanes, var = imp.integer(found.lanes), k.unit.integer("l")
    k.bind(lane, lower)
    loaded: dict[str, imp.Pointer] = {}
    for name, access in found.reads.items():
        array = memory(access.array)
        loaded[name] = k.local(array.dtype, found.lanes)
        pointer, index = k.address(array, access.indices)
        k.emit(imp.LoadVector(loaded[name], pointer, index, found.lanes))
    made = [k.local(v.type.dtype, found.lanes) for v in let.pattern]
    rest = tuple(s for s in kernel.body.statements if s.pattern[0].name not in loaded)
    with k.loop(var, imp.ZERO, lanes, unroll=found.lanes):
        k.bind(lane, k.declare(machine("+", lower, var)))
        for name, near in loaded.items():
            k.bind(name, k.declare(imp.Load(near, var)))
        results = lower_body(k, replace(kernel.body, statements=rest))
        for near, result in zip(made, results, strict=True):
            k.emit(imp.Store(near, var, k.atom(result)))
    k.bind(lane, lower)
    indices = tuple(Poly.var(r.index.name) for r in kernel.space)
    for target, near in zip(let.pattern, made, strict=True):
        pointer, index = k.address(memory(target), indices)
        k.emit(imp.StoreVector(pointer, index, near, found.lanes))


# ---------------------------------------------------------------- what suits


def _vectors(let: fun.Let, kernel: fun.Kernel, lane: str) -> _Vectors | None:
    """What is side by side along an index; None where something else varies with it in memory."""
    body = kernel.body
    if not shapes.is_flat(body) or not all(isinstance(v.type, fun.Scalar) for v in body.results):
        return None
    indices = tuple(Poly.var(r.index.name) for r in kernel.space)
    varying = neighbours.depends(body.statements, lane)
    reads: dict[str, fun.Index] = {}
    arrays = [memory(var) for var in let.pattern]
    addresses = [array.index.apply(indices) for array in arrays]
    for statement in body.statements:
        match statement.expr:
            case fun.Index(array, at) as access if not any(access.boundary or ()):
                address = memory(array).index.apply(at)
                if address.variables() & varying:
                    reads[statement.pattern[0].name] = access
                    arrays.append(memory(array))
                    addresses.append(address)
            case _:
                inside = fun.Body((statement,), ())
                if any(p.variables() & varying for p in merging.reads(inside)):
                    return None
    beside = all(
        p.degree(lane) == 1 and p.coefficient(lane) == ONE and p.variables() & varying == {lane}
        for p in addresses
    )
    largest = max(array.dtype.itemsize for array in arrays)
    plain = all(array.dtype is not DType.BOOL and not array.dtype.is_complex for array in arrays)
    if not beside or not plain or len(arrays) > _MOST or largest >= BYTES:
        return None
    return _Vectors(BYTES // largest, reads, tuple(arrays), tuple(addresses))


def aligned(
    host: Host, count: int, arrays: Sequence[MemArray], addresses: Sequence[Size],
    space: Sequence[fun.Range], outer: Sequence[fun.Range],
) -> Size:  # fmt: skip
    """1 where each vector of so many begins at a multiple of its bytes, else 0, by the launch.

    `outer` are the indices that choose a row; the others of the space are 0 where one begins.
    """
    names = {r.index.name for r in outer}
    apart: list[Size] = []  # what all must be a multiple of the lanes
    for array, address in zip(arrays, addresses, strict=True):
        start = address.substitute({r.index.name: ZERO for r in space})
        for name in (r.index.name for r in outer):
            step = address.coefficient(name)
            if address.degree(name) > 1 or step.variables() & names:
                return ZERO
            apart.append(step)
        apart.append(start)
        for placed in _places(host, array.block):
            if placed.per_thread is not None:
                return ZERO
            if any(factor % BYTES for factor in placed.offset.terms.values()):
                apart.append(versions.divide(host, placed.offset, as_poly(array.dtype.itemsize)))
    lanes = as_poly(count)
    left = [versions.remainder(host, size, lanes) for size in apart if host.is_sized(size)]
    if len(left) < len(apart):
        return ZERO
    return versions.below(host, sum(left, ZERO), 1)


def _places(host: Host, block: str) -> list[Placed]:
    """Where a block lies, or all of those that it is chosen from."""
    choice = host.unit.choices.get(block)
    return [host.unit.blocks[name] for name in (choice.blocks if choice else (block,))]
