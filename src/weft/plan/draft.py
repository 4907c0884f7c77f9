"""Drafts: which statements of a program run together box by box, and on which ranges.

A draft begins with a *target*, a statement whose results must exist in full, cut along one
of its dimensions. Statements whose results it reads locally (a box of the target needs a
window of them) become members of the draft and are computed with it, on windows as large
as the footprints ask; what it needs whole comes from earlier stages. Drafts that read the
same arrays in step are merged, so that the arrays move once.

Boxes are ranges of a *coordinate*; each target's index is the coordinate divided by its
scale (the tile size, where an index of the statement stands for a tile of elements).
"""

from __future__ import annotations

import math
from dataclasses import field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.fun import nodes as fun
from weft.fun.columns import scans_columns
from weft.plan.calls import unit_of
from weft.plan.footprint import Access, Bounds
from weft.plan.loops import cut_loop
from weft.plan.statements import Analysis, Statement
from weft.records import dataclass

SCAN_TILE = 65536  # elements of a scanned dimension, to which boxes are aligned

_LONG_BOXES = 8  # that see which axis of an array they read least of
NOWHERE = np.iinfo(np.int64).max
ReadKey = tuple[int, str, Any]  # statement, array, the expression that reads
WindowKey = tuple[str, int]  # array, axis


@dataclass(frozen=True, slots=True)
class Ranges:
    """Numbers for a sequence of boxes.

    Attributes
    ----------
    computed : dict of int to (lower, upper)
        The range of each member's cut index.
    owned : dict of int to (lower, upper)
        For each target, its share of that range: shares are disjoint and cover it all.
    reads : dict of ReadKey to (lower, upper)
        Along the axis by which each read is cut.
    unwrapped : dict of ReadKey to (lower, upper)
        As if the axis went on, of reads that wrap around it: they may be of its ends alone.
    """

    computed: dict[int, Bounds]
    owned: dict[int, Bounds]
    reads: dict[ReadKey, Bounds]
    unwrapped: dict[ReadKey, Bounds] = field(default_factory=dict)


