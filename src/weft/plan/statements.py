"""A program as the planner sees it: its top-level statements, what they read, how they cut."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property

import numpy as np

from weft.errors import UnsupportedError
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.plan.calls import cut_call, summed_in_parts
from weft.plan.footprint import Access, Bounds, Intervals, Reads, footprint, unwrapped
from weft.plan.loops import cut_loop, is_counted
from weft.plan.materialise import as_kernel
from weft.plan.pointers import Pointers
from weft.plan.unwrap import unwrap
from weft.records import dataclass
from weft.sizes import Size


@dataclass(frozen=True, slots=True)
class Statement:
    """A top-level statement in the form in which it is cut.

    Attributes
    ----------
    position : int
    original : fun.Let
        As the program has it: what runs uncut.
    let : fun.Let
        What runs cut: layout changes as kernels.
    dims : tuple of str
        For each axis of the results along which boxes can be made, the index variable (for
        a scatter: of its first dimension, since its results are not cut); after those of a
        product's result, that of what it sums.
    extents : tuple of Size
    cuttable : tuple of int
        Those of `dims` along which boxes can be made: not those on which a loop wraps around.
    carried : bool
        Boxes go one after another: a scan along its only dimension, a scatter, a loop whose
        boxes lean; see `carries`.
    """

    position: int
    original: fun.Let
    let: fun.Let
    dims: tuple[str, ...]
    extents: tuple[Size, ...]
    cuttable: tuple[int, ...]
    carried: bool
    reads: Reads
    original_reads: Reads

    @property
    def leans(self) -> bool:
        return self.carried and isinstance(self.let.expr, fun.Loop)

    def carries(self, dim: int) -> bool:
        """Whether boxes along a dimension go one after another."""
        expr = self.let.expr
        return dim == len(expr.space) - 1 if isinstance(expr, fun.Scan) else self.carried

    @property
    def is_scatter(self) -> bool:
        return isinstance(self.let.expr, fun.Scatter)

    def adds_up(self, dim: int) -> bool:
        """Whether boxes along a dimension are of what a library's product sums."""
        if not isinstance(self.let.expr, fun.Call):
            return False
        return dim >= len(walk.type_sizes(self.let.pattern[0].type))

    def gives_whole(self, dim: int) -> bool:
        """Whether each box along a dimension adds to all of the results."""
        return self.is_scatter or self.adds_up(dim)

    @property
    def is_layout(self) -> bool:
        return isinstance(self.original.expr, fun.LAYOUT_CHANGES)

    @property
    def results(self) -> tuple[str, ...]:
        return tuple(var.name for var in self.let.pattern)


