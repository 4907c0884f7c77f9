"""The windows of a stage: what its boxes have of each array, and where its reads find them.

An array that boxes are cut along has a window that begins where a box reads first. Along axes that
are not cut, windows of parameters have what all boxes together read, where that is little:

    kernel (j < m) { x[k, j] + x[k + 1, j] }     cut along j: of axis 0, the rows k and k + 1
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field

from weft.fun import nodes as fun
from weft.fun import walk
from weft.plan.clusters import clusters
from weft.plan.draft import Draft, ReadKey
from weft.plan.footprint import Bounds
from weft.plan.narrow import windowed_var
from weft.plan.nodes import Cut, Window
from weft.plan.statements import Analysis, Statement
from weft.records import dataclass
from weft.sizes import ZERO, Poly, Size

_NARROW = 0.5
"""The part of an axis, at most, that windows have instead of all of it."""

Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a read finds its array in the stage: a variable that begins at `lower`."""

    var: fun.Var
    axis: int | None = None
    lower: Size = ZERO
    more: tuple[tuple[int, Size], ...] = ()

    @property
    def lowers(self) -> dict[int, Size]:
        """Where it begins along the axes of which it has a part."""
        return {} if self.axis is None else {self.axis: self.lower, **dict(self.more)}


@dataclass
class Windows:
    """The windows of a stage, which are parameters of its program.

    Attributes
    ----------
    analysis : Analysis
    size : callable
        Makes a size variable of the stage, of a label.
    opened : list of (Var, Window)
    places : dict of ReadKey to Place
        Of reads of what is cut.
    whole : dict of str to Var
        The arrays that all boxes have whole, for the members of a draft.
    reads : dict of str to list of ReadKey
        For each window that boxes are cut along, the reads that it must cover.
    fixed : dict of str to int
        Size variables that are the same for every box.
    """

    analysis: Analysis
    size: Callable[[str], str]
    opened: list[tuple[fun.Var, Window]] = field(default_factory=list)
    places: dict[ReadKey, Place] = field(default_factory=dict)
    whole: dict[str, fun.Var] = field(default_factory=dict)
    reads: dict[str, list[ReadKey]] = field(default_factory=dict)
    fixed: dict[str, int] = field(default_factory=dict)

    def of_boxes(self, draft: Draft, needed: Collection[str]) -> None:
        """Open the windows of a draft that gives the arrays and scalars of `needed`."""
        names, taken = self.analysis.names, set[str]()
        for array, axis, keys in clusters(draft):
            name = array if array not in taken else names.fresh(array)
            taken.add(name)
            parts: dict[int, Interval] = {}
            if array in self.analysis.params and all(is_read_at(draft, needed, k) for k in keys):
                parts = self._beside(draft, axis, keys)
            self.reads[name] = keys
            place = self._open(name, array, (axis, *parts), parts)
            self.places.update(dict.fromkeys(keys, place))
        for array in draft.whole:
            position = self.analysis.producer.get(array)
            clash = array in taken or position in (*draft.members, *draft.prelude)
            var = fun.Var(names.fresh(array) if clash else array, self.analysis.types[array])
            self.opened.append((var, Window(var.name, array)))
            self.whole[array] = var

    def of_statements(self, positions: Sequence[int]) -> None:
        """Open windows for statements that run whole: of parameters of which little is read."""
        analysis = self.analysis
        statements = [analysis.statements[position] for position in positions]
        found: dict[str, list[Sequence[Bounds]]] = {}
        keys: dict[str, list[ReadKey]] = {}
        for statement in statements:
            for access, bounds in analysis.footprints(statement, None):
                if access.array in analysis.params:
                    found.setdefault(access.array, []).append(bounds)
                    key = statement.position, access.array, access.node
                    keys.setdefault(access.array, []).append(key)
        for array, read in found.items():
            axes, shape = hull(read), analysis.shapes[array]
            share = [
                (high - low) / n if n else 1.0 for (low, high), n in zip(axes, shape, strict=True)
            ]
            axis = share.index(min(share))
            if share[axis] <= _NARROW and all(node is not None for _, _, node in keys[array]):
                place = self._open(array, array, (axis,), {axis: axes[axis]})
                self.places.update(dict.fromkeys(keys[array], place))
        inside = {name for statement in statements for name in statement.results}
        for statement in statements:
            for name in sorted(walk.used_names(statement.original.expr)):
                known = inside.union(window.array for _, window in self.opened)
                if name in analysis.types and name not in known:
                    self.opened.append((fun.Var(name, analysis.types[name]), Window(name, name)))

    def _beside(self, draft: Draft, axis: int, keys: Sequence[ReadKey]) -> dict[int, Interval]:
        """Of a parameter's axes besides the one that is cut, the part that all boxes read.

        Not of later axes of what lies in memory: windows of whole rows are in one piece there.
        """
        analysis, array = self.analysis, keys[0][1]
        wanted, read = set(keys), list[Sequence[Bounds]]()
        for position in sorted({position for position, _, _ in keys}):
            statement, dim = analysis.statements[position], draft.members[position]
            extent = analysis.extent(statement, dim)
            for access, bounds in analysis.footprints(statement, dim, [0], [extent]):
                if (position, access.array, access.node) in wanted:
                    read.append(bounds)
        pairs = zip(hull(read), analysis.shapes[array], strict=True)
        return {
            along: (lower, upper)
            for along, ((lower, upper), extent) in enumerate(pairs)
            if (along < axis or (along > axis and array in analysis.staged))
            and 0 < upper - lower <= _NARROW * extent
        }

    def _open(
        self, name: str, array: str, axes: Sequence[int], parts: Mapping[int, Interval]
    ) -> Place:
        """A window that has parts along some axes, and their size variables.

        `parts`: what all boxes have of an axis, where that is the same.
        """
        var = fun.Var(name, self.analysis.types[array])
        cuts: list[Cut] = []
        for axis in axes:
            lower, upper = self.size(f"{array}_from"), self.size(f"{array}_to")
            var = windowed_var(var, axis, Poly.var(upper) - Poly.var(lower))
            cuts.append((axis, lower, upper))
            if axis in parts:
                self.fixed[lower], self.fixed[upper] = parts[axis]
        first, *more = cuts
        self.opened.append((var, Window(name, array, *first, more=tuple(more))))
        (axis, begin), *others = [(axis, Poly.var(lower)) for axis, lower, _ in cuts]
        return Place(var, axis, begin, tuple(others))


def hull(read: Iterable[Sequence[Bounds]]) -> list[Interval]:
    """Along each axis, the least interval that has those of all reads."""
    return [
        (min(int(low.min()) for low, _ in bounds), max(int(high.max()) for _, high in bounds))
        for bounds in zip(*read, strict=True)
    ]


def is_read_at(draft: Draft, needed: Collection[str], key: ReadKey) -> bool:
    """Whether a read is an index or a slice, which may begin anywhere along each axis."""
    position, _, node = key
    statement = draft.analysis.statements[position]
    whole = isinstance(statement.let.expr, fun.Loop | fun.Call)
    whole = whole or is_view(draft, needed, statement)
    return not whole and isinstance(node, fun.Index | fun.Slice)


def is_view(draft: Draft, needed: Collection[str], statement: Statement) -> bool:
    """Whether a member is an array with its axes in another order that calls alone read."""
    if not isinstance(statement.original.expr, fun.Permute):
        return False
    if statement.position in draft.targets:
        return False
    (name,) = statement.results
    readers = {key[0] for key in draft.axes if key[1] == name}
    return name not in needed and all(
        isinstance(draft.analysis.statements[p].let.expr, fun.Call) for p in readers
    )