@dataclass
class Draft:
    """A stage in the making.

    Attributes
    ----------
    targets : dict of int to Fraction
        Scales: coordinate units for one step of the target's cut index.
    members : dict of int to int
        Every statement of the stage, targets included, with its cut dimension.
    axes : dict of ReadKey to int
        For each read that is cut, the axis of the array.
    whole : dict of str to reading statement
        Arrays and scalars needed in full.
    slopes : dict of WindowKey to Fraction
        Elements along an axis of an array for one coordinate unit.
    prelude : set of int
        Statements that compute scalars first.
    """

    analysis: Analysis
    targets: dict[int, Fraction] = field(default_factory=dict)
    members: dict[int, int] = field(default_factory=dict)
    axes: dict[ReadKey, int] = field(default_factory=dict)
    whole: dict[str, int] = field(default_factory=dict)
    slopes: dict[WindowKey, Fraction] = field(default_factory=dict)
    prelude: set[int] = field(default_factory=set)

    @property
    def total(self) -> int:
        """How long the coordinate is."""
        extents = {
            p: self.analysis.extent(self.statement(p), self.members[p]) for p in self.targets
        }
        return max(math.ceil(extents[p] * scale) for p, scale in self.targets.items())

    @property
    def earlier(self) -> set[str]:
        """What earlier stages must have made: arrays and scalars."""
        producer = self.analysis.producer
        parts = {key[1] for key in self.axes if producer.get(key[1]) not in self.members}
        return (parts | self.whole.keys()) & producer.keys()

    def statement(self, position: int) -> Statement:
        return self.analysis.statements[position]

    def unit(self) -> int:
        """What box bounds must be multiples of, for every target to have whole indices."""
        unit = 1
        for scale in self.targets.values():
            unit = math.lcm(unit, int(scale))
        for position, dim in self.members.items():
            statement = self.statement(position)
            if isinstance(statement.let.expr, fun.Scan) and statement.carries(dim):
                whole = 1 if scans_columns(statement.let.expr) else SCAN_TILE
                unit = math.lcm(unit, whole * int(self._scale_of(position)))
            elif isinstance(statement.let.expr, fun.Call):
                whole = unit_of(statement.let, dim, self.analysis.sizes)
                if whole > 1:
                    unit = math.lcm(unit, whole * int(self._scale_of(position)))
        return unit

    def shortest(self) -> tuple[int, int]:
        """How long the first and the last of several boxes are, at least: some lean."""
        first = last = 0
        for position in self.members:
            statement = self.statement(position)
            cut = cut_loop(statement.let, leans=True) if statement.leans else None
            if cut is not None:
                scale = self._scale_of(position)
                lean = int(cut.margins[0].evaluate(self.analysis.sizes))
                first = max(first, math.ceil(cut.stencil.radius[0] * scale))
                last = max(last, math.ceil(lean * scale))
        return first, last

    def _scale_of(self, position: int) -> Fraction:
        return self.targets.get(position, next(iter(self.targets.values())))

    def evaluate(self, starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]) -> Ranges:
        """The ranges of all members for boxes `start <= coordinate < stop`."""
        analysis, total = self.analysis, self.total
        found = Ranges({}, {}, {})
        needed: dict[int, Bounds] = {}
        nothing = np.full(len(starts), NOWHERE), np.full(len(starts), -1)
        for position in sorted(self.members, reverse=True):
            statement, dim = self.statement(position), self.members[position]
            low, high = needed.get(position, nothing)
            scale = self.targets.get(position)
            if scale is not None:
                share = _share(starts, stops, total, scale, analysis.extent(statement, dim))
                found.owned[position] = share
                low, high = join((low, high), share)
            empty = low >= high
            low, high = np.where(empty, 0, low), np.where(empty, 0, high)
            found.computed[position] = low, high
            for access, bounds in analysis.footprints(statement, dim, low, high):
                key = position, access.array, access.node
                axis = self.axes.get(key)
                if axis is None:
                    continue
                lower, upper = bounds[axis]
                none = empty | (lower >= upper)
                read = np.where(none, NOWHERE, lower), np.where(none, -1, upper)
                found.reads[key] = read
                beyond = analysis.unwrapped(statement, dim, access, axis, (low, high))
                if beyond is not None:
                    first, last = beyond
                    found.unwrapped[key] = (
                        np.where(none, NOWHERE, first), np.where(none, -1, last),
                    )  # fmt: skip
                producer = analysis.producer.get(access.array)
                if producer is not None and producer in self.members:
                    needed[producer] = join(needed.get(producer, nothing), read)
        return found

    # ------------------------------------------------------------ growing

    @staticmethod
    def of(analysis: Analysis, target: Statement, dim: int, resident: set[int]) -> Draft:
        """The draft of one target; `resident` statements are not computed in it."""
        draft = Draft(analysis, {target.position: Fraction(1)}, {target.position: dim})
        exact = {target.position}  # members computed on the target's own range alone
        pending = {target.position}
        while pending:
            position = max(pending)  # readers come after what they read
            pending.remove(position)
            for producer in draft._follow(position, exact, resident):
                pending.add(producer)
        draft._measure_slopes(target.position)
        return draft

    def _follow(self, position: int, exact: set[int], resident: set[int]) -> list[int]:
        """Decide for each read of a member whether it is local; the new members."""
        analysis, statement = self.analysis, self.statement(position)
        dim = self.members[position]
        for name in sorted(analysis.used(position)):
            if isinstance(analysis.types.get(name), fun.Scalar):
                self._need_scalar(name, position)
        if isinstance(statement.let.expr, fun.Scan) and statement.carries(dim):
            for atom in analysis.begun(statement) or statement.let.expr.initial:
                if isinstance(atom, fun.Var):  # the carry begins as a value in memory
                    self.whole.setdefault(atom.name, position)
        probes = _probes(analysis.extent(statement, dim))
        new = []
        for access, bounds in analysis.footprints(statement, dim, probes, probes + 1):
            name = access.array
            axis = self._narrow_axis(statement, dim, access, bounds)
            producer = analysis.producer.get(name)
            if producer is None and axis is not None:
                self.axes[position, name, access.node] = axis
                continue
            local = (
                axis is not None
                and producer is not None
                and producer not in resident
                and self._joins(producer, axis, statement)
            )
            if not local:
                again = producer is not None and self._repeat_both(producer, statement)
                if axis is not None and (again or name in analysis.ends):
                    self.axes[position, name, access.node] = axis
                else:
                    self.whole.setdefault(name, position)
                continue
            assert axis is not None
            assert producer is not None
            lower, upper = bounds[axis]
            identity = (lower == probes).all() and (upper == probes + 1).all()
            source = analysis.statements[producer]
            if position in exact and identity and producer not in self.members:
                exact.add(producer)
            elif not (position in exact and identity):
                if source.carries(axis):  # it must run exactly once on each element
                    self.whole.setdefault(name, position)
                    continue
                exact.discard(producer)
            self.axes[position, name, access.node] = axis
            if producer not in self.members:
                self.members[producer] = axis
                new.append(producer)
        return new

    def _need_scalar(self, name: str, position: int) -> None:
        """A scalar that members use: computed in the stage where that is free."""
        producer = self.analysis.producer.get(name)
        if producer is None or producer not in self.analysis.free:
            self.whole.setdefault(name, position)
        elif producer not in self.prelude:
            self.prelude.add(producer)
            for used in sorted(self.analysis.used(producer, True) & self.analysis.types.keys()):
                self._need_scalar(used, position)

    def _joins(self, producer: int, axis: int, reader: Statement) -> bool:
        statement = self.statement(producer)
        if statement.is_scatter or axis not in statement.cuttable:
            return False
        if self._repeat_both(producer, reader):
            return False  # their margins would add up, which is why they are two
        if any(name in self.analysis.ends for name in statement.results):
            return False
        if any(name in self.whole for name in statement.results):
            return False  # it will exist in full anyway
        return self.members.get(producer, axis) == axis

    def _repeat_both(self, producer: int, reader: Statement) -> bool:
        """Whether one loop gives what another begins with, as one pass does to the next."""
        loops = self.statement(producer).let.expr, reader.let.expr
        return all(isinstance(expr, fun.Loop) for expr in loops)

    def _narrow_axis(
        self, statement: Statement, dim: int, access: Access, bounds: tuple[Bounds, ...]
    ) -> int | None:
        """The axis along which boxes of one index read a part of the array.

        Of several, that along which long boxes read the smallest share: of an array shown in one
        row, that of rows, since what is within a row has to be read of each. An input of which
        every box reads the same part has a window too: that part.
        """
        shape = self.analysis.shapes[access.array]
        index = statement.dims[dim]
        moves = [
            ends is not None and any(statement.reads.depends(end, index) for end in ends)
            for ends in access.index
        ]
        is_input = access.array not in self.analysis.producer
        shares = {
            axis: float(np.median(upper - lower)) / max(shape[axis], 1)
            for axis, (ends, (lower, upper)) in enumerate(zip(access.index, bounds, strict=True))
            if ends is not None and (moves[axis] or (is_input and not any(moves)))
        }
        narrow = {axis: share for axis, share in shares.items() if share < 1}
        if len(narrow) < 2:
            return next(iter(narrow), None)
        extent = self.analysis.extent(statement, dim)
        starts = np.arange(0, extent, max(extent // _LONG_BOXES, 1), dtype=np.int64)
        stops = np.append(starts[1:], extent)
        (long,) = (
            found for other, found in self.analysis.footprints(statement, dim, starts, stops)
            if other is access
        )  # fmt: skip
        return min(
            narrow,
            key=lambda axis: (np.median(long[axis][1] - long[axis][0]) / shape[axis], narrow[axis]),
        )

    def _measure_slopes(self, target: int) -> None:
        extent = self.analysis.extent(self.statement(target), self.members[target])
        first, last = extent // 4, extent - 1 - extent // 4
        if last <= first:
            return
        starts = np.array([first, last])
        ranges = self.evaluate(starts, starts + 1)
        for (_, array, _), axis, (lower, _) in (
            (key, self.axes[key], bounds) for key, bounds in ranges.reads.items()
        ):
            if (lower < NOWHERE).all():
                slope = Fraction(int(lower[1] - lower[0]), last - first).limit_denominator(16)
                if slope > 0:
                    self.slopes.setdefault((array, axis), slope)

    # ------------------------------------------------------------ merging

    def merged(self, other: Draft) -> Draft | None:
        """Both drafts as one, where they read some array in step (None: they do not)."""
        factors = {
            other.slopes[key] / slope for key, slope in self.slopes.items() if key in other.slopes
        }
        if len(factors) != 1:
            return None
        if any(self.members.get(p, dim) != dim for p, dim in other.members.items()):
            return None
        if any(self._gives(name) for name in other.earlier):
            return None
        if any(other._gives(name) for name in self.earlier):
            return None
        (factor,) = factors
        scales = dict(self.targets)
        for position, scale in other.targets.items():
            scales[position] = scale * factor
        slopes = {key: slope / factor for key, slope in other.slopes.items()} | self.slopes
        whole_units = math.lcm(*(scale.denominator for scale in scales.values()))
        return Draft(
            self.analysis,
            {position: scale * whole_units for position, scale in scales.items()},
            self.members | other.members,
            self.axes | other.axes,
            self.whole | other.whole,
            {key: slope / whole_units for key, slope in slopes.items()},
            self.prelude | other.prelude,
        )

    def _gives(self, name: str) -> bool:
        return self.analysis.producer.get(name, -1) in self.members


def _share(
    starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64], total: int, scale: Fraction,
    extent: int,
) -> Bounds:  # fmt: skip
    def index(coordinate: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.minimum(coordinate * scale.denominator // scale.numerator, extent)

    return index(starts), np.where(stops >= total, extent, index(stops))


def join(left: Bounds, right: Bounds) -> Bounds:
    """The hull of two ranges; an empty one adds nothing."""
    low, high = right
    empty = low >= high
    low, high = np.where(empty, NOWHERE, low), np.where(empty, -1, high)
    return np.minimum(left[0], low), np.maximum(left[1], high)


def _probes(extent: int) -> npt.NDArray[np.int64]:
    """Indices at which to look how local a read is."""
    last = max(extent - 1, 0)
    return np.array([0, last // 4, last // 2, last - last // 4, last], dtype=np.int64)
