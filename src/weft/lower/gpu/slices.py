"""One side of a contraction in a group's memory: slices of a few reduced indices, two at a time.

    fetch slice 0; keep it; barrier
    for each slice s { fetch slice s + 1; .. what slice s gives ..; keep slice s + 1; barrier }

Items fetch the next slice into registers before they use the one in memory, so that arithmetic
hides how long that takes, and keep it in the other half of the memory, which nobody reads then: one
barrier is enough. (NVIDIA, "CUTLASS: fast linear algebra in CUDA C++", 2017.) What is read is read
by items that are neighbours where it is; each reads vectors of 16 bytes where the launch finds both
sides' aligned, so that fewer addresses are computed. An item's rows are by vectors of 16 bytes too,
so that a load gives several, and vectors of neighbouring items lie side by side, in other banks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from weft.fun import nodes as fun
from weft.fun.contractions import Side
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower.bodies import lower_body
from weft.lower.emitter import Emitter
from weft.lower.gpu.elements import loaded
from weft.lower.gpu.vectors import BYTES
from weft.lower.halves import Part
from weft.lower.panels import in_sequence
from weft.lower.unit import memory
from weft.ops.dtypes import DType
from weft.records import dataclass
from weft.sizes import ONE


@dataclass(frozen=True, slots=True)
class Share:
    """How a tile's rows, or columns, are dealt: so many items in line, so many for each."""

    items: int
    each: int
    lanes: int  # that lie side by side

    @property
    def width(self) -> int:
        return self.items * self.each

    @property
    def pitch(self) -> int:
        """From one reduced index to the next in memory: a vector more, which is in other banks."""
        return self.width + self.lanes

    @staticmethod
    def of(side: Side, items: int, each: int) -> Share:
        largest = max((value.type.dtype.itemsize for value in side.values), default=1)
        return Share(items, each, max(1, min(each, BYTES // largest)))

    def place(self, own: imp.Expr, number: imp.Expr) -> imp.Expr:
        """Where the row of a number of an item's lies in the tile."""
        lanes = imp.integer(self.lanes)
        vector = machine("*", machine("/", number, lanes), imp.integer(self.items * self.lanes))
        at = machine("+", machine("*", own, lanes), vector)
        return machine("+", at, machine("%", number, lanes))


class Slices:
    """A side's slices, of `step` reduced indices, in a kernel whose groups have `group` items.

    Parameters
    ----------
    own : Expr
        Which of the items in line it is.
    by_vectors : bool
        Whether items fetch vectors from memory, which the launch has found aligned.
    """

    def __init__(
        self, k: Emitter, side: Side, range_: fun.Range, reduced: fun.Range, part: Part,
        share: Share, lane: imp.Expr, own: imp.Expr, group: int, step: int,
        *, by_vectors: bool = False,
    ) -> None:  # fmt: skip
        self.k, self.side, self.range, self.reduced = k, side, range_, reduced
        self.part, self.share, self.own, self.step = part, share, own, step
        self.size = step * share.pitch
        dtypes = [value.type.dtype for value in side.values]
        self.shared = [k.shared(dtype, 2 * self.size) for dtype in dtypes]
        self.count = step * share.width // group
        self.ahead = [k.local(dtype, self.count) for dtype in dtypes]
        self.near = [k.local(dtype, share.each) for dtype in dtypes]
        self.vector = [k.local(d, share.lanes) if self._is_vector(d) else None for d in dtypes]
        self.by_rows = in_sequence(side, range_)
        # Vectors are no longer than what an item fetches of a slice, or none would fetch any.
        self.lanes = min(BYTES // dtypes[0].itemsize, self.count) if by_vectors else 1
        in_line = (share.width if self.by_rows else step) // self.lanes
        self.apart = group // in_line
        along, lanes = imp.integer(in_line), imp.integer(self.lanes)
        self.fast = k.declare(machine("*", k.declare(machine("%", lane, along)), lanes))
        self.slow = k.declare(machine("/", lane, along))
        self.far = k.local(dtypes[0], self.lanes) if by_vectors else None
        rows = k.declare(machine("-", part.last, part.first))
        self.is_full = k.declare(machine("==", rows, imp.integer(share.width - 1)))
        self.last = k.declare(machine("-", k.named(reduced.extent), imp.ONE))

    def _is_vector(self, dtype: DType) -> bool:
        return self.share.lanes > 1 and dtype is not DType.BOOL

    def _mine(self, do: Callable[[imp.Expr, imp.Expr, imp.Expr], None]) -> None:
        """`do(number, row, reduced index)` of what the item fetches of a slice, or of vectors."""
        k, lanes = self.k, imp.integer(self.lanes)
        with times(k, self.count // self.lanes) as var:
            far = k.declare(machine("+", self.slow, machine("*", var, imp.integer(self.apart))))
            number = k.declare(machine("*", var, lanes))
            do(number, *((self.fast, far) if self.by_rows else (far, self.fast)))

    def _each(self, do: Callable[[imp.Expr, imp.Expr, imp.Expr], None]) -> None:
        """The same of each of a vector's."""
        if self.lanes == 1:
            self._mine(do)
            return

        def vector(number: imp.Expr, row: imp.Expr, at: imp.Expr) -> None:
            with times(self.k, self.lanes) as lane:
                one, fast = (
                    self.k.declare(machine("+", first, lane))
                    for first in (number, row if self.by_rows else at)
                )
                do(one, *((fast, at) if self.by_rows else (row, fast)))

        self._mine(vector)

    def fetch(self, first: imp.Expr, end: imp.Expr) -> None:
        """The values at the reduced indices from `first` on, below `end`."""
        below = self.k.declare(machine("+", first, imp.integer(self.step)))
        whole = machine("&&", self.is_full, machine("<=", below, end))
        self.k.either(whole, lambda: self._fetch(first, True), lambda: self._fetch(first, False))

    def fetch_whole(self, first: imp.Expr) -> None:
        """Those of a slice of a full part, which is known to be whole."""
        if self.far is None:
            self._fetch(first, True)
            return
        k, far, (ahead,) = self.k, self.far, self.ahead
        read = vectors_of(self.side, self.range, self.reduced)
        assert read is not None

        def vector(number: imp.Expr, row: imp.Expr, at: imp.Expr) -> None:
            k.bind(self.reduced.index.name, k.declare(machine("+", first, at)))
            k.bind(self.range.index.name, k.declare(machine("+", self.part.lower, row)))
            k.emit(imp.LoadVector(far, *k.address(memory(read.array), read.indices), self.lanes))
            with times(k, self.lanes) as lane:
                place = machine("+", number, lane)
                k.emit(imp.Store(ahead, place, loaded(k, far, lane)))

        self._mine(vector)

    def _fetch(self, first: imp.Expr, whole: bool) -> None:
        """Rows and reduced indices beyond those that there are repeat the last one."""
        k, part = self.k, self.part

        def one(number: imp.Expr, row: imp.Expr, at: imp.Expr) -> None:
            reduced = k.declare(machine("+", first, at))
            index = k.declare(machine("+", part.lower, row))
            if not whole:
                reduced = k.declare(machine("min", reduced, self.last))
                index = k.declare(machine("max", index, part.first))
                index = k.declare(machine("min", index, part.last))
            k.bind(self.reduced.index.name, reduced)
            k.bind(self.range.index.name, index)
            lower_body(k, fun.Body(self.side.statements, ()))
            for value, array in zip(self.side.values, self.ahead, strict=True):
                k.emit(imp.Store(array, number, k.scalars[value.name]))

        self._each(one)

    def keep(self, turn: imp.Expr) -> None:
        """What was fetched goes to a half of the memory, which items may read after a barrier."""
        k = self.k
        begin = k.declare(machine("*", turn, imp.integer(self.size)))

        def one(number: imp.Expr, row: imp.Expr, at: imp.Expr) -> None:
            line = machine("+", begin, machine("*", at, imp.integer(self.share.pitch)))
            spot = k.declare(machine("+", line, row))
            for shared, array in zip(self.shared, self.ahead, strict=True):
                k.emit(imp.Store(shared, spot, loaded(k, array, number)))

        def vector(number: imp.Expr, row: imp.Expr, at: imp.Expr) -> None:
            line = machine("+", begin, machine("*", at, imp.integer(self.share.pitch)))
            spot = k.declare(machine("+", line, row))
            (shared,), (ahead,), far = self.shared, self.ahead, self.far
            assert far is not None
            with times(k, self.lanes) as lane:
                value = loaded(k, ahead, machine("+", number, lane))
                k.emit(imp.Store(far, lane, value))
            k.emit(imp.StoreVector(shared, spot, far, self.lanes))

        if self.far is not None and self.by_rows:
            self._mine(vector)
        else:
            self._each(one)

    def take(self, turn: imp.Expr, at: imp.Expr) -> None:
        """The values of the item's rows at a reduced index of the slice in a half of the memory."""
        k, share = self.k, self.share
        begin = k.declare(machine("*", turn, imp.integer(self.size)))
        begin = k.declare(machine("+", begin, machine("*", self.own, imp.integer(share.lanes))))
        line = k.declare(machine("+", begin, machine("*", at, imp.integer(share.pitch))))
        with times(k, share.each // share.lanes) as var:
            apart = machine("*", var, imp.integer(share.items * share.lanes))
            spot = k.declare(machine("+", line, apart))
            place = k.declare(machine("*", var, imp.integer(share.lanes)))
            for shared, near, vector in zip(self.shared, self.near, self.vector, strict=True):
                if vector is not None:
                    k.emit(imp.LoadVector(vector, shared, spot, share.lanes))
                with times(k, share.lanes) as lane:
                    source = imp.Load(vector, lane) if vector is not None else imp.Load(
                        shared, machine("+", spot, lane)
                    )  # fmt: skip
                    value = k.declare(source, depth=k.depth)
                    k.emit(imp.Store(near, machine("+", place, lane), value))

    def bind(self, number: imp.Expr) -> None:
        """The side's values are those of the item's row of a number, as taken."""
        for value, near in zip(self.side.values, self.near, strict=True):
            self.k.bind(value.name, loaded(self.k, near, number))


def vectors_of(side: Side, range_: fun.Range, reduced: fun.Range) -> fun.Index | None:
    """The side's one read, where values that neighbouring items fetch lie side by side."""
    match side.statements, side.values:
        case (fun.Let((read,), fun.Index(array, at, boundary) as access),), (value,):
            dtype, address = value.type.dtype, memory(array).index.apply(at)
            name = (range_ if in_sequence(side, range_) else reduced).index.name
            plain = dtype is not DType.BOOL and not dtype.is_complex and dtype.itemsize < BYTES
            beside = address.degree(name) == 1 and address.coefficient(name) == ONE
            whole = read == value and not any(boundary or ())
            return access if plain and beside and whole else None
    return None


@contextmanager
def times(k: Emitter, count: int) -> Iterator[imp.Expr]:
    """A few rounds, written out; the number of each."""
    if count == 1:
        yield imp.ZERO
        return
    var = k.unit.integer("l")
    with k.loop(var, imp.ZERO, imp.integer(count), unroll=count):
        yield var