class Analysis:
    """The statements of a program, with actual sizes.

    Attributes
    ----------
    sizes : dict of str to int
        Given and derived.
    types : dict of str to fun.Type
        Of every parameter and every top-level variable.
    shapes : dict of str to tuple of int
        Actual shapes, () for scalars.
    producer : dict of str to int
        The statement that binds a variable.
    """

    def __init__(
        self, program: fun.Program, sizes: Mapping[str, int], staged: Collection[str] = (),
        leaning: Collection[str] = (), ends: Mapping[str, str] | None = None,
        pointers: Mapping[str, Pointers] | None = None,
        begins: Mapping[str, tuple[fun.Var, ...]] | None = None, carries_rows: bool = False,
    ) -> None:  # fmt: skip
        """What is known of a program besides its text.

        `staged`: the parameters that are read box by box. `leaning`: results of loops. `ends`:
        arrays that are made in full, not again by each that reads them, and a phrase for each.
        `pointers`: parameters whose elements are known.
        `begins`: what tiles of scans begin with, where it is known (`weft.plan.begun`).
        `carries_rows`: whether scans side by side may be cut along what they scan.
        """
        self.carries_rows = carries_rows
        self.program = program
        self.pointers = pointers or {}
        self.ends = ends or {}
        self.begins = begins or {}
        self.staged = staged
        self.leaning = leaning
        self.names = Names.of(program)
        self.sizes = dict(sizes)
        for derived in program.derived:
            self.sizes[derived.name] = derived.evaluate(self.sizes)
        self.known = dict(self.sizes)  # and scalars that are made of them
        for let in program.body.statements:
            size = let.expr.size if isinstance(let.expr, fun.SizeValue) else None
            if size is not None and size.variables() <= self.sizes.keys():
                self.known[let.pattern[0].name] = size.evaluate(self.sizes)
        variables = [*program.params]
        for let in program.body.statements:
            variables += let.pattern
        self.types = {var.name: var.type for var in variables}
        self.shapes = {name: self._shape(name, type_) for name, type_ in self.types.items()}
        self.arrays = {
            name: type_.rank for name, type_ in self.types.items() if isinstance(type_, fun.Array)
        }
        self._rows = _in_one_row(program)
        self.statements = [
            self._statement(position, let)
            for position, let in enumerate(program.body.statements)
        ]
        self.producer = {
            name: statement.position for statement in self.statements for name in statement.results
        }
        self._begin_names = self.names.copy()
        self._used: dict[tuple[int, bool], frozenset[str]] = {}

    def begin_again(self) -> None:
        """Give the same names as before: for another plan of the same statements."""
        self.names = self._begin_names.copy()

    def used(self, position: int, original: bool = False) -> frozenset[str]:
        """The names that a statement uses, as it is cut, or as the program has it."""
        key = position, original
        if key not in self._used:
            statement = self.statements[position]
            expr = statement.original.expr if original else statement.let.expr
            self._used[key] = walk.used_names(expr)
        return self._used[key]

    def _shape(self, name: str, type_: fun.Type) -> tuple[int, ...]:
        try:
            return tuple(int(n.evaluate(self.sizes)) for n in walk.type_sizes(type_))
        except KeyError:  # most are measured before: see `launch.lengths`
            raise UnsupportedError(
                f"boxes of a program that computes the length of {name}",
                "lengths that are known before", "one device, and memory for all data",
            ) from None

    def _statement(self, position: int, let: fun.Let) -> Statement:
        cut = as_kernel(let, self.names) or let
        is_part = isinstance(let.expr, fun.Slice | fun.Concat)
        cut = unwrap(cut, self.staged, self.sizes, self.names, self._rows, is_part)
        leans = bool(cut.pattern) and cut.pattern[0].name in self.leaning
        dims, cuttable, carried = _cuts(cut, leans, self.sizes, self.carries_rows)
        reads = Reads(cut, self.arrays, leans)
        original = reads if cut is let else Reads(let, self.arrays)
        return Statement(
            position, let, cut, tuple(name for name, _ in dims),
            tuple(extent for _, extent in dims), cuttable, carried, reads, original,
        )  # fmt: skip

    @cached_property
    def free(self) -> frozenset[int]:
        """Statements that cost nothing, so that every stage has its own copy.

        Layout changes, where they are views, scalars computed from sizes and parameters, and
        arrays of which no element matters yet.
        """
        found: set[int] = set()
        for statement in self.statements:
            expr = statement.original.expr
            if statement.is_layout or isinstance(expr, fun.Empty):
                found.add(statement.position)
            elif isinstance(expr, fun.Apply | fun.Cast | fun.SizeValue):
                used = (self.producer.get(name) for name in walk.used_names(expr))
                if all(position is None or position in found for position in used):
                    found.add(statement.position)
        return frozenset(found)

    @cached_property
    def repeats(self) -> bool:
        """Whether many stages may differ in names alone: blocks of rounds, passes of stencils."""
        loops = sum(isinstance(s.let.expr, fun.Loop) for s in self.statements)
        return bool(self.ends) or loops > 1

    def begun(self, statement: Statement) -> tuple[fun.Var, ...]:
        """What tiles of a scan begin with, if that is known before the first of them."""
        return self.begins.get(statement.results[0], ()) if statement.results else ()

    @cached_property
    def params(self) -> frozenset[str]:
        return frozenset(param.name for param in self.program.params)

    def bytes(self, name: str) -> int:
        type_ = self.types[name]
        return type_.dtype.itemsize * int(np.prod(self.shapes[name], dtype=object))

    def extent(self, statement: Statement, dim: int) -> int:
        return int(statement.extents[dim].evaluate(self.sizes))

    def footprints(
        self, statement: Statement, dim: int | None, lower: object = 0, upper: object = 1
    ) -> list[tuple[Access, tuple[Bounds, ...]]]:
        """What boxes of a statement read: `lower <= index < upper` in dimension `dim`.

        `dim` None: the whole statement as the program has it, as one box.
        """
        if dim is None:
            return self._footprints(statement.original_reads, {}, 1)
        low = np.asarray(lower, dtype=np.int64)
        found = self.footprints_in(statement, {dim: (low, np.asarray(upper, dtype=np.int64))})
        if not statement.leans:
            return found
        # The first box begins where the arrays do.
        return [
            (access, ((np.where(low == 0, 0, first), last), *rest))
            for access, ((first, last), *rest) in found
        ]

    def unwrapped(
        self, statement: Statement, dim: int, access: Access, axis: int, bounds: Bounds
    ) -> Bounds | None:
        """What boxes read along an axis that wraps around, as if it went on; None: it does not."""
        if access.boundary[axis] is None:
            return None
        low, high = bounds
        fixed = {statement.dims[dim]: (low, np.maximum(high - 1, low))}
        intervals = Intervals(statement.reads, self.known, fixed, self.pointers)
        return unwrapped(access, intervals, axis, len(low))

    def footprints_in(
        self, statement: Statement, ranges: Mapping[int, Bounds]
    ) -> list[tuple[Access, tuple[Bounds, ...]]]:
        """What boxes of a statement read that have ranges of several of its dimensions."""
        fixed = {
            statement.dims[dim]: (low, np.maximum(high - 1, low))
            for dim, (low, high) in ranges.items()
        }
        boxes = len(next(iter(ranges.values()))[0])
        return self._footprints(statement.reads, fixed, boxes)

    def _footprints(
        self, reads: Reads, fixed: Mapping[str, Bounds], boxes: int
    ) -> list[tuple[Access, tuple[Bounds, ...]]]:
        intervals = Intervals(reads, self.known, fixed, self.pointers)
        return [
            (access, footprint(access, intervals, self.shapes[access.array], boxes))
            for access in reads.accesses
        ]


