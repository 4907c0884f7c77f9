"""Loops over index spaces: plain ones, and rows in tiles that the pool's threads take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower.emitter import Emitter
from weft.ops.dtypes import DType
from weft.records import dataclass
from weft.sizes import Poly, Size, as_poly, product

TILE = 1 << 16  # operations in a tile: at least so many, to be worth waking a thread;
SEVERAL = 1 << 18  # at least so many where a thread has several, to hide what a tile costs;
LARGE = 1 << 22  # and at most so many, to balance, and to stop soon when asked to
SHARES = 16  # tiles for each thread, where they are neither small nor large

Row = Callable[[imp.Expr, imp.Expr], None]


@dataclass(frozen=True, slots=True)
class Several:
    """How many rows that follow each other may be done at once, what does them, and when."""

    together: int
    rows: Row
    when: imp.Expr = imp.OPTIMISED


def nest(e: Emitter, space: tuple[fun.Range, ...], inside: Callable[[], None]) -> None:
    """Plain loops over the space around what `inside` emits."""
    with ExitStack() as loops:
        for r in space:
            var = e.unit.integer("i")
            loops.enter_context(e.loop(var, imp.ZERO, e.named(r.extent)))
            e.bind(r.index.name, var)
        inside()


def decode(e: Emitter, space: tuple[fun.Range, ...], row: imp.Expr) -> None:
    """The indices of a row number."""
    rest = row
    for r in reversed(space[1:]):
        extent = e.named(r.extent)
        e.bind(r.index.name, e.declare(machine("%", rest, extent), "i"))
        rest = e.declare(machine("/", rest, extent), "i")
    if space:
        e.bind(space[0].index.name, rest)


def parallel_rows(
    e: Emitter,
    outer: tuple[fun.Range, ...],
    extent: Size,
    weight: Size,
    label: str,
    row: Callable[[imp.Expr, imp.Expr], None],
    *,
    tile_work: int | None = None,
    least: int = 1,
    most: imp.Expr | None = None,
    around: Callable[[imp.Var], AbstractContextManager[None]] | None = None,
    ordered: bool = False,
    several: Several | None = None,
    narrow: Several | None = None,
) -> None:
    """`row(lower, upper)` for every row of the outer space, cut into tiles.

    A tile is some rows, or a part of one long row: about `tile_work` operations, if that is
    not left to the amount of work and the number of threads.
    Parts have `least` elements if there are as many for each thread, and no more than `most`,
    if that is given. `around` stands around
    what each tile does; tiles that are `ordered` may await earlier ones. `several`: how many
    rows that follow each other along the last outer index may be done at once, and what does them.
    `narrow`: what does a row where rows are so short that what is done once for each is much.
    """
    length = e.named(extent)
    count = e.named(product(r.extent for r in outer))
    work = e.named(weight if weight.variables() <= e.scalars.keys() else as_poly(1024))
    one = imp.ONE
    operations = _tile_work(e, count, length, work) if tile_work is None else imp.integer(tile_work)
    target = e.declare(machine("max", one, ceil(e, operations, work)))
    if least > 1:
        share = e.declare(machine("/", length, e.poly(Poly.var("threads"))))
        floor = e.declare(machine("min", imp.integer(least), share))
        target = e.declare(machine("max", target, floor))
    parts = e.declare(ceil(e, length, target))
    even = e.declare(ceil(e, length, e.declare(machine("max", one, parts))))
    # Whole vectors, unless an element is so much work that each may be a tile.
    unit = e.declare(machine("min", imp.integer(64), target))
    chunk = e.declare(machine("*", ceil(e, even, unit), unit))
    if most is not None:
        chunk = e.declare(machine("min", chunk, most))
    chunks = e.declare(ceil(e, length, e.declare(machine("max", one, chunk))))
    if outer:
        share = e.declare(machine("max", one, e.declare(machine("min", length, chunk))))
        group = e.declare(ceil(e, target, share))
        tiles = e.declare(machine("*", ceil(e, count, group), chunks))
    else:
        tiles = chunks
    with ExitStack() as inside:
        tile = inside.enter_context(parallel(e, tiles, label, ordered=ordered))
        if around is not None:
            inside.enter_context(around(tile))
        last = e.declare(machine("max", one, chunks)) if outer else chunks
        part = e.declare(machine("%", tile, last)) if outer else tile
        lower = e.declare(machine("*", part, chunk), "lower")
        upper = e.declare(machine("min", length, e.declare(machine("+", lower, chunk))), "upper")
        if not outer:
            row(lower, upper)
            return
        first = e.declare(machine("*", e.declare(machine("/", tile, last)), group))
        end = e.declare(machine("min", count, e.declare(machine("+", first, group))))
        part_ = lower, upper

        def usual() -> None:
            if several is not None:
                _each_run(e, outer, first, end, part_, row, several)
                return
            var = e.unit.integer("row")
            with e.loop(var, first, end, hoist=True):
                decode(e, outer, var)
                row(lower, upper)

        if narrow is None:
            usual()
        else:
            short = narrow

            def own_way() -> None:
                with e.own_scalars():
                    _each_run(e, outer, first, end, part_, short.rows, short)

            e.either(short.when, own_way, usual)


def _each_run(
    e: Emitter,
    outer: tuple[fun.Range, ...],
    first: imp.Expr,
    end: imp.Expr,
    part: tuple[imp.Expr, imp.Expr],
    row: Row,
    several: Several,
) -> None:
    """The rows first <= number < end, several at once where they follow each other."""
    name, extent = outer[-1].index.name, e.named(outer[-1].extent)
    if len(outer) == 1:
        _run(e, name, (first, end), part, row, several)
        return
    plane = e.unit.integer("plane")
    length = e.declare(machine("max", imp.ONE, extent))
    last = e.declare(ceil(e, end, length))
    with e.loop(plane, e.declare(machine("/", first, length)), last, hoist=True):
        decode(e, outer[:-1], plane)
        before = e.declare(machine("*", plane, length))
        begin = e.declare(machine("max", imp.ZERO, e.declare(machine("-", first, before))))
        until = e.declare(machine("min", length, e.declare(machine("-", end, before))))
        _run(e, name, (begin, until), part, row, several)


def _run(
    e: Emitter,
    name: str,
    rows_: tuple[imp.Expr, imp.Expr],
    part: tuple[imp.Expr, imp.Expr],
    row: Row,
    several: Several,
) -> None:
    """A part of each row begin <= name < end, several at once, and what is left one by one."""
    begin, end = rows_
    if several.together == 1:
        _rows(e, name, begin, end, 1, part, several.rows)
        return
    length = e.declare(machine("max", imp.ZERO, e.declare(machine("-", end, begin))))
    whole = e.declare(machine("&", length, imp.integer(-several.together)))
    whole = e.declare(imp.Select(several.when, whole, imp.ZERO))
    middle = e.declare(machine("+", begin, whole))
    ways = (begin, middle, several.together, several.rows), (middle, end, 1, row)
    for lower, upper, step, do in ways:
        _rows(e, name, lower, upper, step, part, do)


def _rows(
    e: Emitter, name: str, lower: imp.Expr, upper: imp.Expr, step: int,
    part: tuple[imp.Expr, imp.Expr], do: Row,
) -> None:  # fmt: skip
    """A part of each row lower <= name < upper, a step at once."""
    var = e.unit.integer("row")
    with e.loop(var, lower, upper, step=step, hoist=True):
        e.bind(name, var)
        do(*part)


def _tile_work(e: Emitter, count: imp.Expr, length: imp.Expr, work: imp.Expr) -> imp.Expr:
    """Operations in a tile: as many tiles for each thread, and so large that they are worth it."""
    points = e.declare(machine("*", count, length))
    total = e.declare(machine("*", points, work))
    threads = e.poly(Poly.var("threads"))
    several = e.declare(machine("/", total, machine("*", threads, imp.integer(SEVERAL))))
    shares = e.declare(machine("max", imp.ONE, several))
    shares = e.declare(machine("min", imp.integer(SHARES), shares))
    even = ceil(e, total, e.declare(machine("*", threads, shares)))
    least = e.declare(machine("max", even, imp.integer(TILE)))
    return e.declare(machine("min", least, imp.integer(LARGE)))


def ceil(e: Emitter, value: imp.Expr, unit: imp.Expr) -> imp.Expr:
    """value / unit, rounded up."""
    above = e.declare(machine("-", machine("+", value, unit), imp.ONE))
    return e.declare(machine("/", above, unit))


@contextmanager
def parallel(
    e: Emitter, tiles: imp.Expr, label: str, *, ordered: bool = False
) -> Iterator[imp.Var]:
    """A parallel loop over tiles; inside, memory of a thread is that of the tile's thread."""
    tile, thread = e.unit.integer("tile"), imp.Var("thread", DType.I32)
    pointers, polynomials = dict(e.pointers), dict(e.polynomials)
    with e.level() as statements:
        e.tile_level, e.tile_ranges = e.depth, frozenset(e.ranges)
        e.depths[tile.name] = e.depths[thread.name] = e.depth
        e.thread = thread
        yield tile
    e.tile_level, e.thread = 0, imp.ZERO
    shared = {k: p for k, p in e.pointers.items() if e.unit.blocks[k[0]].per_thread is None}
    e.pointers = {**shared, **pointers}
    e.polynomials = polynomials
    e.unit.kernels.append(label)
    e.emit(imp.Parallel(tile, thread, tiles, tuple(statements), ordered))


def describe(kind: str, space: tuple[fun.Range, ...], pattern: tuple[fun.Var, ...]) -> str:
    """One line for `explain`."""
    shape = ", ".join(str(r.extent) for r in space)
    results = ", ".join(str(var.type.dtype) for var in pattern)
    return f"{kind} over ({shape}) giving {results}"
