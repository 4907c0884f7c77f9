"""Scans of which each tile begins with what is known of those before: boxes need no order.

    let y = scan (i < n) from a { body(i) }
 => let p = kernel (t < tiles, s < 8) { the total of stream s of tile t }
    let c = loop (c, b = a) for t { c[t] = b; b . p[t, 0] . ... . p[t, 7] }
    let y = scan (i < n) from a { body(i) }, whose boxes from tile t on begin with c[t]

The totals are those that a box would hand to the next (`weft.plan.carry`), so bits are the same.
It takes a third pass over what is scanned, after that of totals and that of results in each tile:
it is for several devices, which share all three.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, Names, derive
from weft.plan import carry, draft
from weft.plan.setting import Processor, Setting, form_in_memory
from weft.plan.sharing import SMALL_WORK
from weft.plan.times import HOST, together
from weft.plan.work import work
from weft.records import dataclass
from weft.sizes import ONE, ZERO, Poly, Size, as_poly

_TILES = 2  # of a device, at least, that are worth totals


@dataclass(frozen=True, slots=True)
class Begun:
    """A program with what tiles of scans begin with.

    Attributes
    ----------
    program : fun.Program
    begins : dict of str to tuple of Var
        For each scan, by its first result: arrays of what each full tile begins with, and what
        follows the last of them.
    """

    program: fun.Program
    begins: dict[str, tuple[fun.Var, ...]]


def begin_scans(program: fun.Program, suits: Callable[[fun.Let], bool]) -> Begun:
    """The program with what tiles begin with of those of its own scans that suit.

    Only of vectors, where what a tile begins with is known of totals.
    """
    names, derived = Names.of(program), list(program.derived)
    builder, begins = Builder(names), dict[str, tuple[fun.Var, ...]]()
    for let in program.body.statements:
        scan = let.expr
        if (
            isinstance(scan, fun.Scan)
            and len(scan.space) == 1
            and carry.order(scan) != "elements"
            and suits(let)
        ):
            tile = as_poly(draft.SCAN_TILE)
            tiles = derive(derived, names, "floordiv", scan.space[0].extent, tile, "tiles")
            builder.place = let.place
            begins[let.pattern[0].name] = _begins(scan, tiles, builder)
        builder.statements.append(let)
    body = builder.body(program.body.results)
    return Begun(replace(program, body=body, derived=tuple(derived)), begins)


def _begins(scan: fun.Scan, tiles: Size, build: Builder) -> tuple[fun.Var, ...]:
    """What each tile begins with: arrays that a loop fills."""
    totals = carry.totals_of(scan, tiles, build)
    scalars = tuple(fun.Scalar(atom.type.dtype) for atom in scan.initial)
    arrays = tuple(fun.Array(scalar.dtype, (tiles + ONE,)) for scalar in scalars)
    empty = [build.let(fun.Empty(t.dtype, t.shape), t, "begins") for t in arrays]
    tile = build.index("tile")
    into = tuple(build.var("begins", type_) for type_ in arrays)
    before = tuple(build.var("carry", scalar) for scalar in scalars)
    step = build.inner()
    filled = _written(into, Poly.var(tile.name), before, step)
    after = carry.fold_tile(scan, before, totals, Poly.var(tile.name), step)
    loop = fun.Loop(
        (*into, *before), (*empty, *scan.initial), fun.For(tile, ZERO, tiles),
        step.body((*filled, *after)),
    )  # fmt: skip
    found = build.bind(loop, (*arrays, *scalars), "begins")
    return _written(found[: len(arrays)], tiles, found[len(arrays) :], build)


def _written(
    arrays: tuple[fun.Var, ...], at: Size, values: tuple[fun.Var, ...], build: Builder
) -> tuple[fun.Var, ...]:
    """The arrays with other values at one place."""
    return tuple(
        build.let(fun.Update(array, (at,), value), array.type, "begins")
        for array, value in zip(arrays, values, strict=True)
    )


# ---------------------------------------------------------------- whether it is worth it


def is_worth_sharing(
    let: fun.Let, program: fun.Program, sizes: Mapping[str, int], setting: Setting
) -> bool:
    """Whether devices that share a scan should have done it before the first of them has alone.

    What is scanned is read once more for it, so it has to be in memory.
    """
    assert isinstance(let.expr, fun.Scan)
    known = dict(sizes)
    for entry in program.derived:
        known[entry.name] = entry.evaluate(known)
    read = _read(let, program)
    if any(form_in_memory(setting.inputs[param.name]) is None for param in read):
        return False
    least = _TILES * len(setting.processors) * draft.SCAN_TILE
    if let.expr.space[0].extent.evaluate(known) < least:
        return False
    operations = work(let, known)
    taken, given = (
        sum(math.prod(n.evaluate(known) for n in walk.type_sizes(v.type)) * v.type.dtype.itemsize
            for v in arrays)
        for arrays in (read, let.pattern)
    )  # fmt: skip
    times = [_seconds(p, operations, taken, given) for p in setting.processors]
    shared = together([alone + totals for alone, totals in times])
    return operations >= SMALL_WORK and shared <= times[0][0]


def _read(let: fun.Let, program: fun.Program) -> list[fun.Var]:
    """The parameters that a statement is made of, also by others."""
    used = set(walk.used_names(let.expr))
    for other in reversed(program.body.statements):
        if any(var.name in used for var in other.pattern):
            used |= walk.used_names(other.expr)
    return [param for param in program.params if param.name in used]


def _seconds(on: Processor, operations: float, read: int, written: int) -> tuple[float, float]:
    """How long a scan takes a device alone, and how long totals that come besides."""
    if on.rates is None:  # it has totals of its own as well, of what is then in its cache
        bytes_ = HOST.memory * on.threads
        operations /= HOST.operations * on.threads
        return max((read + written) / bytes_, 2 * operations), max(read / bytes_, operations)
    rates = on.rates()
    operations /= rates.operations
    return max(rates.copying(read, written), operations), max(read / rates.copy_in, operations)
