"""A draft as a stage: a program of its own, on windows of arrays.

    let y = kernel (i < n, j < m) { x[i-1, j] + x[i+1, j] }
=>  let y : [hi - lo, m] = kernel (i < hi - lo, j < m) { x'[i + lo - 1 - w, j] + ... }

where x' is the window of x from row w on, and lo, hi, w are size variables whose names begin
with "box". Every index inside a statement stays the one of the whole program (i becomes
i + lo); only where an array is read is the window's beginning subtracted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, derive
from weft.fun.leaning import turns_of
from weft.ops.dtypes import DType
from weft.ops.runs import MERGES
from weft.plan import carry
from weft.plan import draft as drafts
from weft.plan.calls import cut_call, terms_of_block
from weft.plan.draft import Draft, ReadKey
from weft.plan.leaning import flank_types, leaning_on_box, rows_of_box
from weft.plan.loops import CutLoop, cut_loop, loop_on_box
from weft.plan.narrow import (
    bind_first,
    pruned,
    read_part,
    windowed_var,
    with_extent,
    with_reads,
)
from weft.plan.nodes import Flank, Output, Stage
from weft.plan.open_windows import Place, Windows, is_view
from weft.plan.statements import Analysis, Statement
from weft.records import dataclass
from weft.sizes import ZERO, Derived, Poly, Size, as_poly
from weft.sizes.facts import Fact, SizeOperation

_I64 = fun.Scalar(DType.I64)


@dataclass
class Windowed:
    """A stage, and how its size variables follow from the ranges of its draft.

    Attributes
    ----------
    reads : dict of str to list of ReadKey
        For each window that is cut, the reads that it must cover.
    ranges : dict of int to (str, str)
        For each member the size variables of its range.
    constants : dict of str to ndarray or scalar
        What carries begin with, where that is a constant.
    fixed : dict of str to int
        Size variables that are the same for every box.
    tiles : dict of str to (str, str)
        Size variables that count the full scan tiles of a range.
    """

    stage: Stage
    reads: dict[str, list[ReadKey]]
    ranges: dict[int, tuple[str, str]]
    constants: dict[str, Any] = field(default_factory=dict)
    fixed: dict[str, int] = field(default_factory=dict)
    tiles: dict[str, tuple[str, str]] = field(default_factory=dict)


def window(draft: Draft, needed: Collection[str], reason: str = "") -> Windowed:
    """The stage of a draft that gives the arrays and scalars of `needed`."""
    return _Windower(draft, needed).stage(reason)


def window_uncut(
    analysis: Analysis, positions: Sequence[int], needed: Collection[str], reason: str = ""
) -> Windowed:
    """The stage that runs statements whole, as one box, in the form the program has them.

    Of a parameter of which only a part is read (`x[5:10]`), it takes the window.
    """
    return _Windower(Draft(analysis), needed).uncut_stage(positions, reason)


class _Windower:
    def __init__(self, draft: Draft, needed: Collection[str]) -> None:
        self.draft = draft
        self.analysis = draft.analysis
        self.names = draft.analysis.names
        self.needed = needed
        self.ranges: dict[int, tuple[str, str]] = {}
        self.boxes: list[str] = []
        self.windows = Windows(draft.analysis, self._box)
        self.places = self.windows.places
        self.whole = self.windows.whole
        self.derived: list[Derived] = []
        self.carries: list[tuple[fun.Var, str]] = []
        self.flanks: list[tuple[fun.Var, Flank]] = []
        self.constants: dict[str, Any] = {}
        self.tiles: dict[str, tuple[str, str]] = {}
        self.statements: list[fun.Let] = []
        self.results: list[tuple[fun.Atom, Output]] = []

    def stage(self, reason: str) -> Windowed:
        draft, program = self.draft, self.analysis.program
        for position in sorted(draft.members):
            label = self.analysis.statements[position].results[0]
            self.ranges[position] = self._box(f"{label}_lower"), self._box(f"{label}_upper")
        self.windows.of_boxes(draft, self.needed)
        for position in sorted(draft.prelude):
            self.statements.append(self.analysis.statements[position].original)
        for position in sorted(draft.members):
            self._member(self.analysis.statements[position], draft.members[position])
        body = fun.Body(tuple(self.statements), tuple(atom for atom, _ in self.results))
        params = [var for var, _ in self.windows.opened] + [var for var, _ in self.carries]
        params += [var for var, _ in self.flanks]
        staged = fun.Program(
            program.name, tuple(params), body, program.sizes + tuple(self.boxes),
            (*program.derived, *self.derived), (*program.facts, *self._facts()),
        )  # fmt: skip
        stage = Stage(
            staged,
            tuple(window for _, window in self.windows.opened),
            tuple((var.name, begin) for var, begin in self.carries),
            tuple(output for _, output in self.results),
            tuple(
                (self.analysis.statements[position].results[0], *bounds)
                for position, bounds in self.ranges.items()
            ),
            reason,
            tuple(flank for _, flank in self.flanks),
        )
        return Windowed(
            stage, self.windows.reads, self.ranges, self.constants, self.windows.fixed, self.tiles
        )

    def _facts(self) -> Iterator[Fact]:
        """Boxes are parts of what there is."""
        for position, (lower, upper) in self.ranges.items():
            dim = self.draft.members[position]
            extent = self.analysis.statements[position].extents[dim]
            yield Fact(">=0", Poly.var(upper) - Poly.var(lower))
            yield Fact(">=0", extent - Poly.var(upper))

    def uncut_stage(self, positions: Sequence[int], reason: str) -> Windowed:
        analysis, program = self.analysis, self.analysis.program
        self.windows.of_statements(positions)
        for position in positions:
            let = analysis.statements[position].original
            self.statements.append(
                fun.Let(let.pattern, self._rewrite(position, let.expr), let.place)
            )
            for var in let.pattern:
                if var.name in self.needed:
                    self.results.append((var, Output(var.name)))
        body = fun.Body(tuple(self.statements), tuple(atom for atom, _ in self.results))
        params = tuple(var for var, _ in self.windows.opened)
        sizes = program.sizes + tuple(self.boxes)
        staged = fun.Program(program.name, params, body, sizes, program.derived, program.facts)
        windows = tuple(window for _, window in self.windows.opened)
        outputs = tuple(output for _, output in self.results)
        stage = Stage(staged, windows, (), outputs, (), reason)
        return Windowed(stage, {}, {}, fixed=self.windows.fixed)

    def _box(self, label: str) -> str:
        name = self.names.fresh(f"box_{label}")
        self.boxes.append(name)
        return name

    # ------------------------------------------------------------ one statement

    def _member(self, statement: Statement, dim: int) -> None:
        lower, upper = map(Poly.var, self.ranges[statement.position])
        extent = upper - lower
        index = statement.dims[dim]
        expr: fun.Expr
        if isinstance(statement.let.expr, fun.Loop):
            self._loop(statement, dim, lower, upper)
            return
        if is_view(self.draft, self.needed, statement):
            self._view(statement, dim, lower, extent)
            return
        if isinstance(statement.let.expr, fun.Call):
            expr = self._call(statement, statement.let.expr, dim, lower, extent)
        else:
            rewritten = self._rewrite(statement.position, statement.let.expr)
            shifted = fun.Var(self.names.fresh(index), _I64)
            moved = walk.Substitution({index: shifted}, {index: Poly.var(index) + lower})
            expr = with_extent(moved.expr(rewritten), dim, extent)
            expr = bind_first(expr, shifted, Poly.var(index) + lower)
        pattern = statement.let.pattern
        if not statement.gives_whole(dim):
            pattern = tuple(windowed_var(var, dim, extent) for var in pattern)
            self._found({var.name: var for var in pattern}, dim, lower)
        kept = [var.name in self.needed or self._read_inside(var.name) for var in pattern]
        if isinstance(expr, fun.Kernel) and not all(kept):
            pattern = tuple(var for var, keep in zip(pattern, kept, strict=True) if keep)
            expr = pruned(expr, kept)
        if statement.carries(dim) or statement.gives_whole(dim):
            expr = self._carried(statement, expr, pattern)
        else:
            self.statements.append(fun.Let(pattern, expr, statement.let.place))
        if not statement.gives_whole(dim):
            self._give(statement, dim, {var.name: var for var in pattern})

    def _found(self, results: dict[str, fun.Var], dim: int, lower: Size) -> None:
        """Later members read these results, which begin at `lower`."""
        for key, axis in self.draft.axes.items():
            if key[1] in results and axis == dim:
                self.places[key] = Place(results[key[1]], dim, lower)

    def _give(self, statement: Statement, dim: int, found: dict[str, fun.Var]) -> None:
        """What of a target's results is needed is a result of the stage."""
        if statement.position in self.draft.targets:
            names = self.ranges[statement.position]
            for name, var in found.items():
                if name in self.needed:
                    self.results.append((var, Output(name, dim, *names)))

    def _loop(self, statement: Statement, dim: int, lower: Size, upper: Size) -> None:
        """An iterated stencil on a box: its rounds on a window with a margin."""
        cut = cut_loop(statement.let, statement.leans)
        assert cut is not None
        loop = self._rewrite(statement.position, statement.let.expr)
        assert isinstance(loop, fun.Loop)
        found = []
        for number, (array, _) in enumerate(cut.reads):
            place = self.places.get((statement.position, array.name, number))
            var = self.whole.get(array.name, array) if place is None else place.var
            found.append((var, ZERO if place is None else place.lower))
        if statement.leans:
            results = self._leaning(statement, loop, cut, found, (lower, upper))
            self._found(results, dim, lower)
            self._give(statement, dim, results)
            return
        margin, extent = cut.margins[dim], cut.stencil.shape[dim]
        low, high = lower, upper
        if margin != ZERO:
            low = self._derive("max", lower - margin, ZERO, "low")
            high = self._derive("min", upper + margin, extent, "high")
        only = self.places.get((statement.position, cut.reads[0][0].name, 0))
        if len(cut.reads) == 1 and only is not None and only.axis == dim:
            # The window of the only array has what the box needs, or more: it is read as it is.
            low, high = only.lower, only.lower + walk.type_sizes(only.var.type)[dim]
        builder = Builder(self.names)
        builder.place = statement.let.place
        made = loop_on_box(loop, cut, dim, found, (low, high), (lower, upper), builder)
        self.statements += builder.statements
        results = dict(zip(statement.results, made, strict=True))
        self._found(results, dim, lower)
        self._give(statement, dim, results)

    def _leaning(
        self, statement: Statement, loop: fun.Loop, cut: CutLoop,
        found: list[tuple[fun.Var, Size]], bounds: tuple[Size, Size],
    ) -> dict[str, fun.Var]:  # fmt: skip
        """An iterated stencil on a box that leans, with flanks that go from box to box."""
        turns = turns_of(loop)
        assert turns is not None
        sizes = self.analysis.sizes
        rows = rows_of_box(cut, bounds, self._derive)
        fits = cut.margins[0] + cut.stencil.radius[0]
        count = int(min(fits.evaluate(sizes), cut.stencil.shape[0].evaluate(sizes)))
        flanks = []
        for type_ in flank_types(loop, turns, rows.flank):
            var = fun.Var(self.names.fresh("flank"), type_)
            shape = (count, *(int(n.evaluate(sizes)) for n in type_.shape[1:]))
            self.flanks.append((var, Flank(var.name, shape, type_.dtype.numpy)))
            flanks.append(var)
        together = as_poly(turns.rounds)
        often = self._derive("floordiv", cut.stencil.rounds, together, "rounds")
        left = int(cut.stencil.rounds.evaluate(sizes)) % turns.rounds
        builder = Builder(self.names)
        builder.place = statement.let.place
        made, left_ = leaning_on_box(loop, cut, rows, found, flanks, (often, left), builder)
        self.statements += builder.statements
        for var, flank in zip(left_, flanks, strict=True):
            self.results.append((var, Output("", carry=flank.name)))
        return dict(zip(statement.results, made, strict=True))

    def _derive(self, operation: SizeOperation, left: Size, right: Size, base: str) -> Size:
        return derive(self.derived, self.names, operation, left, right, base)

    def _call(
        self, statement: Statement, call: fun.Call, dim: int, lower: Size, extent: Size
    ) -> fun.Call:
        """The call on the parts of its arguments that go with `lower` and `extent`."""
        cut = cut_call(statement.let)
        assert cut is not None
        along = Poly.var(statement.dims[dim])
        arguments: list[fun.Atom] = []
        for number, atom in enumerate(call.arguments):
            name = atom.name if isinstance(atom, fun.Var) else ""
            place = self.places.get((statement.position, name, number))
            if place is not None and place.axis is not None:
                array, axis, start = place.var, place.axis, lower - place.lower
            elif isinstance(atom, fun.Var) and (along, along) in cut.reads[number]:
                array = self.whole.get(name, atom)
                axis, start = cut.reads[number].index((along, along)), lower
            else:
                arguments.append(self._atom(atom))
                continue
            arguments.append(self._part(name, array, axis, start, extent))
        type_ = statement.let.pattern[0].type
        if call.routine in MERGES and dim == len(walk.type_sizes(type_)) - 1:
            first = fun.Var(self.names.fresh("rank"), _I64)
            self.statements.append(fun.Let((first,), fun.SizeValue(lower)))
            return replace(call, arguments=(*arguments[:-1], first), extents=(extent,))
        return replace(call, arguments=tuple(arguments))

    def _part(
        self, base: str, array: fun.Var, axis: int, start: Size, extent: Size
    ) -> fun.Var:
        """A part of an array along one axis."""
        assert isinstance(array.type, fun.Array)
        dims = [fun.Span(ZERO, n) for n in array.type.shape]
        dims[axis] = fun.Span(start, extent)
        part = windowed_var(fun.Var(self.names.fresh(base), array.type), axis, extent)
        self.statements.append(fun.Let((part,), fun.Slice(array, tuple(dims))))
        return part

    def _view(self, statement: Statement, dim: int, lower: Size, extent: Size) -> None:
        """An array with its axes in another order, of a part of what it shows."""
        permute = statement.original.expr
        assert isinstance(permute, fun.Permute)
        (access,) = statement.reads.accesses
        place = self.places.get((statement.position, access.array, access.node))
        array, axis = permute.array, permute.axes[dim]
        start = lower
        if place is not None:
            array = place.var
            start = lower - place.lower if place.axis == axis else lower
        else:
            atom = self._atom(array)
            assert isinstance(atom, fun.Var)
            array = atom
        part = self._part(array.name, array, axis, start, extent)
        pattern = tuple(windowed_var(var, dim, extent) for var in statement.let.pattern)
        view = replace(permute, array=part)
        self.statements.append(fun.Let(pattern, view, statement.let.place))
        self._found({var.name: var for var in pattern}, dim, lower)

    def _read_inside(self, name: str) -> bool:
        return any(key[1] == name for key in self.draft.axes)

    def _rewrite(self, position: int, expr: fun.Expr) -> fun.Expr:
        """The expression with its reads of top-level arrays turned to windows."""

        def read(expr: fun.Index | fun.Slice) -> fun.Expr | None:
            place = self.places.get((position, expr.array.name, expr))
            if place is None or place.axis is None:
                return None
            return read_part(expr, place.var, place.lowers)

        return with_reads(expr, read, self._atom)

    def _atom(self, atom: fun.Atom) -> fun.Atom:
        return self.whole.get(atom.name, atom) if isinstance(atom, fun.Var) else atom

    # ------------------------------------------------------------ carries

    def _carry(self, begin: fun.Atom, type_: fun.Type) -> fun.Var:
        var = fun.Var(self.names.fresh("carry"), type_)
        if isinstance(begin, fun.Const):
            name = self.names.fresh("constant")
            shape = [int(n.evaluate(self.analysis.sizes)) for n in walk.type_sizes(type_)]
            value = begin.dtype.numpy.type(begin.value)
            self.constants[name] = np.broadcast_to(value, shape) if shape else value
        else:
            name = begin.name
        self.carries.append((var, name))
        return var

    def _carried_row(self, begin: fun.Atom, type_: fun.Array) -> fun.Var:
        """What scans side by side hand on to the next box: before the first, all the same."""
        var = fun.Var(self.names.fresh("carry"), type_)
        if isinstance(begin, fun.Const):
            name = self.names.fresh("constant")
            self.constants[name] = begin.dtype.numpy.type(begin.value)
        else:
            name = begin.name
        shape = tuple(int(n.evaluate(self.analysis.sizes)) for n in type_.shape)
        self.flanks.append((var, Flank(var.name, shape, type_.dtype.numpy, name)))
        return var

    def _carried(
        self, statement: Statement, expr: fun.Expr, pattern: tuple[fun.Var, ...]
    ) -> fun.Expr:
        place = statement.let.place
        match statement.let.expr, expr:
            case fun.Scatter(destinations), fun.Scatter():
                carries = tuple(self._carry(d, d.type) for d in destinations)
                expr = replace(expr, destinations=carries)
                self.statements.append(fun.Let(pattern, expr, place))
                for var, into in zip(pattern, carries, strict=True):
                    self.results.append((var, Output(var.name, carry=into.name)))
            case fun.Call(), fun.Call():
                (into,) = map(self._carry, (fun.Const(0, pattern[0].type.dtype),),
                              (pattern[0].type,))  # fmt: skip
                block = terms_of_block(statement.let, self.analysis.sizes)
                options = (("block", block),)
                expr = fun.Call("add_product", (into, *expr.arguments), options)
                self.statements.append(fun.Let(pattern, expr, place))
                self.results.append((pattern[0], Output(pattern[0].name, carry=into.name)))
            case fun.Scan(), fun.Scan() if self.analysis.begun(statement):
                expr = replace(expr, initial=self._begun(statement))
                self.statements.append(fun.Let(pattern, expr, place))
            case fun.Scan(_, _, _, initial), fun.Scan():
                outer = tuple(r.extent for r in expr.space[:-1])
                carries = tuple(
                    self._carried_row(atom, fun.Array(var.type.dtype, outer)) if outer
                    else self._carry(atom, fun.Scalar(var.type.dtype))
                    for atom, var in zip(initial, pattern, strict=True)
                )  # fmt: skip
                expr = replace(expr, initial=carries)
                self.statements.append(fun.Let(pattern, expr, place))
                tiles: Size = ZERO
                if carry.order(expr) == "streams":
                    name = self._box(f"{pattern[0].name}_tiles")
                    self.tiles[name] = self.ranges[statement.position]
                    tiles = Poly.var(name)
                given, out = carry.carry_out(expr, pattern, carries, tiles, self.names, place)
                self.statements += given
                for var, into in zip(out, carries, strict=True):
                    self.results.append((var, Output("" if outer else var.name, carry=into.name)))
            case _:
                raise AssertionError(f"{statement.results} is not carried")
        return expr

    def _begun(self, statement: Statement) -> tuple[fun.Var, ...]:
        """What the first tile of a box begins with."""
        lower = Poly.var(self.ranges[statement.position][0])
        tile = self._derive("floordiv", lower, as_poly(drafts.SCAN_TILE), "tile")
        builder = Builder(self.names)
        found = tuple(
            builder.let(fun.Index(self.whole[array.name], (tile,)),
                        fun.Scalar(array.type.dtype), "carry")
            for array in self.analysis.begun(statement)
        )  # fmt: skip
        self.statements += builder.statements
        return found
