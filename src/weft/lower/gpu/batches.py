"""Straight-line kernels on a GPU: an item does several elements, whose reads are under way at once.

An item that reads a few bytes, and then waits, leaves memory idle: as many bytes have to be under
way as memory delivers while one read takes, more than a multiprocessor's items ask for by a
float32 each (V. Volkov, "Better performance at lower occupancy", GTC 2010). Here all reads of
several elements stand before the first write, which no compiler may do by itself: what is read
and written may be of one block. Neighbouring items still read neighbours.

    kernel (i < n, j < m) { x[i - 1, j] + x[i, j] + x[i + 1, j] }
    =>  item (i by 4, j):  a = x[i - 1, j], b = x[i, j], .., f = x[i + 4, j];
                           y[i, j] = a + b + c, .., y[i + 3, j] = d + e + f

In one dimension the elements are a group's items apart; in more they are of rows that follow each
other, which share what they read. Rules on an index that steps are left out where none applies.
Elements are computed by the same operations as by an item each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.imp.walk import holds
from weft.lower import bounds, kernels, shapes, spaces
from weft.lower.bodies import lower_body
from weft.lower.emitter import Emitter
from weft.lower.gpu import versions
from weft.lower.gpu.host import Host
from weft.lower.unit import memory
from weft.records import dataclass
from weft.sizes import ONE, ZERO, Poly, Size, product

GROUP = 256
"""Items that run together: fewer groups than elsewhere, since items take as long to start."""

_TOGETHER = (8, 4, 2)
_BYTES = 32  # of each read of an item, and
_REGISTERS = 192  # bytes of all of them;
_COST = 192  # operations of its elements: of more, memory is not what an item waits for
_BUSY = 1 << 16  # items that keep a GPU busy: of fewer elements each has one
_LONG = 32  # columns for a warp to read side by side, and rows of which few are left over


@dataclass(frozen=True, slots=True)
class _Batch:
    """Elements that an item does: so many, at `index` and every `step` after it.

    `body` has the statements of all, and their results, of each array one after another; `free`
    has no rules on the index, and holds where all sizes in `inside` are >= 0.
    """

    together: int
    index: str
    step: int
    body: fun.Body
    free: fun.Body
    inside: tuple[Size, ...]


def by_batches(host: Host, let: fun.Let, kernel: fun.Kernel, whether: Size, gpu: Size) -> Size:
    """Launch a kernel by batches, where it suits, and there are enough of them.

    Parameters
    ----------
    whether, gpu : Size
        1 where the kernel is to be launched, and where the device is a GPU, else 0.

    Returns
    -------
    Size
        1 where it is left to one item for each index, else 0.
    """
    space = kernels.fused(host.e, let, kernel)
    stepped = space[-2:][0]
    found = _batch(kernel, stepped, GROUP if len(space) == 1 else 1)
    most = versions.most(host, stepped.extent)  # items beyond the extent have nothing to do
    outermost = versions.most(host, space[0].extent)
    inner = product(r.extent for r in space[1:] if r is not stepped)
    if found is None or most is None or outermost is None or not host.is_sized(inner):
        return whether
    if len(space) == 1:
        launched = items = versions.ceil(host, most, GROUP * found.together) * GROUP
        few = versions.below(host, items, _BUSY)
    else:
        *outer, row, last = space
        parts = fun.Range(row.index, versions.ceil(host, most, found.together))
        split = (*outer, parts, last)
        items = product(r.extent for r in split)
        launched = items if len(split) < 3 else outermost * product(r.extent for r in split[1:])
        short = [versions.below(host, s, n) for s, n in (
            (launched, _BUSY), (most, _LONG), (last.extent, _LONG)
        )]  # fmt: skip
        few = versions.minimum(host, sum(short, ZERO), ONE)
    if few == ONE:
        return whether
    k, item = host.kernel_emitter(), host.unit.integer("item")
    checks = dict(host.unit.checks)
    with ExitStack() as scopes:
        for r in kernel.space:
            scopes.enter_context(k.index(r.index.name, imp.ZERO, ZERO, r.extent))
        scopes.enter_context(k.branch(machine("<", item, k.named(items))))
        if len(space) == 1:
            lane = machine("&", item, imp.integer(GROUP - 1))
            begin = machine("*", machine("-", item, lane), imp.integer(found.together))
            first = k.declare(machine("+", begin, lane))
        else:
            spaces.decode(k, split, item)
            part = k.scalars[found.index]
            first = k.declare(machine("*", part, imp.integer(found.together)))
        _item(k, let, kernel, space, found, first)
    host.unit.checks = checks  # those of an element by itself say as much
    if space != kernel.space and holds(k.levels[0], imp.Fail):
        return whether  # an index that goes through several dimensions is none of one's
    host.unit.kernels.append(spaces.describe("map by batches", kernel.space, let.pattern))
    chosen = whether * (1 - few) * gpu
    host.add(k, "batches", item, chosen * launched, GROUP)
    return whether - chosen


def _item(
    k: Emitter, let: fun.Let, kernel: fun.Kernel, space: Sequence[fun.Range], found: _Batch,
    first: imp.Expr,
) -> None:  # fmt: skip
    """All of an item's elements, without rules if it can be; at the end those that are there."""
    extent = k.named(space[-2:][0].extent)
    after = k.declare(machine("+", first, imp.integer(found.step * (found.together - 1))))
    whole = machine("<", after, extent)
    k.bind(found.index, first)
    indices = {r.index.name: k.scalars[r.index.name] for r in space}

    def here(first: imp.Expr) -> None:
        """Indices of a side's own, so that what it makes of them is computed there."""
        for name, value in indices.items():
            k.bind(name, k.declare_here(first if name == found.index else value))

    def each() -> None:
        var = k.unit.integer("i")
        end = machine("+", after, imp.ONE)
        end = k.declare(machine("min", extent, end))
        with k.loop(var, first, end, step=found.step):
            here(var)
            kernels.lower_results(k, let, kernel)

    def all_at_once(body: fun.Body) -> None:
        here(first)
        lower, upper = k.ranges[found.index]
        k.ranges[found.index] = lower, upper - found.step * (found.together - 1)
        with bounds.assumed(k, found.inside if body is found.free else ()):
            values = [k.atom(result) for result in lower_body(k, body)]
        k.ranges[found.index] = lower, upper
        for number in range(found.together):
            at = {found.index: Poly.var(found.index) + number * found.step}
            indices = tuple(Poly.var(r.index.name).substitute(at) for r in kernel.space)
            for var, value in zip(let.pattern, values[number :: found.together], strict=True):
                k.store(memory(var), indices, value)

    def with_rules() -> None:
        k.either(whole, lambda: all_at_once(found.body), each)

    if not found.inside:
        with_rules()
        return
    inside = whole
    for size in found.inside:
        inside = machine("&&", inside, machine(">=", k.named(size), imp.ZERO))
    # The ends of one row are two groups; those of columns are of every column.
    k.either(inside, lambda: all_at_once(found.free), each if len(space) == 1 else with_rules)


