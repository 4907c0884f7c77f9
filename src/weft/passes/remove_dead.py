"""remove_dead: statements and results that nothing uses.

    let a, b = kernel(i < n) { let x = v[i]; let y = exp(x); in x, y }   (b unused)
 => let a = kernel(i < n) { let x = v[i]; in x }

Removes: statements none of whose results are used; single results of kernels, reductions,
    scans, scatters, conditionals and loops, with what computes them.
Adds: nothing.
Requires: a checked program.
Ensures: the same results. An error that only unused code would raise is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk


def remove_dead(program: fun.Program) -> fun.Program:
    """The program without what its results do not need."""
    body = _Sweep().body(program.body)
    return program if body is program.body else replace(program, body=body)


def remove_dead_in(body: fun.Body) -> fun.Body:
    """A body without what its own results do not need."""
    return _Sweep().body(body)


class _Sweep:
    """One walk from back to front. Names are bound once, so one set of live ones serves."""

    def __init__(self) -> None:
        self.live: set[str] = set()

    def body(self, body: fun.Body) -> fun.Body:
        self.use(body.results)
        return self.statements(body)

    def statements(self, body: fun.Body) -> fun.Body:
        kept: list[fun.Let] = []
        for let in reversed(body.statements):
            if not any(var.name in self.live for var in let.pattern):
                continue
            kept.append(self.let(let))
        kept.reverse()
        return walk.with_statements(body, kept)

    def use(self, atoms: Sequence[fun.Atom]) -> None:
        for atom in atoms:
            if isinstance(atom, fun.Var):
                self.live.add(atom.name)

    def let(self, let: fun.Let) -> fun.Let:
        pattern, expr = let.pattern, let.expr
        if len(pattern) > 1:
            pattern, expr = self.narrow(pattern, expr)
        if isinstance(expr, fun.Apply):  # most statements
            self.use(expr.arguments)
            return let
        new = walk.map_bodies(expr, self.body)
        atoms, sizes, _ = walk.operands(new)
        self.use(atoms)
        for var in pattern:
            sizes += walk.type_sizes(var.type)
        for size in sizes:
            for monomial in size.terms:
                self.live.update(monomial)
        if len(pattern) == len(let.pattern) and new == let.expr:
            return let
        return fun.Let(pattern, new, let.place)

    # ------------------------------------------------------------ some results of several

    def narrow(
        self, pattern: tuple[fun.Var, ...], expr: fun.Expr
    ) -> tuple[tuple[fun.Var, ...], fun.Expr]:
        """Only the results that are used, where the expression can do without the others."""
        used = [k for k, var in enumerate(pattern) if var.name in self.live]
        if len(used) == len(pattern):
            return pattern, expr
        match expr:
            case fun.Loop(params, initial, _, body):
                used = self.loop_needs(expr, used)
                expr = replace(
                    expr, params=_pick(params, used), initial=_pick(initial, used),
                    body=_keep(body, used),
                )  # fmt: skip
            case fun.Kernel(_, body):
                expr = replace(expr, body=_keep(body, used))
            case fun.If(condition, then, otherwise):
                expr = fun.If(condition, _keep(then, used), _keep(otherwise, used))
            case fun.Reduce(_, _, body, operator, neutral):
                used = _closure(operator, used)
                expr = replace(
                    expr, body=_keep(body, used), operator=_keep_operator(operator, used),
                    neutral=_pick(neutral, used),
                )  # fmt: skip
            case fun.Scan(_, body, operator, initial):
                used = _closure(operator, used)
                expr = replace(
                    expr, body=_keep(body, used), operator=_keep_operator(operator, used),
                    initial=_pick(initial, used),
                )  # fmt: skip
            case fun.Scatter(destinations, _, body, operator):
                if operator is not None:
                    used = _closure(operator, used)
                rank = len(body.results) - len(destinations)
                expr = replace(
                    expr, destinations=_pick(destinations, used),
                    body=_keep(body, [*range(rank), *(rank + k for k in used)]),
                    operator=operator and _keep_operator(operator, used),
                )  # fmt: skip
            case _:
                return pattern, expr
        return _pick(pattern, used), expr

    def loop_needs(self, loop: fun.Loop, used: Sequence[int]) -> list[int]:
        """The parameters that the used ones, and the condition, depend on."""
        condition = loop.form.condition if isinstance(loop.form, fun.While) else None
        needed = set(used)
        if condition is not None:
            free = walk.free_names(condition)
            needed |= {k for k, param in enumerate(loop.params) if param.name in free}
        while True:
            free = walk.free_names(_Sweep().body(_keep(loop.body, sorted(needed))))
            for k in needed:
                for size in walk.type_sizes(loop.params[k].type):
                    free |= size.variables()
            more = needed | {k for k, param in enumerate(loop.params) if param.name in free}
            if more == needed:
                return sorted(needed)
            needed = more


def _pick(parts: tuple, used: Sequence[int]) -> tuple:  # type: ignore[type-arg]
    return tuple(parts[k] for k in used)


def _keep(body: fun.Body, used: Sequence[int]) -> fun.Body:
    return fun.Body(body.statements, _pick(body.results, used))


def _closure(operator: fun.Lambda, used: Sequence[int]) -> list[int]:
    """The components that the used ones of an operator depend on."""
    width = len(operator.body.results)
    needed = set(used)
    while True:
        free = walk.free_names(_Sweep().body(_keep(operator.body, sorted(needed))))
        more = needed | {k % width for k, p in enumerate(operator.params) if p.name in free}
        if more == needed:
            return sorted(needed)
        needed = more


def _keep_operator(operator: fun.Lambda, used: Sequence[int]) -> fun.Lambda:
    width = len(operator.body.results)
    params = _pick(operator.params, [*used, *(width + k for k in used)])
    return fun.Lambda(params, _keep(operator.body, used))
