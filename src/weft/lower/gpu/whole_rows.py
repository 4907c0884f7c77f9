"""Runs of statements over the same rows (`weft.lower.gpu.row_runs`), by groups that hold rows.

A group takes a row, or several, as many as have a chunk of 32 elements for each of its items.
Elements that several statements need, or a reduction does, are loaded once, neighbours by
neighbouring items, and are kept in the group's memory, as is what is made of them. An item folds
its chunk from left to right; folds are combined by neighbours, level by level, as in
`weft.lower.gpu.groups`: the bits are those of one kernel for each statement, which are launched
for rows that are longer than what a group holds.

    group:  values[..] = x[i, ..]; barrier; folds of chunks; joined; m = their first;
            values[..] = exp(values[..] - m); barrier; folds of chunks; joined; s = their first;
            y[i, ..] = values[..] / s
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import kernels, spaces
from weft.lower.bodies import lower_body, scalar_results
from weft.lower.emitter import Emitter, frozen
from weft.lower.gpu import batched, versions
from weft.lower.gpu.host import Host
from weft.lower.gpu.row_runs import RowRun, Step, Value, find, kept_external
from weft.lower.gpu.tiles import CHUNK, Folds, Rows, launch_groups, padded
from weft.plan import launches
from weft.sizes import ONE, ZERO, Size, as_poly, product

_GROUPS = (256, 128, 64, 32)  # items: of these, the most whose elements a group's memory holds
_BYTES = 48 << 10  # of a group: any GPU has them
_SPREAD = 512  # groups that a GPU wants before one of them takes another row


def lower(host: Host, body: fun.Body, position: int, stops: frozenset[int]) -> int:
    """Launch the run that begins at a position; how many statements it is, 0 if there is none."""
    run = find(host, body, position, stops)
    group = None if run is None else _group(run)
    if run is None or group is None:
        return 0
    needed = _needed_after(body, position + len(run.lets), run.scalars)
    for let in needed:
        host.statement(host.e, let)
    extent, most = run.extent, group * CHUNK
    fits = versions.below(host, extent, most + 1) * (1 - versions.below(host, extent, 1))
    whether = fits * (1 - host.is_processor)
    for size in run.same.zeros:
        whether = whether * versions.is_zero(host, size)
    launched = whether != ZERO and _launch(host, run, group, whether)
    with host.inside() as one_by_one:
        for let in run.lets:
            if let not in needed:
                host.e.place = let.place or host.e.place
                host.statement(host.e, let)
    host.steps += _unless(whether, one_by_one) if launched else one_by_one
    return len(run.lets)


def _group(run: RowRun) -> int | None:
    """How many items a group has; None where too little fits its memory."""
    scalars = [
        var.type.dtype for step in run.steps if not step.of_elements for var in step.let.pattern
    ]
    scalars += [dtype for step in run.steps if step.of for dtype in step.of.dtypes]
    each = sum(dtype.itemsize for dtype in run.slots) * (CHUNK + 1)
    each += sum(dtype.itemsize for dtype in scalars)
    return next((group for group in _GROUPS if group * each <= _BYTES), None)


def _needed_after(body: fun.Body, end: int, scalars: Sequence[fun.Let]) -> list[fun.Let]:
    """The scalars of a run that are used after it, or by such."""
    used = set(walk.free_names(fun.Body(body.statements[end:], body.results)))
    needed: list[fun.Let] = []
    for let in reversed(scalars):
        if let.pattern[0].name in used:
            needed.insert(0, let)
            used |= walk.used_names(let.expr)
    return needed


def _unless(whether: Size, steps: Sequence[launches.Step]) -> list[launches.Step]:
    """The steps, in which nothing is launched if `whether` is 1."""
    found: list[launches.Step] = []
    for step in steps:
        match step:
            case launches.Launch():
                items = step.items * (1 - whether)
                if items != ZERO:
                    found.append(replace(step, items=items))
            case launches.Branch(condition, then, otherwise):
                sides = (tuple(_unless(whether, side)) for side in (then, otherwise))
                found.append(launches.Branch(condition, *sides))
            case _:
                found.append(step)
    return found


def _launch(host: Host, run: RowRun, group: int, whether: Size) -> bool:
    """Launch a run, if `whether` is 1; False where an item may leave its group."""
    last = run.steps[-1]
    count = product(r.extent for r in last.rows)
    chunks = versions.maximum(host, versions.ceil(host, run.extent, CHUNK), ONE)
    rows = versions.divide(host, as_poly(group), chunks)
    rows = versions.minimum(host, rows, versions.ceil(host, count, _SPREAD))
    rows = versions.maximum(host, rows, ONE)  # for rows that do not fit, or none

    def inside(k: Emitter, number: imp.Expr, lane: imp.Expr) -> None:
        first = k.declare(machine("*", number, k.named(rows)))
        left = k.declare(machine("-", k.named(count), first))
        mine = k.declare(machine("min", left, k.named(rows)))
        with ExitStack() as scopes:
            for step in run.steps:
                for r in (*step.rows, *((step.element,) if step.element else ())):
                    if r not in last.kernel.space:
                        scopes.enter_context(k.index(r.index.name, imp.ZERO, ZERO, r.extent))
            lower_body(k, fun.Body(run.scalars, ()))
            _Group(host, k, lane, group, run, first, mine).lower()

    groups = versions.ceil(host, count, rows)
    return launch_groups(
        host, last.let, last.kernel.space, "whole", "reduce and map whole rows by groups", groups,
        whether, inside, group,
    )  # fmt: skip


class _Group:
    """What the items of a group do with its rows: `mine` ones, from the `first` on."""

    def __init__(
        self, host: Host, k: Emitter, lane: imp.Expr, group: int, run: RowRun, first: imp.Expr,
        mine: imp.Expr,
    ) -> None:  # fmt: skip
        self.host, self.e, self.run, self.lane, self.group = host, k, run, lane, group
        self.first, self.mine = first, mine
        self.rows = Rows(k, lane, group)
        self.rows.of_rows(mine, k.named(run.extent))
        self.slots = [k.shared(dtype, group * (CHUNK + 1)) for dtype in run.slots]
        self.scalars: dict[str, imp.Pointer] = {}  # of each row, by the name of the array
        self.stale = False  # others have stored what an item may read next

    def lower(self) -> None:
        for number, step in enumerate(self.run.steps):
            self.load(number, step)
            if step.of is not None:
                self.reduce(step)
            elif step.of_elements:
                self.settle(any(
                    read.index.array.name in self.scalars for read in step.reads()
                ))  # fmt: skip
                self.rows.each(lambda at, step=step: self.element(step, at))  # type: ignore[misc]
            else:
                self.each_row(step, lambda step=step: scalar_results(  # type: ignore[misc]
                    self.e, self.rest(step, step.kernel.body)
                ))  # fmt: skip

    def settle(self, whether: bool = True) -> None:
        """A barrier, where something was stored since the last one."""
        if whether and self.stale:
            self.rows.barrier()
            self.stale = False

    # ------------------------------------------------------------ steps

    def load(self, number: int, step: Step) -> None:
        """The elements that the step is the first to need, several of each item at a time."""
        e, rows = self.e, self.rows
        found: dict[int, tuple[fun.Let, Value]] = {}
        for read in step.reads():
            place = kept_external(self.host, self.run, step, read)
            value = None if place is None else self.run.loads.get(place)
            if value is not None and value.first == number:
                found.setdefault(value.slot, (read.let, value))
        if not found:
            return
        lets, pointers = [let for let, _ in found.values()], [self.slots[n] for n in found]
        last = e.declare(machine("-", rows.size, imp.ONE))

        def loaded(at: imp.Expr) -> list[imp.Expr]:
            self.at_element(step, at)
            lower_body(e, fun.Body(tuple(lets), ()))
            return [e.scalars[let.pattern[0].name] for let in lets]

        if e.unit.batched:
            self.in_batches(loaded, pointers, last)
        else:
            rows.each(lambda at: rows.store(pointers, padded(at), loaded(at)))
        self.stale = True

    def in_batches(
        self, loaded: Callable[[imp.Expr], list[imp.Expr]], pointers: Sequence[imp.Pointer],
        last: imp.Expr,
    ) -> None:  # fmt: skip
        """What is loaded of each element; each is stored by the item whose it is."""
        e, rows, count = self.e, self.rows, batched.ELEMENTS
        begin, number = e.unit.integer("first"), e.unit.integer("l")

        def place(number: imp.Expr) -> imp.Expr:
            turn = machine("*", machine("+", begin, number), imp.integer(self.group))
            return e.declare(machine("+", self.lane, turn))

        turns = spaces.ceil(e, rows.size, imp.integer(self.group))
        with e.loop(begin, imp.ZERO, turns, step=count):
            near = batched.compute(
                e, [pointer.dtype for pointer in pointers], count,
                lambda number: loaded(e.declare(machine("min", place(number), last))),
            )  # fmt: skip
            with e.loop(number, imp.ZERO, imp.integer(count), unroll=count):
                at = place(number)
                with e.branch(machine("<=", at, last)):
                    rows.store(pointers, padded(at), rows.load(near, number))

    def element(self, step: Step, at: imp.Expr) -> None:
        """What a step makes of one element."""
        self.at_element(step, at)
        self.bind_elements(step, at)
        values = scalar_results(self.e, self.rest(step, step.kernel.body))
        for var, value in zip(step.let.pattern, values, strict=True):
            if var.name in self.run.kept:
                slot = self.slots[self.run.kept[var.name].slot]
                self.rows.store([slot], padded(at), [value])
                self.stale = True
        self.store(step, values)

    def reduce(self, step: Step) -> None:
        """A reduction of each row, and what is made of it."""
        e, rows, of = self.e, self.rows, step.of
        assert of is not None
        folds = Folds(e, self.lane, of.dtypes, of.reduce.operator, self.group)
        folds.of_chunks(rows)
        body = self.rest(step, of.reduce.body)
        start = e.declare(machine("*", rows.row, rows.length))

        def values(at: imp.Expr) -> list[imp.Expr]:
            e.bind(of.reduce.space[0].index.name, e.declare(machine("-", at, start)))
            self.bind_elements(step, at)
            return scalar_results(e, body)

        self.settle()
        with e.branch(rows.own):
            self.at_row(step, rows.row)
            lower_body(e, self.rest(step, of.before))
            state = [e.mutable(value.dtype, value) for value in values(rows.begin)]
            at = e.unit.integer("i")
            with e.loop(at, machine("+", rows.begin, imp.ONE), rows.end):
                found = [e.declare(value) for value in values(at)]
                with frozen(e, state) as now:
                    for slot, joined in zip(state, folds.combine(now, found), strict=True):
                        e.emit(imp.Assign(slot, joined))
            folds.store(folds.folds, self.lane, state)
        folds.barrier()
        folds.join_few()

        def finish() -> list[imp.Expr]:
            total = folds.load(folds.folds, e.declare(machine("*", self.lane, rows.chunks)))
            for var, value in zip(of.reduced.pattern, total, strict=True):
                e.bind(var.name, value)
            lower_body(e, self.rest(step, of.before))
            return scalar_results(e, self.rest(step, of.after))

        self.each_row(step, finish)

    def each_row(self, step: Step, values: Callable[[], list[imp.Expr]]) -> None:
        """What a step makes of each row, by an item."""
        with self.e.branch(machine("<", self.lane, self.mine)):
            self.at_row(step, self.lane)
            found = values()
            for var, value in zip(step.let.pattern, found, strict=True):
                if self.run.is_read(var.name):
                    pointer = self.e.shared(value.dtype, self.group)
                    self.scalars[var.name] = pointer
                    self.rows.store([pointer], self.lane, [value])
                    self.stale = True
            self.store(step, found)

    # ------------------------------------------------------------ what they are made of

    def at_row(self, step: Step, row: imp.Expr) -> None:
        """From here on, a step's indices are those of a row, and it knows what it reads of it."""
        spaces.decode(self.e, step.rows, self.e.declare(machine("+", self.first, row)))
        for read in step.reads():
            pointer = self.scalars.get(read.index.array.name)
            if pointer is not None:
                self.e.bind(read.name, self.rows.load([pointer], row)[0])

    def at_element(self, step: Step, at: imp.Expr) -> None:
        """The same for an element."""
        assert step.element is not None
        row, place = self.rows.place(at)
        self.at_row(step, row)
        self.e.bind(step.element.index.name, place)

    def bind_elements(self, step: Step, at: imp.Expr) -> None:
        """A step knows what it reads that is kept of an element."""
        for read in step.reads():
            value = self.kept(step, read.let)
            if value is not None:
                slot = self.slots[value.slot]
                self.e.bind(read.name, self.rows.load([slot], padded(at))[0])

    def kept(self, step: Step, let: fun.Let) -> Value | None:
        """What is kept of what a statement reads."""
        for read in step.reads():
            if read.let is let:
                place = kept_external(self.host, self.run, step, read)
                made = self.run.kept.get(read.index.array.name)
                return made if made or place is None else self.run.loads.get(place)
        return None

    def rest(self, step: Step, body: fun.Body) -> fun.Body:
        """A body without what is known already."""
        known = {
            read.name for read in step.reads()
            if read.index.array.name in self.run.made or self.kept(step, read.let) is not None
        }  # fmt: skip
        return _without(body, known)

    def store(self, step: Step, values: Sequence[imp.Expr]) -> None:
        """The results that are read after the run."""
        let = step.let
        escaping = [
            (var, value) for var, value in zip(let.pattern, values, strict=True)
            if var.name in self.run.escaping
        ]  # fmt: skip
        if escaping:
            found = replace(let, pattern=tuple(var for var, _ in escaping))
            kernels.store(self.e, found, [value for _, value in escaping])


def _without(body: fun.Body, known: set[str]) -> fun.Body:
    return walk.with_statements(body, [
        walk.map_let(let, lambda inner: _without(inner, known))
        for let in body.statements
        if let.pattern[0].name not in known
    ])  # fmt: skip