# ---------------------------------------------------------------- what suits


def _batch(kernel: fun.Kernel, stepped: fun.Range, step: int) -> _Batch | None:
    """As many elements as registers hold what they read of, if any."""
    body, index = kernel.body, stepped.index
    scalars = all(
        isinstance(var.type, fun.Scalar) for let in walk.statements(body) for var in let.pattern
    )
    cost = shapes.cost(body)
    flat = shapes.is_flat(body) and all(isinstance(v.type, fun.Scalar) for v in body.results)
    if not (scalars and flat and cost.is_constant):
        return None
    read = [memory(access.array).dtype for access in _reads(body)]
    widest = max(dtype.itemsize for dtype in (*read, *(v.type.dtype for v in body.results)))
    free, ends = _without_rules(body, index.name)
    for together in _TOGETHER:
        if together * widest > _BYTES or together * cost.constant > _COST:
            continue
        steps = [number * step for number in range(together)]
        jammed = _jammed(free, index, steps)
        if sum(memory(access.array).dtype.itemsize for access in _reads(jammed)) <= _REGISTERS:
            inside = tuple(size for lower, upper in ends for size in (lower, upper - steps[-1]))
            ruled = _jammed(body, index, steps)
            return _Batch(together, index.name, step, ruled, jammed, inside)
    return None


def _reads(body: fun.Body) -> Iterator[fun.Index]:
    for let in walk.statements(body):
        if isinstance(let.expr, fun.Index):
            yield let.expr


def _jammed(body: fun.Body, index: fun.Var, steps: Sequence[int]) -> fun.Body:
    """A body at several values of an index, statement by statement; what is the same, once.

    (S. Carr and K. Kennedy, "Improving the ratio of memory operations to floating-point
    operations in loops", ACM TOPLAS 16, 1994.)
    """
    statements: list[fun.Let] = []
    made: dict[fun.Expr, tuple[fun.Var, ...]] = {}
    copies = []
    for step in steps:
        at, own = Poly.var(index.name) + step, fun.Var(f"{index.name}.{step}", index.type)
        atoms = {}
        if step and index.name in walk.uses(body):
            statements.append(fun.Let((own,), fun.SizeValue(at)))
            atoms[index.name] = own
        copies.append(walk.Substitution(atoms, {index.name: at}, f"{{}}.{step}".format))
    for let in body.statements:
        for copy in copies:
            new = copy.let(let)
            if new.expr not in made:
                statements.append(new)
                made[new.expr] = new.pattern
            for var, same in zip(let.pattern, made[new.expr], strict=True):
                copy.bind(var.name, same)
    results = tuple(copy.atom(result) for result in body.results for copy in copies)
    return fun.Body(tuple(statements), results)


def _without_rules(body: fun.Body, name: str) -> tuple[fun.Body, list[tuple[Size, Size]]]:
    """A body without rules on what is an index and a constant; where none applies, all are >= 0.

    Of each pair, the second is less by as much as the index is more.
    """
    found: dict[tuple[Size, Size], list[int]] = {}
    statements = []
    for let in body.statements:
        access = let.expr
        if isinstance(access, fun.Index) and access.boundary:
            rules = list(access.boundary)
            for axis, (index, rule) in enumerate(zip(access.indices, rules, strict=True)):
                apart = index.constant
                if rule is not None and index - apart == Poly.var(name):
                    found.setdefault((rule.lower, rule.upper), []).append(apart)
                    rules[axis] = None
            boundary = tuple(rules) if any(rules) else ()
            let = replace(let, expr=replace(access, boundary=boundary))
        statements.append(let)
    index = Poly.var(name)
    ends = [
        (index + min(apart) - lower, upper - 1 - index - max(apart))
        for (lower, upper), apart in found.items()
    ]
    return replace(body, statements=tuple(statements)), ends
