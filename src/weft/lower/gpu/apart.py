"""Many rounds of a loop whose elements do not meet, in one launch: an item does one element's.

    for k from 0 to t { launch kernel (i < n) { v[i] = f(k, v[i]) } }
 => launch (i < n) { x = v[i]; for k from 0 to t { x = f(k, x) }; v[i] = x }
"""

from __future__ import annotations

from contextlib import ExitStack

from weft.fun import nodes as fun
from weft.fun import walk
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.imp.walk import may_leave
from weft.lower import spaces
from weft.lower.bodies import lower_body, lower_index
from weft.lower.emitter import Emitter
from weft.lower.gpu.host import GROUP, Host
from weft.lower.gpu.overlaps import Reads, distances_of, kernels_of
from weft.lower.gpu.phases import in_phases
from weft.lower.time_tiling import TimeTiling
from weft.lower.unit import memory
from weft.sizes import ZERO, Poly, product

ROUNDS = 4096  # of a launch, at most, so that one can be stopped


def by_elements(host: Host, let: fun.Let, time: TimeTiling) -> bool:
    """Launches of many rounds each, if each element is made of those at its own place alone."""
    made = kernels_of(time.loop)
    params = [p for p in time.loop.params if isinstance(p.type, fun.Array)]
    changed = {var.name for one, _ in made for var in one.pattern}
    results = {
        p.name: r for p, r in zip(time.loop.params, time.loop.body.results, strict=True)
        if isinstance(r, fun.Var) and r.name in changed
    }  # fmt: skip
    found = distances_of(made, changed | {p.name for p in params})
    if time.lean is not None or found is None or len(results) < len(params):
        return False
    if any(any(distance) for distances in found[0].values() for distance in distances):
        return False

    def launch(phase: str) -> bool:
        k, item = host.kernel_emitter(), host.unit.integer("item")
        _Element(k, time, results, set(found[0])).lower(item, phase)
        if may_leave(k.levels[0]):
            return False
        (first, kernel), *_ = made
        label = spaces.describe("map", kernel.space, first.pattern)
        host.unit.kernels.append(f"{label}, up to {ROUNDS} rounds at a time on each element")
        host.add(k, "rounds", item, product(time.stencil.shape), GROUP)
        return True

    return in_phases(host, let, time, ROUNDS, launch)


class _Element:
    """The kernel of one phase."""

    def __init__(
        self, k: Emitter, time: TimeTiling, results: dict[str, fun.Var], changed: set[str]
    ) -> None:
        assert isinstance(time.loop.form, fun.For)
        self.k, self.time, self.loop, self.form = k, time, time.loop, time.loop.form
        self.results, self.changed = results, changed
        self.values: dict[str, imp.Expr] = {}  # of arrays, at this element
        self.given: dict[str, imp.Expr] = {}  # of what rounds do not change, by reads' names

    def lower(self, item: imp.Var, phase: str) -> None:
        """The rounds of one item's element."""
        k, stencil = self.k, self.time.stencil
        first = k.named(Poly.var(phase) * ROUNDS)
        left = k.declare(machine("-", k.named(stencil.rounds), first))
        rounds = k.declare(machine("min", left, imp.integer(ROUNDS)), "rounds")
        all_ = [kernel for _, kernel in kernels_of(self.loop)]
        with ExitStack() as scopes:
            for kernel in all_:
                for r in kernel.space:
                    scopes.enter_context(k.index(r.index.name, imp.ZERO, ZERO, r.extent))
            scopes.enter_context(k.branch(machine("<", item, k.named(product(stencil.shape)))))
            for kernel in all_:
                spaces.decode(k, kernel.space, item)
            at = tuple(Poly.var(r.index.name) for r in all_[0].space)
            params = [p for p in self.loop.params if p.name in self.results]
            own = [k.mutable(p.type.dtype, lower_index(k, fun.Index(p, at)), "own") for p in params]
            for kernel in all_:
                for name, access in Reads.of(kernel, self.changed).given.items():
                    self.given[name] = lower_index(k, access)
            step = k.unit.integer("step")
            with k.loop(step, imp.ZERO, rounds):
                for param, var in zip(params, own, strict=True):
                    k.depths[var.name] = k.depth
                    self.values[param.name] = var
                self._round(k.declare(machine("+", first, step)))
                for param, var in zip(params, own, strict=True):
                    k.emit(imp.Assign(var, self.values[self.results[param.name].name]))
            for param, var in zip(params, own, strict=True):
                k.store(memory(self.results[param.name]), at, var)

    def _round(self, done: imp.Expr) -> None:
        """What one round makes of the values."""
        k, form = self.k, self.form
        index = k.declare(machine("+", k.named(form.lower), done))
        flips = {self.loop.params[number] for number, _ in self.time.turns.flips}
        with k.index(form.index.name, index, form.lower, form.upper):
            for let in self.loop.body.statements:
                k.place = let.place or k.place
                if isinstance(let.expr, fun.Kernel):
                    self._kernel(let, let.expr)
                elif not flips & set(walk.operands(let.expr)[0]):
                    k.unit.statement(k, let)

    def _kernel(self, let: fun.Let, kernel: fun.Kernel) -> None:
        k = self.k
        reads = Reads.of(kernel, self.changed)
        for name, access in reads.accesses.items():
            k.bind(name, self.values[access.array.name])
        for name in reads.given:
            k.bind(name, self.given[name])
        for var, atom in zip(let.pattern, lower_body(k, reads.body), strict=True):
            self.values[var.name] = k.declare_here(k.atom(atom))
