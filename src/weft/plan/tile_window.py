"""A tiling as a stage: a program of its own, on parts of arrays along several axes.

    let c = kernel (i < n, j < m) { a[i] * b[j] }
=>  let c : [i1 - i0, j1 - j0] = kernel (i < i1 - i0, j < j1 - j0) { a'[i + i0 - a0] * ... }

as `weft.plan.window` makes it along one axis. Axes of which every tile has all stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from weft.fun import nodes as fun
from weft.fun import walk
from weft.ops.dtypes import DType
from weft.plan.draft import ReadKey
from weft.plan.narrow import (
    bind_first,
    pruned,
    read_part,
    windowed_var,
    with_extent,
    with_reads,
)
from weft.plan.nodes import Cut, Output, Stage, Window
from weft.plan.statements import Statement
from weft.plan.tiles import Reached, Tiling
from weft.plan.window import Windowed
from weft.records import dataclass
from weft.sizes import Poly, Size
from weft.sizes.facts import Fact


@dataclass(frozen=True, slots=True)
class _Part:
    """A variable that has a part of an array, and where that begins along its axes."""

    var: fun.Var
    lowers: Mapping[int, Size]


def window_tiles(
    tiling: Tiling, reached: Reached, needed: Collection[str], reason: str
) -> tuple[Windowed, dict[str, tuple[int, int]]]:
    """The stage of tiles that reach so far, giving the arrays of `needed`.

    Returns
    -------
    Windowed
    dict of str to (int, int)
        What its size variables stand for: an operand, or -1 - position of a statement, and
        an axis.
    """
    return _Windower(tiling, reached, needed).stage(reason)


class _Windower:
    def __init__(self, tiling: Tiling, reached: Reached, needed: Collection[str]) -> None:
        self.tiling = tiling
        self.analysis = tiling.draft.analysis
        self.reached = reached
        self.needed = needed
        self.names = self.analysis.names
        self.sizes: dict[str, tuple[int, int]] = {}
        self.parts: dict[ReadKey, _Part] = {}
        self.whole: dict[str, fun.Var] = {}
        self.facts: list[Fact] = []

    def stage(self, reason: str) -> tuple[Windowed, dict[str, tuple[int, int]]]:
        draft, program = self.tiling.draft, self.analysis.program
        opened = [self._open(number) for number in range(len(self.tiling.operands))]
        for name in draft.whole:
            if name not in self.analysis.arrays or not self.analysis.shapes[name]:
                opened.append((fun.Var(name, self.analysis.types[name]), Window(name, name)))
        lets = [self.analysis.statements[position].original for position in sorted(draft.prelude)]
        outputs: list[tuple[fun.Var, Output]] = []
        ranges: list[tuple[str, str, str]] = []
        for position in sorted(draft.members):
            let, cuts = self._member(self.analysis.statements[position])
            lets.append(let)
            ranges += [(let.pattern[0].name, low, high) for _, low, high in cuts]
            if position == self.tiling.target:
                for var in let.pattern:
                    if var.name in self.needed:
                        axis, low, high = cuts[0]
                        output = Output(var.name, axis, low, high, more=cuts[1:])
                        outputs.append((var, output))
        made = fun.Program(
            program.name, tuple(var for var, _ in opened),
            fun.Body(tuple(lets), tuple(var for var, _ in outputs)),
            program.sizes + tuple(self.sizes), program.derived, (*program.facts, *self.facts),
        )  # fmt: skip
        windows, results = tuple(w for _, w in opened), tuple(o for _, o in outputs)
        stage = Stage(made, windows, (), results, tuple(ranges), reason)
        return Windowed(stage, {}, {}), self.sizes

    def _cuts(self, label: str, number: int, axes: Collection[int]) -> tuple[Cut, ...]:
        cuts = []
        for axis in axes:
            ends = [self.names.fresh(f"box_{label}_{end}") for end in ("from", "to")]
            self.sizes[ends[0]] = self.sizes[ends[1]] = number, axis
            cuts.append((axis, *ends))
        return tuple(cuts)  # type: ignore[arg-type]

    def _open(self, number: int) -> tuple[fun.Var, Window]:
        """The parameter of an operand."""
        operand = self.tiling.operands[number]
        axes = self.tiling.cut_axes(operand.array, self.reached.read[number])
        cuts = self._cuts(operand.array, number, axes)
        taken = {part.var.name for part in self.parts.values()}
        clash = operand.array in taken or self._is_made_here(operand.array)
        name = self.names.fresh(operand.array) if clash else operand.array
        var = _part_of(fun.Var(name, self.analysis.types[operand.array]), cuts)
        part = _Part(var, {axis: Poly.var(low) for axis, low, _ in cuts})
        self.parts.update((key, part) for key in operand.keys)
        if not cuts:
            self.whole[operand.array] = var
            return var, Window(name, operand.array)
        (axis, low, high), *more = cuts
        return var, Window(name, operand.array, axis, low, high, tuple(more))

    def _is_made_here(self, array: str) -> bool:
        draft = self.tiling.draft
        return self.analysis.producer.get(array) in (*draft.members, *draft.prelude)

    def _member(self, statement: Statement) -> tuple[fun.Let, tuple[Cut, ...]]:
        """A statement for the ranges that tiles have of it."""
        position, results = statement.position, statement.let.pattern
        axes = self.tiling.cut_axes(results[0].name, self.reached.computed[position])
        cuts = self._cuts(results[0].name, -1 - position, axes)
        expr = with_reads(
            statement.let.expr, lambda read: self._read(position, read), self._atom
        )
        for axis, low, high in cuts:
            lower, extent = Poly.var(low), Poly.var(high) - Poly.var(low)
            index = statement.dims[axis]
            moved = fun.Var(self.names.fresh(index), fun.Scalar(DType.I64))
            place = Poly.var(index) + lower
            expr = walk.Substitution({index: moved}, {index: place}).expr(expr)
            expr = bind_first(with_extent(expr, axis, extent), moved, place)
            whole = statement.extents[axis]
            self.facts += [Fact(">=0", extent), Fact(">=0", whole - Poly.var(high))]
        pattern = tuple(_part_of(var, cuts) for var in results)
        lowers = {axis: Poly.var(low) for axis, low, _ in cuts}
        parts = {var.name: _Part(var, lowers) for var in pattern}
        later = {key for key in self._read_inside if key[1] in parts}
        self.parts.update((key, parts[key[1]]) for key in later)
        kept = [var.name in self.needed or var.name in {k[1] for k in later} for var in pattern]
        if isinstance(expr, fun.Kernel) and not all(kept):
            pattern = tuple(var for var, keep in zip(pattern, kept, strict=True) if keep)
            expr = pruned(expr, kept)
        return fun.Let(pattern, expr, statement.let.place), cuts

    @property
    def _read_inside(self) -> Collection[ReadKey]:
        """The reads of what the stage makes itself."""
        draft = self.tiling.draft
        return [
            (position, access.array, access.node)
            for position in draft.members
            for access in self.analysis.statements[position].reads.accesses
            if self.analysis.producer.get(access.array) in draft.members
        ]

    def _read(self, position: int, read: fun.Index | fun.Slice) -> fun.Expr | None:
        part = self.parts.get((position, read.array.name, read))
        return None if part is None else read_part(read, part.var, part.lowers)

    def _atom(self, atom: fun.Atom) -> fun.Atom:
        return self.whole.get(atom.name, atom) if isinstance(atom, fun.Var) else atom


def _part_of(var: fun.Var, cuts: tuple[Cut, ...]) -> fun.Var:
    for axis, low, high in cuts:
        var = windowed_var(var, axis, Poly.var(high) - Poly.var(low))
    return var


