"""Several rounds of an iterated stencil in one launch on a GPU: overlapped tiles.

A group of items has a tile of each array, and of its neighbourhood as much as some rounds need,
does these rounds on it without the device's memory, and writes what is right then: the tile's
centre. What lies around it is computed by several groups.

    for k from 0 to t { launch kernel over n }
 => for phase p of s rounds {
      launch tiles { x = tile of v; for s rounds { x = kernel on x; barrier }; centre of w = x }
      v, w = w, v }

An item has `own` elements of the first dimension, one after another, in registers, and reads in
the group's memory what others have. (Overlapped tiles: J. Holewinski, L.-N. Pouchet and
P. Sadayappan, High-Performance Code Generation for Stencil Computations on GPU Architectures,
ICS 2012; registers: K. Matsumura et al., AN5D, CGO 2020.) Tiles that lie inside of an array need
no boundary rules. In others, rules lead to where the array's ends are in the tile; a dimension that
wraps around is continued beyond them when the tile is loaded.

Each element is computed by the same operations as by a launch for each round, and so has its bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.imp.walk import may_leave
from weft.lower import boundaries, bounds, half_rows, spaces
from weft.lower.bodies import lower_body, lower_index
from weft.lower.gpu import versions
from weft.lower.gpu.elements import loaded
from weft.lower.gpu.host import Host
from weft.lower.gpu.overlaps import Reads, Tiling, tiling
from weft.lower.gpu.phases import in_phases
from weft.lower.gpu.tile_ends import FEW_AT_ENDS, AtEnd, TileEnds
from weft.lower.gpu.tile_memory import State, all_of, any_of
from weft.lower.time_tiling import TimeTiling
from weft.lower.unit import memory
from weft.plan import launches
from weft.sizes import ONE, ZERO, Poly, Size, as_poly, product

_SEVERAL = 4  # tiles of a vector, of which half are counted from its end
FEW = (1, 256)  # tiles, by rank: of fewer, a round is a launch


def lower(
    host: Host, let: fun.Let, time: TimeTiling, by_rounds: Callable[[], None]
) -> None:
    """A loop in overlapped tiles if it suits and there are many of them, else `by_rounds`."""
    found = tiling(time)
    if found is None:
        by_rounds()
        return
    parts = [
        versions.ceil(host, extent, centre)
        for extent, centre in zip(time.stencil.shape, found.centre, strict=True)
    ]

    def launch(phase: str) -> bool:
        tiles = _Tiles(host, found, parts, phase)
        forms = [(tiles, ONE)]
        if tiles.have_fixed_rows():
            several = 1 - versions.below(host, parts[0], _SEVERAL)
            from_ends = _Tiles(host, found, parts, phase, from_ends=True)
            forms = [(from_ends, several), (tiles, 1 - several)]
        for form, _ in forms:
            form.lower()
            if may_leave(form.k.levels[0]):
                return False
        host.unit.kernels.append(tiles.label())
        group = found.shape.items
        for form, whether in forms:
            items = whether * product(parts) * group
            resident = found.resident if form.from_ends else 0
            host.add(form.k, "overlapped", form.item, items, group, resident)
        return True

    with host.inside() as in_tiles:
        suits = in_phases(host, let, time, found.rounds, launch)
    if not suits:
        by_rounds()
        return
    few = FEW[len(parts) - 1]
    if few <= 1:
        host.steps += in_tiles
        return
    with host.inside() as otherwise:
        by_rounds()
    many = host.unit.fresh("tiles.")
    host.define(many, 1 - versions.below(host, product(parts), few))
    host.steps.append(launches.Branch(many, tuple(in_tiles), tuple(otherwise)))


# ---------------------------------------------------------------- a launch


class _Tiles(TileEnds):
    """The kernel of one phase."""

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

    def label(self) -> str:
        (first, _), *others = self.tiling.kernels
        whole = spaces.describe("map", self._space(), first.pattern)
        more = f" and {len(others)} more" if others else ""
        tile = " x ".join(map(str, self.tiling.shape.extents))
        return (
            f"{whole}{more}, {self.tiling.rounds} rounds at a time in overlapping tiles of {tile}"
        )

    def lower(self) -> None:
        k = self.k
        inside: list[imp.Expr] = []
        for origin, extent, length, radius in zip(
            self.origin, self.extents, self.shape.extents, self.shape.radius, strict=True
        ):
            end = k.declare(machine("+", origin, imp.integer(length + radius)))
            inside.append(machine(">=", origin, imp.integer(radius)))
            inside.append(machine("<=", end, extent))
        whole = k.declare(all_of(inside))
        results = {result.name: name for name, result in self.tiling.results.items()}
        pointers: dict[str, imp.Pointer] = {}
        for param in self.params:
            pointers[param.name] = k.shared(param.type.dtype, 2 * self.shape.room)
        for let, _ in self.tiling.kernels:
            for var in let.pattern:
                if var.name in results:
                    pointers[var.name] = pointers[results[var.name]]
                else:
                    pointers[var.name] = k.shared(var.type.dtype, self.shape.room)
        state = State(pointers)
        k.either(whole, lambda: self._inside(state), lambda: self._at_ends(state))
        k.emit(imp.Barrier())
        self._write(state)

    def _write(self, state: State) -> None:
        """The tile's centre, after the last round."""
        k, space = self.k, self._space()
        at = tuple(Poly.var(r.index.name) for r in space)
        buffer = self._buffer(self.steps)
        for place in self._places(self.shape.own):
            with self._at(place, space):
                wanted: list[imp.Expr] = []
                for one, halo, centre, r, extent in zip(
                    place, self.tiling.halo, self.tiling.centre, space, self.extents, strict=True
                ):
                    wanted.append(machine(">=", one, imp.integer(halo)))
                    wanted.append(machine("<", one, imp.integer(halo + centre)))
                    wanted.append(machine("<", k.scalars[r.index.name], extent))
                with k.branch(all_of(wanted)):
                    spot = k.declare(machine("+", buffer, self.shape.address(k, place)))
                    for param in self.params:
                        value = loaded(k, state.shared[param.name], spot)
                        k.store(memory(self.tiling.results[param.name]), at, value)

    # ------------------------------------------------------------ rounds

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
