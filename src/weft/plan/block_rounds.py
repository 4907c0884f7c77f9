"""block_rounds: loops whose rounds need pivots, several rounds for each pass over their data.

    let y = loop (v = x) for k from 0 to n { .. v[i, ..] .. v[k, ..] .. }
 => let p = kernel (q < b, j < m) { x[k0 + q, j] }                -- the rows that are pivots
    let s = loop (w = p) for r from 0 to b { .. s[r] = w[r] .. }  -- what rounds share
    let y = kernel (i < n) { loop (u = x[i]) for r from 0 to b { .. u .. s[r] .. } }
    ...                                                           -- and so on from k0 + b

The rows that are pivots of b rounds change in these rounds by one another and by earlier ones
alone. They are done first, and leave what each round shares. Then each row does b rounds while it
is in the cache, and all boxes of rows are alike. Data move n/b times in place of n: the "panels"
of blocked decompositions (Golub and Van Loan, Matrix Computations, section 3.2.11), whatever it
is that rounds do.

Removes: a loop that `pivots.rounds_of` knows, which does not fit the limit. Adds: for each block
of rounds a kernel, a loop that is small, and a kernel over all rows. Ensures the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, Names
from weft.ops.dtypes import DType
from weft.plan.pivots import UNCOUNTED, Pivot, Rounds, Unsuited, candidate_axes, rounds_of
from weft.plan.rows import Round, Row, row_of
from weft.records import dataclass
from weft.sizes import ZERO, Poly, Size

_LARGE = 3  # a loop that carries less than this part of the limit is left as it is
_MOST_BLOCKS = 256  # each is a pass, and a stage to plan


@dataclass(slots=True)
class Blocked:
    """A program whose loops are blocked.

    Attributes
    ----------
    program : fun.Program
    sizes : dict of str to int
        Those of the program, and where blocks begin and end.
    ends : dict of str to str
        Arrays that a block gives, each with a phrase for `explain`.
    axes : dict of str to int
        The axis of each along which its boxes are.
    reasons : list of (str, Place or None)
        Why loops are not blocked.
    """

    program: fun.Program
    sizes: dict[str, int]
    ends: dict[str, str] = field(default_factory=dict)
    axes: dict[str, int] = field(default_factory=dict)
    reasons: list[tuple[str, Place | None]] = field(default_factory=list)


def block_rounds(
    program: fun.Program, sizes: Mapping[str, int], limit: int, room: int
) -> Blocked:
    """The program with those loops blocked whose arrays take more than a part of the limit.

    `room`: bytes that the pivots of a block, and what its rounds share, may take.
    """
    names = Names.of(program)
    known = dict(sizes)
    for entry in program.derived:
        known[entry.name] = entry.evaluate(known)
    found = Blocked(program, dict(sizes))
    builder = Builder(names)
    for let in program.body.statements:
        if not isinstance(let.expr, fun.Loop) or not _is_large(let.expr, known, limit):
            builder.statements.append(let)
            continue
        try:
            builder.statements += _in_blocks(let, known, room, names, found)
        except Unsuited as unsuited:
            found.reasons.append((unsuited.reason, unsuited.place))
            builder.statements.append(let)
    added = tuple(name for name in found.sizes if name not in sizes)
    found.program = replace(
        program, body=builder.body(program.body.results), sizes=program.sizes + added
    )
    return found


def numbers_of_blocks(
    program: fun.Program, sizes: Mapping[str, int], limit: int, room: int
) -> tuple[tuple[int, ...], ...]:
    """In how many blocks `block_rounds` does each loop that it blocks, along each axis; 0: not.

    The program that it gives follows from that, and from none of its numbers besides.
    """
    names = Names.of(program)
    known = dict(sizes)
    for entry in program.derived:
        known[entry.name] = entry.evaluate(known)

    def along(let: fun.Let, axis: int) -> int:
        try:
            return _Blocks(rounds_of(let, axis, names), known, room, Builder(names)).count
        except Unsuited:
            return 0

    return tuple(
        tuple(along(let, axis) for axis in candidate_axes(let.expr))
        if _is_large(let.expr, known, limit) and _is_counted(let.expr, known) else ()
        for let in program.body.statements if isinstance(let.expr, fun.Loop)
    )  # fmt: skip


def _is_large(loop: fun.Loop, sizes: Mapping[str, int], limit: int) -> bool:
    return _bytes(loop.params, sizes) * _LARGE >= limit


def _is_counted(loop: fun.Loop, sizes: Mapping[str, int]) -> bool:
    form = loop.form
    return not isinstance(form, fun.For) or (form.upper - form.lower).variables() <= sizes.keys()


def _in_blocks(
    let: fun.Let, sizes: Mapping[str, int], room: int, names: Names, found: Blocked
) -> list[fun.Let]:
    """The blocks of a loop, of rows along the first axis that suits."""
    first: Unsuited | None = None
    assert isinstance(let.expr, fun.Loop)
    if not _is_counted(let.expr, sizes):
        raise Unsuited(UNCOUNTED, let.place)
    for axis in candidate_axes(let.expr):
        try:
            blocks = _Blocks(rounds_of(let, axis, names), sizes, room, Builder(names))
            blocks.emit()
        except Unsuited as unsuited:
            first = first or unsuited
            continue
        found.sizes.update(blocks.numbers)
        found.ends.update(blocks.ends)
        found.axes.update(dict.fromkeys(blocks.ends, axis))
        return blocks.builder.statements
    assert first is not None
    raise first


class _Blocks:
    """The blocks of one loop."""

    def __init__(
        self, rounds: Rounds, sizes: Mapping[str, int], room: int, builder: Builder
    ) -> None:
        self.rounds, self.sizes = rounds, sizes
        self.numbers: dict[str, int] = {}  # of rounds, by the size variables that stand for them
        self.ends: dict[str, str] = {}
        self.builder, self.names = builder, builder.names
        self.loop, self.index = rounds.loop, rounds.form.index.name
        self.rows = [p for p in self.loop.params if p.name in rounds.along]
        self.others = [p for p in self.loop.params if p.name not in rounds.along]
        self.recorded, self.kept = self._recorded()
        self.step, self.first, self.spread = self._pivots()
        self.count = self._count(room)

    # ------------------------------------------------------------ what there is to do

    def _recorded(self) -> tuple[dict[str, fun.Type], dict[Pivot, None]]:
        """What rows need of a round: by name, and pivots."""
        rounds = self.rounds
        types: dict[str, fun.Type] = {p.name: p.type for p in self.others}
        for let in rounds.body:
            if not rounds.follows(let) and let.pattern[0].name not in rounds.local:
                types.update((var.name, var.type) for var in let.pattern)
        used: dict[str, fun.Type] = {}
        pivots: dict[Pivot, None] = {}
        for let in rounds.body:
            if rounds.follows(let):
                names = walk.used_names(let.expr).union(
                    *(n.variables() for v in let.pattern for n in walk.type_sizes(v.type))
                )
                used.update((name, types[name]) for name in sorted(names & types.keys()))
                pivots.update(dict.fromkeys(rounds.pivots_of(let)))
        return used, pivots

    def _pivots(self) -> tuple[int, Size, int]:
        """The rows of round k that are pivots: step * k + first, and `spread` more."""
        rows = [pivot.row for pivot in self.rounds.pivots]
        if not rows:
            return 0, ZERO, -1
        place = self.rounds.let.place
        steps = {row.coefficient(self.index) for row in rows}
        if len(steps) > 1:
            raise Unsuited("the rows that its rounds take go in different ways", place)
        starts = [row.without(self.index) for row in rows]
        offsets = [start - starts[0] for start in starts]
        if not all(offset.is_constant for offset in offsets):
            raise Unsuited("the rows that a round takes are far from one another", place)
        least = min(offset.constant for offset in offsets)
        most = max(offset.constant for offset in offsets)
        return steps.pop().constant, starts[0] + least, most - least

    def _count(self, room: int) -> int:
        """How many blocks: the fewest whose pivots, and what their rounds share, fit."""
        if not self.rounds.pivots and not self.recorded:
            return 1
        total = max(self._total(), 1)
        panel = sum(map(self._row_bytes, self.rows)) * 3  # as they are, and twice in the loop
        known = {**self.sizes, self.index: int(self._lower.evaluate(self.sizes))}
        each = panel * abs(self.step)
        for shape, itemsize in self._shapes():
            try:
                each += itemsize * math.prod(int(n.evaluate(known)) for n in shape)
            except KeyError:
                reason = "how much its rounds share depends on data"
                raise Unsuited(reason, self.rounds.let.place) from None
        room -= panel * (self.spread + 1 - abs(self.step))
        width = max(min(room // max(each, 1), total), 1)
        count = -(-total // width)
        if count > _MOST_BLOCKS:
            reason = f"its rounds would be {count} passes over all rows, as little room as there is"
            raise Unsuited(reason, self.rounds.let.place)
        return count

    def _shapes(self) -> list[tuple[tuple[Size, ...], int]]:
        found = [(walk.type_sizes(t), t.dtype.itemsize) for t in self.recorded.values()]
        return found + [(s, d.itemsize) for s, d in map(self.pivot_shape, self.kept)]

    def pivot_shape(self, pivot: Pivot) -> tuple[tuple[Size, ...], DType]:
        axis = self.rounds.along[pivot.array].axis
        type_ = self._types()[pivot.array]
        shape = walk.type_sizes(type_)
        return (*shape[:axis], *shape[axis + 1 :]), type_.dtype

    def _types(self) -> dict[str, fun.Type]:
        found = {p.name: p.type for p in self.loop.params}
        found.update((v.name, v.type) for let in self.rounds.body for v in let.pattern)
        return found

    @property
    def _lower(self) -> Size:
        return self.rounds.form.lower

    def _total(self) -> int:
        form = self.rounds.form
        return int((form.upper - form.lower).evaluate(self.sizes))

    def _row_bytes(self, param: fun.Var) -> int:
        return _bytes([param], self.sizes) // max(int(self.rounds.extent.evaluate(self.sizes)), 1)

    # ------------------------------------------------------------ emitting

    def emit(self) -> None:
        """Add the blocks to the program."""
        let, total = self.rounds.let, self._total()
        self.builder.place = let.place
        lower = int(self._lower.evaluate(self.sizes))
        state = dict(zip((p.name for p in self.loop.params), self.loop.initial, strict=True))
        own = dict(zip((p.name for p in self.loop.params), let.pattern, strict=True))
        for number in range(self.count):
            begin, end = total * number // self.count, total * (number + 1) // self.count
            last = number == self.count - 1
            block = _Block(
                self, self._size("box_round", lower + begin), self._size("box_rounds", end - begin),
                {n: own[n] if last else self.builder.var(n, v.type) for n, v in own.items()},
            )  # fmt: skip
            block.check(end - begin)
            state = block.emit(state)
            text = f"rounds {begin} to {end} of {total} on each row"
            if self.rounds.pivots:
                text += ", after those of the rows that they take as pivots"
            for param in self.rows:
                result = state[param.name]
                assert isinstance(result, fun.Var)
                self.ends[result.name] = text

    def _size(self, base: str, value: int) -> Size:
        """A size variable for a number, so that all blocks are one program."""
        name = self.names.fresh(base)
        self.numbers[name] = value
        return Poly.var(name)


class _Block:
    """Some rounds of a loop."""

    def __init__(
        self, blocks: _Blocks, first: Size, width: Size, pattern: Mapping[str, fun.Var]
    ) -> None:  # fmt: skip
        self.blocks, self.rounds, self.loop = blocks, blocks.rounds, blocks.loop
        self.builder, self.first, self.width = blocks.builder, first, width
        self.pattern = pattern
        step, spread = blocks.step, blocks.spread
        self.base = blocks.first + step * (first if step >= 0 else first + width - 1)
        self.count = abs(step) * width + (spread + 1 - abs(step))

    def check(self, width: int) -> None:
        """Refuse rows outside the array, which a round may take under a condition alone."""
        known = {**self.blocks.sizes, **self.blocks.numbers}
        base, count = int(self.base.evaluate(known)), int(self.count.evaluate(known))
        if width and count and not 0 <= base <= base + count <= self.rounds.extent.evaluate(known):
            reason = "the rows that its rounds take may lie outside the array"
            raise Unsuited(reason, self.rounds.let.place)

    def emit(self, state: Mapping[str, fun.Atom]) -> dict[str, fun.Atom]:
        """Emit it; what the parameters of the loop are afterwards."""
        blocks = self.blocks
        after = dict(state)
        kept: dict[str, fun.Var] = {}
        pivots: dict[Pivot, fun.Var] = {}
        if blocks.others or blocks.recorded or blocks.kept:
            kept, pivots = self._panel(state, after)
        self._rows(state, after, kept, pivots)
        return after

    # ---- what rounds share

    def _panel(
        self, state: Mapping[str, fun.Atom], after: dict[str, fun.Atom]
    ) -> tuple[dict[str, fun.Var], dict[Pivot, fun.Var]]:
        """Emit all rounds of the rows that are pivots; what rounds share, of each."""
        blocks, builder = self.blocks, self.builder
        taken = blocks.rows if self.rounds.pivots else []
        initial: list[fun.Atom] = [self._taken(param, state[param.name]) for param in taken]
        initial += [state[param.name] for param in blocks.others]
        shapes = [self._bound(walk.type_sizes(t)) for t in blocks.recorded.values()]
        dtypes = [t.dtype for t in blocks.recorded.values()]
        for pivot in blocks.kept:
            shape, dtype = blocks.pivot_shape(pivot)
            shapes.append(self._bound(shape))
            dtypes.append(dtype)
        for shape, dtype in zip(shapes, dtypes, strict=True):
            whole = (self.width, *shape)
            initial.append(builder.let(fun.Empty(dtype, whole), fun.Array(dtype, whole), "shared"))
        params = [builder.var("v", atom.type) for atom in initial]
        index = builder.index("r")
        body = self._panel_round(taken, params, Poly.var(index.name))
        types = [param.type for param in params]
        pattern = tuple(builder.var("v", type_) for type_ in types)
        for number, param in enumerate(blocks.others, len(taken)):
            after[param.name] = self.pattern[param.name]
            pattern = (*pattern[:number], self.pattern[param.name], *pattern[number + 1 :])
        loop = fun.Loop(tuple(params), tuple(initial), fun.For(index, ZERO, self.width), body)
        builder.statements.append(fun.Let(pattern, loop, self.rounds.let.place))
        records = pattern[len(taken) + len(blocks.others) :]
        names = len(blocks.recorded)
        return (
            dict(zip(blocks.recorded, records[:names], strict=True)),
            dict(zip(blocks.kept, records[names:], strict=True)),
        )

    def _taken(self, param: fun.Var, array: fun.Atom) -> fun.Var:
        """kernel (q < count, j < m) { x[base + q, j] }"""
        assert isinstance(array, fun.Var)
        builder, axis = self.builder, self.rounds.axis
        rest = _rest(param, axis)
        space = tuple(fun.Range(builder.index(), extent) for extent in (self.count, *rest))
        row, *others = (Poly.var(range_.index.name) for range_ in space)
        at = (*others[:axis], self.base + row, *others[axis:])
        inner = builder.inner()
        read = inner.let(fun.Index(array, at), fun.Scalar(array.type.dtype))
        type_ = fun.Array(array.type.dtype, (self.count, *rest))
        return builder.let(fun.Kernel(space, inner.body([read])), type_, "pivots")

    def _panel_round(
        self, taken: Sequence[fun.Var], params: Sequence[fun.Var], number: Size
    ) -> fun.Body:
        blocks, rounds = self.blocks, self.rounds
        inner = self.builder.inner()
        held = dict(zip((p.name for p in taken), params, strict=False))
        rows: dict[Pivot, fun.Atom] = {}

        def before(index: Size) -> Row:
            def param(name: str, builder: Builder) -> fun.Atom:
                return row_of(builder, held[name], 0, index - self.base)

            return Row(round_, index, inner, param)

        def pivot(found: Pivot) -> fun.Atom:
            if found not in rows:
                rows[found] = before(round_.here(found.row)).pull(found.array)
            return rows[found]

        round_ = Round(rounds, self.first + number, pivot)
        others = params[len(taken) : len(taken) + len(blocks.others)]
        round_.shared.update(zip((p.name for p in blocks.others), others, strict=True))
        for let in rounds.body:
            if not rounds.follows(let):
                round_.share(let, inner)
        values = [round_.shared[name] for name in blocks.recorded] + list(map(pivot, blocks.kept))
        records = [
            self._record(inner, into, number, value)
            for into, value in zip(params[len(taken) + len(others) :], values, strict=True)
        ]
        results = self._panel_rows(before, taken, inner) if taken else []
        results += [
            round_.shared.get(result.name, result) if isinstance(result, fun.Var) else result
            for param, result in zip(self.loop.params, self.loop.body.results, strict=True)
            if param.name not in rounds.along
        ]
        return inner.body([*results, *records])

    def _panel_rows(
        self, before: Callable[[Size], Row], taken: Sequence[fun.Var], inner: Builder
    ) -> list[fun.Atom]:
        """The rows that are pivots, after a round."""
        index = self.builder.index("q")
        row = before(self.base + Poly.var(index.name))
        row.builder = inner.inner()
        made = row.results()
        kernel = fun.Kernel((fun.Range(index, self.count),), row.builder.body(made))
        types = tuple(
            fun.Array(p.type.dtype, (self.count, *_rest(p, self.rounds.axis))) for p in taken
        )
        return list(inner.bind(kernel, types, "w"))

    def _record(self, inner: Builder, into: fun.Var, number: Size, value: fun.Atom) -> fun.Var:
        spans = (fun.Span(ZERO, extent) for extent in walk.type_sizes(value.type))
        return inner.let(fun.Update(into, (number, *spans), value), into.type, "shared")

    def _bound(self, shape: tuple[Size, ...]) -> tuple[Size, ...]:
        """The largest that a shape is in these rounds: extents are monotonous in them."""
        index, found = self.rounds.form.index.name, []
        for extent in map(self.rounds.resolve, shape):
            slope = extent.coefficient(index)
            if not slope.is_constant or extent.degree(index) > 1:
                reason = "how much its rounds share is no multiple of their number plus a constant"
                raise Unsuited(reason, self.rounds.let.place)
            at = self.first if slope.constant <= 0 else self.first + self.width - 1
            found.append(extent.substitute({index: at}))
        return tuple(found)

    # ---- rows

    def _rows(
        self, state: Mapping[str, fun.Atom], after: dict[str, fun.Atom],
        kept: Mapping[str, fun.Var], pivots: Mapping[Pivot, fun.Var],
    ) -> None:  # fmt: skip
        """kernel (i < n) { loop (u = x[i, ..]) for r from 0 to b { .. } }"""
        blocks, rounds, axis = self.blocks, self.rounds, self.rounds.axis
        index, outer = self.builder.index(), self.builder.inner()
        initial = []
        for param in blocks.rows:
            array = state[param.name]
            assert isinstance(array, fun.Var)
            initial.append(row_of(outer, array, axis, Poly.var(index.name)))
        params = [outer.var("u", atom.type) for atom in initial]
        number = outer.index("r")
        inner = outer.inner()
        at = Poly.var(number.name)
        rows = {pivot: self._recall(inner, array, at, blocks.pivot_shape(pivot)[0])
                for pivot, array in pivots.items()}  # fmt: skip
        round_ = Round(rounds, self.first + at, rows.__getitem__)
        for name, array in kept.items():
            shape = walk.type_sizes(blocks.recorded[name])
            round_.shared[name] = self._recall(inner, array, at, shape)
        for let in rounds.body:
            if let.pattern[0].name in rounds.local:
                round_.share(let, inner)
        held = dict(zip((p.name for p in blocks.rows), params, strict=True))
        row = Row(round_, Poly.var(index.name), inner, lambda name, _: held[name])
        body = inner.body(row.results())
        form = fun.For(number, ZERO, self.width)
        loop = fun.Loop(tuple(params), tuple(initial), form, body)
        made = outer.bind(loop, tuple(param.type for param in params), "u")
        kernel = fun.Kernel((fun.Range(index, rounds.extent),), outer.body(made))
        found = [self.pattern[param.name] for param in blocks.rows]
        if axis == 0:
            self.builder.statements.append(fun.Let(tuple(found), kernel, rounds.let.place))
        else:
            types = tuple(
                fun.Array(p.type.dtype, (rounds.extent, *_rest(p, axis))) for p in blocks.rows
            )
            for var, rows_ in zip(found, self.builder.bind(kernel, types, "rows"), strict=True):
                rank = len(walk.type_sizes(var.type))
                axes = (*range(1, axis + 1), 0, *range(axis + 1, rank))
                permuted = fun.Permute(rows_, axes)
                self.builder.statements.append(fun.Let((var,), permuted, rounds.let.place))
        after.update((param.name, var) for param, var in zip(blocks.rows, found, strict=True))

    def _recall(
        self, inner: Builder, array: fun.Var, number: Size, shape: tuple[Size, ...]
    ) -> fun.Atom:
        """What a round shares, of its own extent."""
        row = row_of(inner, array, 0, number)
        index = {self.rounds.form.index.name: self.first + number}
        own = tuple(self.rounds.resolve(n).substitute(index) for n in shape)
        if own == walk.type_sizes(row.type):
            return row
        assert isinstance(row, fun.Var)
        dims = tuple(fun.Span(ZERO, extent) for extent in own)
        return inner.let(fun.Slice(row, dims), fun.Array(row.type.dtype, own), "row")


def _rest(param: fun.Var, axis: int) -> tuple[Size, ...]:
    shape = walk.type_sizes(param.type)
    return (*shape[:axis], *shape[axis + 1 :])


def _bytes(variables: Sequence[fun.Var], sizes: Mapping[str, int]) -> int:
    return sum(
        var.type.dtype.itemsize
        * math.prod(int(extent.evaluate(sizes)) for extent in walk.type_sizes(var.type))
        for var in variables
    )
