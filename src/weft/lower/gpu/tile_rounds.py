"""Rounds of an iterated stencil on a tile of it, on a GPU.

The rounds of `weft.lower.gpu.overlapped`'s tiles. Where no boundary rule concerns a tile, an item
has its elements in registers, and shows others those that they read. At the ends of an array those
near an end are done again, by the rules; where these may lead anywhere, all elements go through the
group's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import boundaries, bounds, half_rows
from weft.lower.bodies import lower_body, lower_index
from weft.lower.gpu.elements import loaded
from weft.lower.gpu.host import Host
from weft.lower.gpu.overlaps import Reads, Tiling
from weft.lower.gpu.tile_ends import FEW_AT_ENDS, AtEnd, TileEnds
from weft.lower.gpu.tile_memory import State, all_of, any_of
from weft.sizes import ZERO, Poly, Size, as_poly


class TileRounds(TileEnds):
    """The kernel of one phase, as far as it is about rounds."""

    def __init__(
        self, host: Host, found: Tiling, parts: Sequence[Size], phase: str, *,
        from_ends: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(host, found, parts, from_ends)
        k = self.k
        assert isinstance(self.loop.form, fun.For)
        self.form = self.loop.form
        self.first = k.named(Poly.var(phase) * found.rounds)
        rounds = k.named(self.stencil.rounds)
        left = k.declare(machine("-", rounds, self.first))
        self.steps = k.declare(machine("min", left, imp.integer(found.rounds)), "steps")

    @contextmanager
    def _round(self, state: State) -> Iterator[None]:
        """The rounds of the launch; inside, all but kernels is known of one of them."""
        k, step = self.k, self.k.unit.integer("step")
        with k.loop(step, imp.ZERO, self.steps):
            now = self._buffer(step)
            other = k.declare(machine("-", imp.integer(self.shape.room), now), "buffer")
            for let, _ in self.tiling.kernels:
                state.buffers.update({var.name: imp.ZERO for var in let.pattern})
            for param in self.params:
                state.buffers[param.name] = now
                state.buffers[self.tiling.results[param.name].name] = other
            done = k.declare(machine("+", self.first, step))
            index = k.declare(machine("+", k.named(self.form.lower), done))
            with k.index(self.form.index.name, index, self.form.lower, self.form.upper):
                yield

    def _each_kernel(self, lower: Callable[[fun.Let, fun.Kernel], None]) -> None:
        """The statements of a round; `lower` is given kernels."""
        flips = {self.loop.params[number] for number, _ in self.tiling.time.turns.flips}
        for let in self.loop.body.statements:
            self.k.place = let.place or self.k.place
            if isinstance(let.expr, fun.Kernel):
                lower(let, let.expr)
            elif not flips & set(walk.operands(let.expr)[0]):
                self.k.unit.statement(self.k, let)

    # ------------------------------------------------------------ inside of an array

    def _inside(self, state: State) -> None:
        """Rounds of a tile that no boundary rule concerns."""
        self._load(state, ())
        self._in_registers(state)

    def _in_registers(
        self, state: State, fixed: Sequence[AtEnd] = (), *, at_ends: bool = False
    ) -> None:
        """Rounds of a tile that is loaded: an item's elements are in registers.

        `fixed`: those near ends, where they are in fixed rows; `at_ends`: or they may be anywhere.
        """
        k, shape = self.k, self.shape
        first = self._first(imp.ZERO)
        for param in self.params:
            values = self._loaded(state, param, first)
            state.own[param.name] = [k.mutable(param.type.dtype, v, "own") for v in values]
        for _, kernel in self.tiling.kernels:
            self._load_given(state, kernel)
        with self._round(state):
            for param in self.params:
                for own in state.own[param.name]:
                    assert isinstance(own, imp.Var)
                    k.depths[own.name] = k.depth
            self._each_kernel(
                lambda let, kernel: self._kernel_in_registers(state, let, kernel, fixed, at_ends)
            )
            for param in self.params:
                made = state.own[self.tiling.results[param.name].name]
                for own, value in zip(state.own[param.name], made, strict=True):
                    assert isinstance(own, imp.Var)
                    k.emit(imp.Assign(own, value))
        first = self._first(self._buffer(self.steps))
        for param in self.params:
            others = sorted(set(range(shape.own)) - self.tiling.shared_rows(param.name))
            self._show(state, param, first, others)

    def _kernel_in_registers(
        self, state: State, let: fun.Let, kernel: fun.Kernel, fixed: Sequence[AtEnd],
        at_ends: bool,
    ) -> None:  # fmt: skip
        """An item's elements of a kernel; those that others read are shown to them.

        `at_ends`: so are those that boundary rules may lead to; who they concern is done again.
        """
        k, own = self.k, self.shape.own
        reads = Reads.of(kernel, self.tiling.changed, inside=True)
        firsts = {name: self._first(at) for name, at in state.buffers.items()}
        seen: dict[tuple[str, int, int], imp.Expr] = {}

        def element(access: fun.Index, row: int) -> imp.Expr:
            """What one of the item's elements reads."""
            name = access.array.name
            down, *across = (
                (index - Poly.var(r.index.name)).constant
                for index, r in zip(access.indices, kernel.space, strict=True)
            )
            place = row + down
            if not any(across) and 0 <= place < own:
                return state.own[name][place]
            key = name, place, sum(across)
            if key not in seen:
                spot = self._spot(firsts[name], (place, *across))
                seen[key] = loaded(k, state.shared[name], spot)
            return seen[key]

        made: list[list[imp.Expr]] = [[] for _ in let.pattern]
        with self._true_inside(kernel):
            for row in self._rows(kernel):
                for name, access in reads.accesses.items():
                    k.bind(name, element(access, row))
                for name in reads.given:
                    k.bind(name, state.given[name, row])
                for values, atom in zip(made, lower_body(k, reads.body), strict=True):
                    value = k.atom(atom)
                    changes = at_ends or any(row == one.row for one in fixed)
                    value = k.mutable(value.dtype, value) if changes else k.declare_here(value)
                    values.append(value)
        for one in fixed:
            with k.branch(one.is_own):
                found = self._at_end(state, kernel, firsts, one)
                for values, value in zip(made, found, strict=True):
                    changed = values[one.row]
                    assert isinstance(changed, imp.Var)
                    k.emit(imp.Assign(changed, value))
        shown = bool(seen)  # the next kernel may write what others still read
        for var, values in zip(let.pattern, made, strict=True):
            state.own[var.name] = values
            shared = sorted(self.tiling.shared_rows(var.name))
            self._show(state, var, firsts[var.name], shared)
            shown = shown or bool(shared)
        if at_ends:
            with k.branch(self._is_read_near_ends()):
                for var in let.pattern:
                    others = sorted(set(range(own)) - self.tiling.shared_rows(var.name))
                    self._show(state, var, firsts[var.name], others)
            self._mend(state, let, kernel, firsts)
            shown = True
        if shown:
            k.emit(imp.Barrier())

    def _at_end(
        self, state: State, kernel: fun.Kernel, firsts: Mapping[str, imp.Expr], one: AtEnd
    ) -> list[imp.Expr]:
        """An element near an end, of what is in registers: boundary rules lead to the same item."""
        k, (r,) = self.k, kernel.space
        reads = Reads.of(kernel, self.tiling.changed, keep=False)
        with k.index(r.index.name, one.index, ZERO, r.extent):
            for name, access in reads.accesses.items():
                distance = (access.indices[0] - Poly.var(r.index.name)).constant
                rule = access.boundary[0] if access.boundary else None
                row, array = one.read(rule, distance), access.array.name
                if row is None:
                    assert rule is not None
                    k.bind(name, boundaries.constant(rule))
                elif 0 <= row < self.shape.own:
                    k.bind(name, state.own[array][row])
                else:  # nobody wants it
                    spot = self._spot(firsts[array], (row, 0))
                    k.bind(name, loaded(k, state.shared[array], spot))
            return [k.atom(atom) for atom in lower_body(k, reads.body)]

    def _show(self, state: State, var: fun.Var, first: imp.Expr, rows: Sequence[int]) -> None:
        """Put some of an item's elements into the group's memory."""
        for row in rows:
            spot = self._spot(first, (row, 0))
            self.k.emit(imp.Store(state.shared[var.name], spot, state.own[var.name][row]))

    def _rows(self, kernel: fun.Kernel) -> Iterator[int]:
        """The numbers of an item's elements; indices are those of one, inside of the array."""
        k, own = self.k, self.shape.own
        chunk = k.declare(machine("*", self.chunk, imp.integer(own)))
        with ExitStack() as scopes:
            for r, radius in zip(kernel.space, self.shape.radius, strict=True):
                ends = as_poly(radius), r.extent - radius
                scopes.enter_context(k.index(r.index.name, imp.ZERO, *ends))
            for row in range(own):
                place = k.declare(machine("+", chunk, imp.integer(row)))
                for r, at, origin in zip(
                    kernel.space, (place, self.column), self.origin, strict=False
                ):
                    k.bind(r.index.name, k.declare(machine("+", origin, at), "at"))
                yield row

    def _load_given(self, state: State, kernel: fun.Kernel) -> None:
        """What a kernel reads of arrays that rounds do not change: once, before the rounds."""
        seen: dict[tuple[str, tuple[Size, ...]], imp.Expr] = {}
        reads = Reads.of(kernel, self.tiling.changed, inside=True)
        down = kernel.space[0].index.name
        for row in self._rows(kernel):
            for name, access in reads.given.items():
                below = {down: Poly.var(down) + row}
                place = tuple(index.substitute(below) for index in access.indices)
                key = access.array.name, place
                if key not in seen:
                    seen[key] = lower_index(self.k, access)
                state.given[name, row] = seen[key]

    @contextmanager
    def _true_inside(self, kernel: fun.Kernel) -> Iterator[None]:
        """Inside, the emitter knows which comparisons hold where no boundary rule applies."""
        k = self.k
        before = k.interior, k.true_inside
        k.interior, k.true_inside = True, frozenset(
            name
            for name, (true, _) in half_rows.comparisons(k, kernel.body).items()
            if true and all(bounds.holds(k, fact) for fact in true)
        )
        yield
        k.interior, k.true_inside = before

    # ------------------------------------------------------------ at the ends of an array

    def _at_ends(self, state: State) -> None:
        """Rounds of a tile that lies in part beyond an array."""
        self._load(state, [
            fun.Boundary("wrap" if around else "edge", ZERO, r.extent)
            for around, r in zip(self.tiling.wraps, self._space(), strict=True)
        ])  # fmt: skip
        if self._go_around():
            self._in_registers(state)
            return
        if self.from_ends:
            self._in_registers(state, self._fixed_rows())
            return
        if self.shape.rank == 1 and not self._reads_others():
            self._in_registers(state, at_ends=True)
            return
        with self._round(state):
            self._each_kernel(lambda let, kernel: self._kernel_at_ends(state, let, kernel))

    def _mend(
        self, state: State, let: fun.Let, kernel: fun.Kernel, firsts: Mapping[str, imp.Expr]
    ) -> None:
        """An item's elements of a kernel that boundary rules concern, done by these.

        They are the few at the ends of an array: items that have none do not wait for long.
        """
        k = self.k
        if self.shape.radius[0] > FEW_AT_ENDS or self.tiling.wraps[0]:
            chunk, begin, end = self._near_ends()
            with k.branch(machine("<", begin, end)):
                number = k.unit.integer("n")
                with k.loop(number, begin, end, unroll=0):  # or all tiles need more registers
                    place = [k.declare(machine("+", chunk, number), "row")]
                    with self._at(place, kernel.space):
                        self._within(kernel.space)
                        self._element(state, let, kernel, place, inside=False)
                self._take(state, let, firsts)
            return
        near = list(self._each_near_an_end())
        with k.branch(k.declare(any_of([is_own for is_own, _, _ in near]))):
            for is_own, index, place_ in near:
                (space,) = kernel.space
                with k.branch(is_own), k.index(space.index.name, index, ZERO, space.extent):
                    self._element(state, let, kernel, [place_], inside=False)
            self._take(state, let, firsts)

    def _take(self, state: State, let: fun.Let, firsts: Mapping[str, imp.Expr]) -> None:
        """An item's elements, as they are in the group's memory now."""
        for var in let.pattern:
            values = self._loaded(state, var, firsts[var.name])
            for own, value in zip(state.own[var.name], values, strict=True):
                assert isinstance(own, imp.Var)
                self.k.emit(imp.Assign(own, value))

    def _kernel_at_ends(self, state: State, let: fun.Let, kernel: fun.Kernel) -> None:
        """An item's elements of a kernel, as far as they lie in the array."""
        k = self.k
        for place in self._places(2):  # more would take registers from all tiles

            def near_ends(place: Sequence[imp.Expr] = place) -> None:
                within = self._within(kernel.space)
                with k.branch(all_of(within)) if within else ExitStack():
                    self._element(state, let, kernel, place, inside=False)

            def far_from_ends(place: Sequence[imp.Expr] = place) -> None:
                with bounds.assumed(k, self._far(kernel.space)), self._true_inside(kernel):
                    self._element(state, let, kernel, place, inside=True)

            with self._at(place, kernel.space):
                far = [machine(">=", k.named(f), imp.ZERO) for f in self._far(kernel.space)]
                k.either(all_of(far), far_from_ends, near_ends)
        k.emit(imp.Barrier())

    def _element(
        self, state: State, let: fun.Let, kernel: fun.Kernel, place: Sequence[imp.Expr], *,
        inside: bool,
    ) -> None:  # fmt: skip
        """The element at a place of the tile, from and to the group's memory."""
        k = self.k
        reads = Reads.of(kernel, self.tiling.changed, inside=inside, keep=False)
        for name, access in reads.accesses.items():
            k.bind(name, self._mapped(state, access, place, kernel.space))
        results = [k.atom(atom) for atom in lower_body(k, reads.body)]
        here = self.shape.address(k, place)
        for var, value in zip(let.pattern, results, strict=True):
            spot = machine("+", here, state.buffers[var.name])
            k.emit(imp.Store(state.shared[var.name], spot, value))

    def _mapped(
        self, state: State, access: fun.Index, place: Sequence[imp.Expr],
        space: Sequence[fun.Range],
    ) -> imp.Expr:  # fmt: skip
        """What an element reads, where boundary rules lead."""
        k, around = self.k, self.tiling.wraps
        rules = tuple(
            None if wraps else rule
            for wraps, rule in zip(around, access.boundary, strict=False)
        )
        indices, outside = boundaries.resolve(k, replace(access, boundary=rules))
        spots: list[imp.Expr] = []
        for index, r, wraps, here, origin in zip(
            indices, space, around, place, self.origin, strict=True
        ):
            if wraps:
                distance = (index - Poly.var(r.index.name)).constant
                spots.append(k.declare(machine("+", here, imp.integer(distance))))
            else:
                spots.append(k.declare(machine("-", k.named(index), origin)))
        at = machine("+", self.shape.address(k, spots), state.buffers[access.array.name])
        value = loaded(k, state.shared[access.array.name], k.declare(at))
        for condition, otherwise in outside:
            value = imp.Select(condition, value, otherwise)
        return k.declare(value, depth=k.depth)
