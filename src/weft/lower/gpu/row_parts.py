"""Reductions of rows that are many, yet too few for a GPU: an item for each part of a row.

An item for each row needs no memory that a group shares, and neighbouring items read neighbouring
elements, or the same one. But a GPU holds some 2**18 items, and is busy with no fewer. So rows are
cut into parts of a power of two of elements, which are subtrees of a row's reduction
(`weft.lower.gpu.items`), as many as make about 2**19 items; another kernel combines what they are.
The parts depend on sizes alone, and bits not even on these.

    kernel (j < n) { let s = reduce[add] (i < m) { x[i, j] } in s }
    =>  item (p, j):  q[p, j] = sum of x[i, j] for p * size <= i < (p + 1) * size
        item j:       counter of q[0, j], q[1, j], ..
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.imp.walk import may_leave
from weft.lower import spaces
from weft.lower.bodies import lower_body
from weft.lower.emitter import Emitter
from weft.lower.gpu import batched, items, versions
from weft.lower.gpu.host import GROUP, Host
from weft.lower.gpu.reduction_kernel import ReductionKernel
from weft.lower.gpu.tiles import reserve
from weft.sizes import ZERO, Size, as_poly, product

_ITEMS = 1 << 19  # of all parts, about; of half as many rows each is one item's
_LEAST = 128  # elements of a part


def lower(host: Host, of: ReductionKernel, whether: Size) -> Size:
    """Launch a kernel by parts of rows where its sizes ask for it, and `whether` is 1.

    Returns
    -------
    Size
        1 where `whether` is and it is not launched, else 0.
    """
    space = of.kernel.space
    count, bound = product(r.extent for r in space), of.bound
    if whether == ZERO or not (host.is_sized(count) and host.is_sized(bound)):
        return whether
    share = versions.divide(host, count * bound, as_poly(_ITEMS))
    share = versions.power_of_2(host, versions.maximum(host, share, as_poly(_LEAST)))
    parts = versions.ceil(host, bound, share)
    here = whether * versions.below(host, count, _ITEMS // 2)
    here = here * (1 - versions.below(host, parts, 2))
    if here == ZERO:
        return whether
    partial = reserve(host, of.dtypes, count * parts, here)

    def part(k: Emitter, item: imp.Expr) -> None:
        rows = k.named(count)
        spaces.decode(k, space, k.declare(machine("%", item, rows), "row"))
        lower_body(k, of.before)
        (r,) = of.reduce.space
        with k.index(r.index.name, imp.ZERO, ZERO, r.extent):
            begin = k.declare(machine("*", machine("/", item, rows), k.named(share)))
            left = k.declare(machine("-", k.named(r.extent), begin))
            size = k.declare(machine("min", left, k.named(share)))
            neutral = [k.atom(atom) for atom in of.reduce.neutral]
            values = items.folded(k, of.reduce, begin, size, neutral)
        for pointer, value in zip(partial(k), values, strict=True):
            k.emit(imp.Store(pointer, item, value))

    def join(k: Emitter, item: imp.Expr) -> None:
        spaces.decode(k, space, item)
        lower_body(k, of.before)
        counter, rows = of.counter(k), k.named(count)
        pointers = partial(k)

        def value(at: imp.Expr) -> list[imp.Expr]:
            index = k.declare(machine("+", item, machine("*", at, rows)))
            return [k.declare(imp.Load(pointer, index), depth=k.depth) for pointer in pointers]

        mine = spaces.ceil(k, k.named(of.reduce.space[0].extent), k.named(share))
        batched.count(counter, mine, value)
        of.finish(k, counter.total())

    if not _launch(host, of, "share", "reduce parts of rows", count * parts, here, part):
        return whether
    _launch(host, of, "total", "combine parts of rows", count, here, join)
    return whether - here


def _launch(
    host: Host, of: ReductionKernel, name: str, label: str, count: Size, whether: Size,
    inside: Callable[[Emitter, imp.Expr], None],
) -> bool:  # fmt: skip
    """Launch so many items, none if `whether` is 0; False where one may fail."""
    k, item = host.kernel_emitter(), host.unit.integer("item")
    with ExitStack() as scopes:
        for r in of.kernel.space:
            scopes.enter_context(k.index(r.index.name, imp.ZERO, ZERO, r.extent))
        scopes.enter_context(k.branch(machine("<", item, k.named(count))))
        inside(k, item)
    if may_leave(k.levels[0]):
        return False
    host.unit.kernels.append(spaces.describe(label, of.kernel.space, of.let.pattern))
    host.add(k, name, item, count * whether, GROUP)
    return True
