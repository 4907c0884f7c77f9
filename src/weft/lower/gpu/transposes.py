"""Kernels on a GPU that read along one dimension and write along another: tiles turn around.

A group reads a tile of 32 by 32 elements as they lie in memory, its items side by side along
the one dimension, and has them in its own memory when it goes along the other. A row of a tile
is one element longer there, so that columns too are in banks of their own. (G. Ruetsch and
P. Micikevicius, "Optimizing matrix transpose in CUDA", 2009.)

    kernel (i < n, j < m) { f(x[j, i]) }
    =>  group (i by 32, j by 32):  tile[j, i] = x[j, i], items along i;  barrier;
                                   y[i, j] = f(tile[j, i]), items along j

Elements are computed by the same operations as by an item each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.imp.walk import may_leave
from weft.lower import kernels, shapes, spaces
from weft.lower.bodies import lower_body, lower_index
from weft.lower.emitter import Emitter
from weft.lower.gpu import elements, versions
from weft.lower.gpu.batches import GROUP
from weft.lower.gpu.host import Host
from weft.lower.unit import memory
from weft.sizes import ONE, ZERO, Size, product

SIDE = 32
_PADDED = SIDE + 1
_ROWS = GROUP // SIDE  # that a group does at once
_TOGETHER = SIDE // _ROWS  # elements of an item
_BYTES = 32  # of what an element reads by tiles, at most: 48 KiB are shared on any GPU
_BUSY = 1 << 8  # groups that keep a GPU busy
_LONG = SIDE  # elements of a side, of which fewer leave most of a tile empty


def by_transposes(host: Host, let: fun.Let, kernel: fun.Kernel, whether: Size, gpu: Size) -> Size:
    """Launch a kernel by tiles, where it suits, and there are enough of them.

    Parameters
    ----------
    whether, gpu : Size
        1 where the kernel is to be launched, and where the device is a GPU, else 0.

    Returns
    -------
    Size
        1 where it is left to other forms, else 0.
    """
    space = kernels.fused(host.e, let, kernel)
    row, reads = _crossing(host, kernel, space)
    if row is None or not host.is_sized(product(r.extent for r in space)):
        return whether
    last = space[-1]
    tiles = tuple(fun.Range(r.index, versions.ceil(host, r.extent, SIDE)) for r in (row, last))
    grid = (*(r for r in space[:-1] if r is not row), *tiles)
    groups = product(r.extent for r in grid)
    few = sum((versions.below(host, r.extent, _LONG) for r in (row, last)), ZERO)
    few = versions.minimum(host, few + versions.below(host, groups, _BUSY), ONE)
    k, item = host.kernel_emitter(), host.unit.integer("item")
    checks = dict(host.unit.checks)
    with ExitStack() as scopes:
        for r in kernel.space:
            scopes.enter_context(k.index(r.index.name, imp.ZERO, ZERO, r.extent))
        spaces.decode(k, grid, k.declare(machine("/", item, imp.integer(GROUP)), "group"))
        _tile(k, let, kernel, (row, last), reads, machine("%", item, imp.integer(GROUP)))
    host.unit.checks = checks  # those of an item for each index say as much
    if may_leave(k.levels[0]):
        return whether  # an item for which others would wait at the barrier
    host.unit.kernels.append(spaces.describe("map by tiles", kernel.space, let.pattern))
    chosen = whether * (1 - few) * gpu
    host.add(k, "transposes", item, chosen * groups * GROUP, GROUP)
    return whether - chosen


def _tile(
    k: Emitter, let: fun.Let, kernel: fun.Kernel, sides: Sequence[fun.Range],
    reads: Mapping[str, fun.Index], lane: imp.Expr,
) -> None:  # fmt: skip
    """What an item does of its group's tile, whose number the sides' indices are."""
    names = [r.index.name for r in sides]
    begin = [
        k.declare(machine("*", k.scalars[name], imp.integer(SIDE)), "begin") for name in names
    ]
    lane = k.declare(lane, "lane")
    along = k.declare(machine("%", lane, imp.integer(SIDE)))
    across = k.declare(machine("/", lane, imp.integer(SIDE)))
    near = [k.shared(memory(read.array).dtype, SIDE * _PADDED) for read in reads.values()]
    rest = tuple(s for s in kernel.body.statements if s.pattern[0].name not in reads)
    body = replace(kernel.body, statements=rest)
    ends = [k.declare(machine("+", first, imp.integer(SIDE))) for first in begin]
    extents = [k.named(r.extent) for r in sides]
    whole = k.declare(_both(machine("<=", e, x) for e, x in zip(ends, extents, strict=True)))

    def for_each(
        turned: bool, make: Callable[[imp.Expr], list[imp.Expr]],
        use: Callable[[imp.Expr, list[imp.Expr]], None],
    ) -> None:  # fmt: skip
        """Of each element what is made, where in the tile it is, and then what it is used for.

        Items lie side by side along the last index, or along the row's if it is `turned`.
        """

        def bind(number: int) -> imp.Expr:
            other = k.declare(machine("+", across, imp.integer(number * _ROWS)))
            places = (along, other) if turned else (other, along)
            for name, first, place in zip(names, begin, places, strict=True):
                k.bind(name, k.declare_here(machine("+", first, place)))
            return k.declare(machine("+", machine("*", places[1], imp.integer(_PADDED)), places[0]))

        def all_at_once() -> None:
            made = []
            for number in range(_TOGETHER):
                at = bind(number)
                made.append(([k.scalars[name] for name in names], at, make(at)))
            for values, at, results in made:
                for name, value in zip(names, values, strict=True):
                    k.bind(name, value)
                use(at, results)

        def those_there() -> None:
            for number in range(_TOGETHER):
                at = bind(number)
                with k.branch(_both(
                    machine("<", k.scalars[name], extent)
                    for name, extent in zip(names, extents, strict=True)
                )):  # fmt: skip
                    use(at, make(at))

        k.either(whole, all_at_once, those_there)

    def read(_: imp.Expr) -> list[imp.Expr]:
        return [lower_index(k, access) for access in reads.values()]

    def keep(at: imp.Expr, values: list[imp.Expr]) -> None:
        for pointer, value in zip(near, values, strict=True):
            k.emit(imp.Store(pointer, at, value))

    def compute(at: imp.Expr) -> list[imp.Expr]:
        for name, pointer in zip(reads, near, strict=True):
            k.bind(name, elements.loaded(k, pointer, at))
        return [k.atom(result) for result in lower_body(k, body)]

    for_each(True, read, keep)
    k.emit(imp.Barrier())
    for_each(False, compute, lambda _, values: kernels.store(k, let, values))


def _both(conditions: Iterable[imp.Expr]) -> imp.Expr:
    first, second = conditions
    return machine("&&", first, second)


def _crossing(
    host: Host, kernel: fun.Kernel, space: Sequence[fun.Range]
) -> tuple[fun.Range | None, dict[str, fun.Index]]:
    """The index along which reads lie side by side that do not along the last, and those reads."""
    body, last = kernel.body, space[-1].index.name
    nothing: tuple[None, dict[str, fun.Index]] = None, {}
    if not shapes.is_flat(body) or not all(isinstance(v.type, fun.Scalar) for v in body.results):
        return nothing
    known = {r.index.name for r in kernel.space} | host.unit.sizes
    found: dict[str, dict[str, fun.Index]] = {}
    for let in body.statements:
        access = let.expr
        if not isinstance(access, fun.Index):
            continue
        at = memory(access.array).index.apply(access.indices)
        if at.variables() <= known and at.coefficient(last) not in (ZERO, ONE):
            for r in space[:-1]:
                if at.degree(r.index.name) == 1 and at.coefficient(r.index.name) == ONE:
                    found.setdefault(r.index.name, {})[let.pattern[0].name] = access
    if not found:
        return nothing
    name, reads = max(found.items(), key=lambda one: len(one[1]))
    if sum(memory(read.array).dtype.itemsize for read in reads.values()) > _BYTES:
        return nothing
    return next(r for r in space if r.index.name == name), reads