def _in_one_row(program: fun.Program) -> dict[str, fun.Var]:
    """The parameters that statements show with all elements in one row, by what they call that."""
    params = {param.name for param in program.params}
    return {
        let.pattern[0].name: let.expr.array
        for let in program.body.statements
        if isinstance(let.expr, fun.Reshape)
        and isinstance(let.expr.array, fun.Var)
        and let.expr.array.name in params
        and len(let.expr.shape) == 1
    }


def _cuts(
    let: fun.Let, leans: bool, sizes: Mapping[str, int], carries_rows: bool
) -> tuple[tuple[tuple[str, Size], ...], tuple[int, ...], bool]:
    """The index variables of a statement with their extents; those along which it can be cut.

    And whether its boxes must go one after another.
    """
    dims: tuple[tuple[str, Size], ...] = ()
    ranges: tuple[fun.Range, ...] = ()
    carried = False
    match let.expr:
        case fun.Kernel() | fun.Reduce():
            ranges = walk.kept(let.expr)
        case fun.Scan(space):
            carried = len(space) == 1
            ranges = space if carried or carries_rows else walk.kept(let.expr)
        case fun.Scatter(_, space):
            ranges, carried = space[:1], True
        case fun.Call():
            cut = cut_call(let)
            if cut is not None:
                summed = summed_in_parts(let, cut, sizes)
                dims = (*cut.axes, *((summed,) if summed else ()))
        case fun.Loop():
            rounds = cut_loop(let, leans)
            if rounds is None or not is_counted(rounds.stencil, sizes):
                return (), (), leans
            return rounds.axes, rounds.cuts, leans
    dims = dims or tuple((dim.index.name, dim.extent) for dim in ranges)
    return dims, tuple(range(len(dims))), carried
