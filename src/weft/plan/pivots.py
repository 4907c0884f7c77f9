"""Loops whose rounds need, for each row, that row and a few that all rows share.

    loop (v = x) for k from 0 to n { kernel (i < n, j < m) { v[i, j] - v[i, k] * v[k, j] } }

Each round takes row k of v, its *pivot*, and is local in all rows else. Rows are indices of one
axis of the arrays that the loop carries, any axis; so are all arrays of a round that follow them
(`Along`), perhaps shifted, perhaps some rows alone. What is made of pivots alone is *shared*.
Gauss-Jordan elimination (van Beurden and Scholz 2022, section 4), triangular decompositions and
substitutions are such loops; with partial pivoting too, along columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import field

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.plan.footprint import IndexRange, Reads
from weft.plan.materialise import as_kernel
from weft.records import dataclass
from weft.sizes import ZERO, Poly, Size

_SCALARS = (fun.Apply, fun.Cast, fun.SizeValue)
_NESTS = (fun.Kernel, fun.Reduce, fun.Scan)


UNCOUNTED = "how many rounds there are depends on data"


class Unsuited(Exception):  # noqa: N818 (a reason, not an error)
    """Why the rounds of a loop cannot be done on boxes of rows."""

    def __init__(self, reason: str, place: Place | None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.place = place


@dataclass(frozen=True, slots=True)
class Along:
    """An array that follows rows: index x of its `axis` is row x + `shift`."""

    axis: int
    shift: Size


@dataclass(frozen=True, slots=True)
class Pivot:
    """A row of an array, the same for all rows of a round."""

    array: str
    row: Size


@dataclass(slots=True)
class Rounds:
    """What the rounds of a loop do with rows.

    Attributes
    ----------
    let : fun.Let
        The loop.
    axis : int
        Of the arrays carried that follow rows.
    extent : Size
        How many rows there are.
    body : tuple of fun.Let
        A round, with statements in the form in which rows are taken from them.
    along : dict of str to Along
        The arrays that follow rows; all else is shared.
    pivots : dict of Pivot to None
        In the order in which they are found.
    local : frozenset of str
        Scalars of a round that follow from its number.
    """

    let: fun.Let
    axis: int
    extent: Size
    body: tuple[fun.Let, ...] = ()
    along: dict[str, Along] = field(default_factory=dict)
    pivots: dict[Pivot, None] = field(default_factory=dict)
    local: frozenset[str] = frozenset()
    reads: Reads | None = None

    @property
    def loop(self) -> fun.Loop:
        assert isinstance(self.let.expr, fun.Loop)
        return self.let.expr

    @property
    def form(self) -> fun.For:
        assert isinstance(self.loop.form, fun.For)
        return self.loop.form

    def resolve(self, size: Size) -> Size:
        assert self.reads is not None
        return self.reads.resolve(size)

    def pivot(self, array: fun.Var, index: Size) -> Pivot | None:
        """The pivot that a read at `index` along the rows of an array takes, if it does."""
        row = self.resolve(index) + self.along[array.name].shift
        found = Pivot(array.name, row)
        return found if found in self.pivots else None

    def pivots_of(self, let: fun.Let) -> Iterator[Pivot]:
        """The pivots that a statement of a round reads."""
        for inner in walk.statements(fun.Body((let,), ())):
            expr = inner.expr
            if isinstance(expr, fun.Index | fun.Slice) and expr.array.name in self.along:
                axis = self.along[expr.array.name].axis
                index = expr.indices[axis] if isinstance(expr, fun.Index) else expr.dims[axis]
                found = None if isinstance(index, fun.Span) else self.pivot(expr.array, index)
                if found is not None:
                    yield found

    def follows(self, let: fun.Let) -> bool:
        """Whether a statement of a round makes rows."""
        return let.pattern[0].name in self.along


def rounds_of(let: fun.Let, axis: int, names: Names) -> Rounds:
    """What the rounds of a loop do with rows along an axis.

    Raises
    ------
    Unsuited
        Where a round needs more of other rows than some whose numbers follow from its own.
    """
    loop = let.expr
    if not isinstance(loop, fun.Loop) or not isinstance(loop.form, fun.For):
        raise Unsuited(UNCOUNTED, let.place)
    shapes = [walk.type_sizes(p.type) for p in loop.params]
    extents = [shape[axis] for shape in shapes if len(shape) > axis]
    most = max((len(shape) for shape in shapes), default=0)
    if most <= axis:
        raise Unsuited("it carries no array", let.place)
    extent = next(shape[axis] for shape in shapes if len(shape) == most)
    rows = {
        p.name
        for p, shape in zip(loop.params, shapes, strict=True)
        if extent in extents and len(shape) > axis and shape[axis] == extent
    }
    while True:  # with fewer arrays that follow rows, until those do in all rounds
        analysis = _Analysis(let, axis, extent, rows, names)
        made = analysis.run()
        if made == rows:
            return analysis.rounds
        if not made:
            raise Unsuited("no array that it carries is made row by row", let.place)
        rows = made


def candidate_axes(loop: fun.Loop) -> range:
    """The axes along which rows may be; of scalars alone, one that is refused."""
    return range(max((len(walk.type_sizes(param.type)) for param in loop.params), default=0) or 1)


def follow_rows(let: fun.Let, names: Names) -> bool:
    """Whether the rounds of a loop can be done on boxes of rows, along some axis."""
    assert isinstance(let.expr, fun.Loop)
    for axis in candidate_axes(let.expr):
        with suppress(Unsuited):
            rounds_of(let, axis, names)
            return True
    return False


class _Analysis:
    """Which arrays of a round follow rows, statement by statement."""

    def __init__(
        self, let: fun.Let, axis: int, extent: Size, rows: set[str], names: Names
    ) -> None:
        self.rounds = Rounds(let, axis, extent)
        self.loop, self.along = self.rounds.loop, self.rounds.along
        self.index = self.rounds.form.index.name
        self.rows = rows
        self.names = names
        self.rounds.reads = Reads(let, {})
        inside = {var.name for inner in walk.statements(self.loop.body) for var in inner.pattern}
        for inner in walk.statements(self.loop.body):
            inside.update(var.name for var in walk.operands(inner.expr)[2])
        self.inside = inside | {param.name for param in self.loop.params}
        self.place = let.place

    def run(self) -> set[str]:
        """The arrays carried that follow rows after a round, were `rows` to do so before."""
        rounds, loop = self.rounds, self.loop
        self.along.update((name, Along(rounds.axis, ZERO)) for name in self.rows)
        body, local = [], set[str]()
        for let in loop.body.statements:
            self.place = let.place or rounds.let.place
            new = self._statement(let)
            used = walk.used_names(new.expr)
            if isinstance(new.expr, _SCALARS) and not (used & self.inside) - local:
                local.update(var.name for var in new.pattern)
            body.append(new)
        if not any(map(self._makes_many, body)):
            self._refuse("a round makes single rows, and boxes would go through all of them for it")
        rounds.body, rounds.local = tuple(body), frozenset(local)
        whole = Along(rounds.axis, ZERO)
        found = set()
        for param, result in zip(loop.params, loop.body.results, strict=True):
            along = self.along.get(result.name) if isinstance(result, fun.Var) else None
            if param.name in self.rows and along == whole:
                found.add(param.name)
            elif along is not None:
                self._refuse(f"{param.name} has other rows in other rounds")
        return found

    def _makes_many(self, let: fun.Let) -> bool:
        """Whether a statement of a round makes more rows the more there are."""
        var = let.pattern[0]
        if var.name not in self.along:
            return False
        if isinstance(let.expr, fun.Update):
            dim = let.expr.dims[self.along[var.name].axis]
            return isinstance(dim, fun.Span) and not dim.extent.is_constant
        return not self._extent(var).is_constant

    def _refuse(self, reason: str) -> None:
        raise Unsuited(reason, self.place)

    def _statement(self, let: fun.Let) -> fun.Let:
        if not any(name in self.along for name in walk.used_names(let.expr)):
            return let
        match let.expr:
            case fun.Slice(array, dims):
                self._slice(let, array, dims)
                return let
            case fun.Update(array, dims, value) if self._update(let, array, dims, value):
                return let
            case fun.Index():
                if self._row_index(let.expr, ()) is not None:
                    self._refuse("a round reads rows that do not follow from its number")
                return let
        let = as_kernel(let, self.names) or let
        if not isinstance(let.expr, _NESTS):
            self._refuse("a round needs whole arrays")
        self._nest(let)
        return let

    # ------------------------------------------------------------ forms

    def _slice(
        self, let: fun.Let, array: fun.Var, dims: tuple[fun.Span | Size, ...]
    ) -> None:
        along = self.along[array.name]
        dim = dims[along.axis]
        if not isinstance(dim, fun.Span):
            self._take(array, dim)
            return
        start = self.rounds.resolve(dim.start)
        if dim.step != 1 or not self._is_fixed(start):
            self._refuse("a round takes rows apart from one another, or by data")
        before = sum(isinstance(d, fun.Span) for d in dims[: along.axis])
        self.along[let.pattern[0].name] = Along(before, along.shift + start)

    def _update(
        self, let: fun.Let, array: fun.Var, dims: tuple[fun.Span | Size, ...], value: fun.Atom
    ) -> bool:
        """Whether an update leaves rows where they are."""
        along = self.along.get(array.name)
        if along is None:
            return False
        dim = dims[along.axis]
        follows = self.along.get(value.name) if isinstance(value, fun.Var) else None
        if isinstance(dim, fun.Span):
            start, extent = self.rounds.resolve(dim.start), self.rounds.resolve(dim.extent)
            if dim.step != 1 or not (self._is_fixed(start) and self._is_fixed(extent)):
                return False
            before = sum(isinstance(d, fun.Span) for d in dims[: along.axis])
            if follows is not None and follows != Along(before, along.shift + start):
                self._refuse("a round moves rows to other places")
        elif follows is not None or not self._is_fixed(self.rounds.resolve(dim)):
            self._refuse("a round overwrites rows that are chosen by data")
        self.along[let.pattern[0].name] = along
        return True

    def _nest(self, let: fun.Let) -> None:
        expr = let.expr
        assert isinstance(expr, _NESTS)
        kept = expr.space
        if isinstance(expr, fun.Reduce):
            kept = kept[: len(kept) - expr.reduced]
        elif isinstance(expr, fun.Scan):
            kept = kept[:-1]
        places: set[tuple[int, Size]] = set()
        partial: list[fun.Var] = []
        for read, array in self._reads(expr):
            found = self._row_index(read, kept)
            if found is not None:
                places.add(found)
                if not self._is_whole(array):
                    partial.append(array)
        if not places:
            return  # of pivots alone
        if len(places) > 1:
            self._refuse("a row needs others, which are not the same for all rows")
        ((dim, shift),) = places
        for array in partial:
            along = self.along[array.name]
            if along.shift != shift or self._extent(array) != kept[dim].extent:
                self._refuse("a row needs a part of the rows under a condition")
        for var in let.pattern:
            self.along[var.name] = Along(dim, shift)

    def _reads(self, expr: fun.Expr) -> Iterator[tuple[fun.Index | fun.Slice, fun.Var]]:
        """The reads of rows inside a nest; nothing else may be done with them there."""
        for body in walk.bodies(expr):
            for let in body.statements:
                read = let.expr
                if isinstance(read, fun.Index | fun.Slice) and read.array.name in self.along:
                    yield read, read.array
                elif any(
                    isinstance(atom, fun.Var) and atom.name in self.along
                    for atom in walk.operands(let.expr)[0]
                ):
                    self._refuse("each row needs whole arrays")
                yield from self._reads(let.expr)
            if any(isinstance(a, fun.Var) and a.name in self.along for a in body.results):
                self._refuse("each row needs whole arrays")

    # ------------------------------------------------------------ rows

    def _row_index(
        self, read: fun.Index | fun.Slice, kept: tuple[fun.Range, ...]
    ) -> tuple[int, Size] | None:
        """The dimension that is the row of a read, and how far it is shifted; None: a pivot."""
        array, along = read.array, self.along[read.array.name]
        index = read.indices[along.axis] if isinstance(read, fun.Index) else read.dims[along.axis]
        if isinstance(index, fun.Span):
            self._refuse("each row needs several")
        assert isinstance(index, Poly)
        if isinstance(read, fun.Index) and read.boundary and read.boundary[along.axis] is not None:
            self._refuse("a row needs its neighbours")
        row = self.rounds.resolve(index) + along.shift
        for dim, range_ in enumerate(kept):
            shift = row - Poly.var(range_.index.name)
            if self._is_fixed(shift):
                return dim, shift
        self._take(array, index)
        return None

    def _take(self, array: fun.Var, index: Size) -> None:
        row = self.rounds.resolve(index) + self.along[array.name].shift
        if not row.coefficient(self.index).is_constant or not self._is_fixed(row):
            names = row.variables() & self.inside
            assert self.rounds.reads is not None
            ranges = (self.rounds.reads.definitions.get(name) for name in names)
            self._refuse(
                "a round needs all rows at once" if any(isinstance(r, IndexRange) for r in ranges)
                else "which row a round takes depends on data" if names
                else "which row a round takes is no multiple of its number plus a constant"
            )  # fmt: skip
        self.rounds.pivots[Pivot(array.name, row)] = None

    def _is_fixed(self, size: Size) -> bool:
        """Whether it follows from the number of the round alone, as its multiple and a rest."""
        return not size.variables() & self.inside and size.degree(self.index) <= 1

    def _is_whole(self, array: fun.Var) -> bool:
        along = self.along[array.name]
        return along.shift == ZERO and self._extent(array) == self.rounds.extent

    def _extent(self, array: fun.Var) -> Size:
        return walk.type_sizes(array.type)[self.along[array.name].axis]
