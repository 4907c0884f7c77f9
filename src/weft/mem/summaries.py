"""Access summaries: what statements read and write of one block, as sets of LMADs.

While arrays move into a block (the destination), two summaries are kept, from below (sections
6.4.3 to 6.6 of Munksgaard's thesis): the *uses* of other arrays in that block, and the
*writes* to the arrays that move. A write must not meet a use that comes after it: in
the same body, in a later iteration of a loop, in another iteration of a kernel.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from typing import assert_never

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun import walk
from weft.lmad import Lmad
from weft.lmad import sets as lmads
from weft.mem import layout
from weft.mem.nodes import MemArray
from weft.mem.project import Refused
from weft.mem.scope import Scope, put, variables
from weft.records import dataclass
from weft.sizes import Poly, Size

MOST = 48  # accesses in a summary: with more, all of the block is


@dataclass(frozen=True, slots=True)
class Access:
    """Elements of the destination's block.

    Attributes
    ----------
    index : Lmad or None
        Which; None: any of the block.
    whole : Lmad or None
        All of the array that is accessed, which stands for `index` where that is not known.
    array : str
    place : Place or None
        In the user's code.
    written : bool
        False of a write: what is there already stays.
    """

    index: Lmad | None
    whole: Lmad | None
    array: str
    place: Place | None
    written: bool

    def __str__(self) -> str:
        verb = "is written" if self.written else "is read"
        where = f" at {self.place}" if self.place else ""
        return f"{self.array} {verb}{where}"


Accesses = dict[Access, None]


@dataclass(slots=True)
class Summary:
    """Accesses to the destination's block: of other arrays, and to those that move."""

    uses: Accesses = field(default_factory=dict)
    writes: Accesses = field(default_factory=dict)

    def add(self, other: Summary) -> None:
        self.uses.update(other.uses)
        self.writes.update(other.writes)


class Inspection:
    """Statements as they access one block, when some arrays move into it.

    Parameters
    ----------
    scope : Scope
        At the first of the statements.
    memory : mapping of str to MemArray
        Where each array lies.
    moving : mapping of str to MemArray
        Where those arrays lie that move.
    block : str
        The block that they move into.
    size : Size or None
        How many elements it has, if it is known.
    apart : collection of str
        Arrays of that block that do not meet those that move.
    """

    def __init__(
        self, scope: Scope, memory: Mapping[str, MemArray], moving: Mapping[str, MemArray],
        block: str, size: Size | None, apart: Collection[str] = (),
    ) -> None:  # fmt: skip
        self.scope = scope
        self.elsewhere = apart
        self.memory = memory
        self.moving = moving
        self.block = block
        self.place: Place | None = None
        self.all = size  # of which nothing is apart
        self.pairs: list[tuple[Lmad, Lmad]] = []  # that the launch can compare
        self.assume = False  # that it will find them apart

    # ------------------------------------------------------------ statements, from below

    def body(self, statements: Sequence[fun.Let], later: Accesses, after: Summary) -> Summary:
        """What statements access, and what `after` them is; each write is checked.

        Raises
        ------
        Refused
            When a write may meet a use below it, or one of `later`.
        """
        total = Summary(dict(after.uses), dict(after.writes))
        for let in reversed(statements):
            found = self.statement(let)
            self.check(found.writes, [*total.uses, *later])
            total.add(found)
        return total

    def statement(self, let: fun.Let) -> Summary:
        """What a statement accesses; within it, writes are checked."""
        outer, self.place = self.place, let.place or self.place
        found = self._accesses(let)
        self.place = outer
        return found

    def _accesses(self, let: fun.Let) -> Summary:
        expr = let.expr
        match expr:
            case fun.Apply() | fun.Cast() | fun.SizeValue():
                return Summary()
            case fun.Index():
                return self.read_element(expr)
            case fun.Slice() | fun.LmadSlice() | fun.Permute() | fun.Empty():
                return Summary()
            case fun.Reshape(array) | fun.Broadcast(array):
                source, target = self.at(array), self.at(let.pattern[0])
                if source is not None and target is not None and source.block == target.block:
                    return Summary()  # a view; were it a copy, it would have a block of its own
                return self.at_once(let.pattern, [array])
            case fun.Copy(array):
                if self.same(array, let.pattern[0]):
                    found = Summary()
                    self.keep(found, let.pattern[0], array)
                    return found
                return self.at_once(let.pattern, [array])
            case fun.Concat(arrays, axis):
                return self.concat(let.pattern[0], arrays, axis)
            case fun.Update() | fun.LmadUpdate():
                return self.update(let.pattern[0], expr)
            case fun.Call(_, arguments):
                return self.at_once(let.pattern, arguments)
            case fun.Kernel(space, body):
                return self.kernel(let.pattern, space, body)
            case fun.Reduce(space, _, body, operator):
                return self.gathering(let.pattern, space, (body, operator.body))
            case fun.Scan(space, body, operator, initial):
                return self.gathering(let.pattern, space, (body, operator.body), initial)
            case fun.Scatter(_, space, body, combine):
                bodies = (body,) if combine is None else (body, combine.body)
                return self.gathering(let.pattern, space, bodies)
            case fun.If(_, then, otherwise):
                total = self.body(then.statements, {}, Summary())
                total.add(self.body(otherwise.statements, {}, Summary()))
                return self.leaving(total, _bound((then, otherwise)), ())
            case fun.Loop():
                return self.loop(expr)
            case _:
                assert_never(expr)

    # ------------------------------------------------------------ accesses

    def at(self, atom: fun.Atom) -> MemArray | None:
        """Where an array lies, if it is in the block."""
        if not isinstance(atom, fun.Var) or atom.name in self.elsewhere:
            return None
        found = self.moving.get(atom.name) or self.memory.get(atom.name)
        return found if found is not None and found.block == self.block else None

    def same(self, left: fun.Atom, right: fun.Atom) -> bool:
        first, second = self.at(left), self.at(right)
        return first is not None and second is not None and layout.same(first, second)

    def read(self, found: Summary, array: fun.Atom, index: Lmad | None = None) -> None:
        memory = self.at(array)
        if memory is not None and isinstance(array, fun.Var) and array.name not in self.moving:
            whole = memory.index
            access = Access(index or whole, whole, array.name, self.place, written=False)
            found.uses[access] = None

    def write(
        self, found: Summary, var: fun.Var, index: Lmad | None = None, written: bool = True
    ) -> None:
        memory = self.at(var)
        if memory is not None:
            moves = var.name in self.moving
            access = Access(index or memory.index, memory.index, var.name, self.place, written)
            (found.writes if moves else found.uses)[access] = None

    def keep(
        self, found: Summary, var: fun.Var, source: fun.Atom, index: Lmad | None = None
    ) -> None:
        """What is copied to where it is stays there: other arrays may be read, not written."""
        if var.name in self.moving:
            self.write(found, var, index, written=False)
            self.read(found, source)

    def read_element(self, expr: fun.Index) -> Summary:
        """One element; along an axis with a boundary rule, any."""
        found = Summary()
        memory = self.at(expr.array)
        if memory is not None and expr.array.name not in self.moving:
            offset, kept = memory.index.offset, []
            rules = expr.boundary or (None,) * len(expr.indices)
            for index, rule, dim in zip(expr.indices, rules, memory.index.dims, strict=True):
                if rule is None:
                    offset = offset + index * dim[1]
                else:
                    kept.append(dim)
            self.read(found, expr.array, Lmad(offset, tuple(kept)))
        return found

    def at_once(self, pattern: Sequence[fun.Var], read: Iterable[fun.Atom]) -> Summary:
        """All of the pattern is written while all of the operands is read."""
        found = Summary()
        for atom in read:
            self.read(found, atom)
        for var in pattern:
            self.write(found, var)
        self.check(found.writes, found.uses)
        return found

    def concat(self, whole: fun.Var, arrays: Sequence[fun.Var], axis: int) -> Summary:
        """Parts that lie where they belong are neither read nor written."""
        found = Summary()
        target = self.at(whole)
        start: Size = Poly.const(0)
        for array in arrays:
            extent = walk.type_sizes(array.type)[axis]
            if target is None:
                self.read(found, array)
            else:
                part = layout.of_part(target.index, axis, start, extent)
                self.part(found, array, whole, part)
            start = start + extent
        self.check(found.writes, found.uses)
        return found

    def update(self, var: fun.Var, expr: fun.Update | fun.LmadUpdate) -> Summary:
        found = Summary()
        target = self.at(var)
        if target is None:
            self.read(found, expr.value)
        else:
            self.part(found, expr.value, var, layout.of_update(expr, target.index))
        self.check(found.writes, found.uses)
        return found

    def part(self, found: Summary, value: fun.Atom, var: fun.Var, index: Lmad) -> None:
        memory = self.at(value)
        if memory is None or not memory.index.same(index):
            self.read(found, value)
            self.write(found, var, index)
        else:
            self.keep(found, var, value, index)

    # ------------------------------------------------------------ iterations

    def gathering(
        self, pattern: Sequence[fun.Var], space: tuple[fun.Range, ...],
        bodies: Sequence[fun.Body], initial: Sequence[fun.Atom] = (),
    ) -> Summary:  # fmt: skip
        """Reductions, scans and scatters: what they write may be written before any read."""
        ranges = _ranges(space)
        with self.scope.inside(ranges):
            inner = Summary()
            for body in bodies:
                inner.add(self.body(body.statements, {}, Summary()))
            found = self.leaving(inner, _bound(bodies), ranges)
        for atom in initial:
            self.read(found, atom)
        for var in pattern:
            self.write(found, var)
        self.check(found.writes, found.uses)
        return found

    def kernel(
        self, pattern: Sequence[fun.Var], space: tuple[fun.Range, ...], body: fun.Body
    ) -> Summary:
        """Each iteration ends with writing its scalars; there is no order between iterations."""
        ranges = _ranges(space)
        with self.scope.inside(ranges):
            last = Summary()
            indices = tuple(Poly.var(name) for name, _, _ in ranges)
            for var, result in zip(pattern, body.results, strict=True):
                memory = self.at(var)
                if memory is not None and isinstance(result.type, fun.Scalar):
                    self.write(last, var, memory.index.fix(indices))
            self.check(last.writes, last.uses)
            inner = self.body(body.statements, {}, last)
            bound = _bound((body,))
            if inner.writes and inner.uses:
                others = [
                    (name, *side)
                    for name, lower, upper in ranges
                    for side in _sides(name, lower, upper)
                ]
                self.check_others(inner, bound, ranges, others)
            return self.leaving(inner, bound, ranges)

    def loop(self, expr: fun.Loop) -> Summary:
        """What an iteration writes may not meet uses of later ones."""
        ranges: list[tuple[str, Size, Size]] = []
        bound = _bound((expr.body,)) | {param.name for param in expr.params}
        before = Summary()
        match expr.form:
            case fun.For(index, lower, upper):
                ranges.append((index.name, lower, upper))
                later = [(index.name, Poly.var(index.name) + 1, upper)]
            case fun.While(condition):
                later = []
                before = self.body(condition.statements, {}, Summary())
                bound |= _bound((condition,))
        with self.scope.inside(ranges):
            inner = self.body(expr.body.statements, {}, Summary())
            inner.uses.update(before.uses)
            if inner.writes and inner.uses:
                self.check_others(inner, bound, ranges, later)
            return self.leaving(inner, bound, ranges)

    def check_others(
        self, inner: Summary, bound: frozenset[str],
        ranges: Sequence[tuple[str, Size, Size]], others: Sequence[tuple[str, Size, Size]],
    ) -> None:  # fmt: skip
        """Writes of one iteration against uses of others.

        `others` are ranges of an index, those of earlier dimensions the same and those of
        later ones any; none: any iteration.
        """
        uses = [self.known(use, bound) for use in inner.uses]
        everywhere = [self.over(use, ranges) for use in uses]
        for write in inner.writes:
            for before, use, anywhere in zip(inner.uses, uses, everywhere, strict=True):
                if not (write.written or use.written):
                    continue
                if not _meet(write, before) and self.disjoint(write, anywhere):
                    continue
                if not others:
                    self.refuse(write, anywhere)
                names = [name for name, _, _ in ranges]
                for name, lower, upper in others:
                    inside = ranges[names.index(name) + 1 :]
                    other = self.over(use, ((name, lower, upper), *reversed(inside)))
                    if not self.disjoint(write, other):
                        self.refuse(write, other, anywhere)

    def leaving(
        self, inner: Summary, bound: frozenset[str], ranges: Sequence[tuple[str, Size, Size]]
    ) -> Summary:
        """What all iterations together access, in terms of what is known outside."""

        def outside(accesses: Accesses) -> Accesses:
            found = dict.fromkeys(
                self.over(self.known(access, bound), ranges) for access in accesses
            )
            if len(found) <= MOST:
                return found
            some = {access.written: access for access in found}  # a read and a write
            return dict.fromkeys(
                Access(None, None, a.array, a.place, a.written) for a in some.values()
            )

        return Summary(outside(inner.uses), outside(inner.writes))

    def known(self, access: Access, bound: frozenset[str]) -> Access:
        """The access without scalars that vary in a body in ways that nothing tells."""

        def without(index: Lmad | None) -> Lmad | None:
            if index is None or not variables(index) & bound:
                return index
            index = self.scope.resolve(index)
            for turn in sorted(variables(index) & bound & self.scope.turns):
                found = lmads.expand(index, turn, Poly.const(0), Poly.const(2))
                if found is None:
                    return None
                index = found
            return None if variables(index) & bound else index

        whole = without(access.whole)
        return Access(
            without(access.index) or whole, whole, access.array, access.place, access.written
        )

    def over(self, access: Access, ranges: Iterable[tuple[str, Size, Size]]) -> Access:
        """The union over the ranges of indices."""
        index, whole = access.index, access.whole
        for name, lower, upper in ranges:
            index = self._covered(index, name, lower, upper)
            whole = self._covered(whole, name, lower, upper)
        return Access(index or whole, whole, access.array, access.place, access.written)

    def _covered(self, index: Lmad | None, name: str, lower: Size, upper: Size) -> Lmad | None:
        if index is None or name not in variables(index):
            return index
        lower, upper = self.scope.resolved(lower), self.scope.resolved(upper)
        if name in lower.variables() | upper.variables():
            # Where the others are counted from this iteration on, that is not theirs.
            own = put(index, name, Poly.var(_OTHER))
            return self.scope.cover(own, _OTHER, lower, upper - lower)
        return self.scope.cover(index, name, lower, upper - lower)

    # ------------------------------------------------------------ checks

    def undecided(self, left: Lmad, right: Lmad) -> bool:
        return left.offset != right.offset and self.scope.overlap(left, right).answer == "unknown"

    def launched(self, access: Access) -> Lmad | None:
        """All that an access may be of, of all iterations around, as a launch knows it."""
        ranges = list(reversed(self.scope.ranges))
        for index in (access.index, access.whole):
            if index is None:
                continue
            one = Access(self.scope.resolve(index), None, access.array, None, access.written)
            found = self.over(one, ranges).index
            if found is not None and variables(found) <= self.scope.launch:
                return found
        return None

    def check(self, writes: Iterable[Access], uses: Iterable[Access]) -> None:
        for write in writes:
            for use in uses:
                if (write.written or use.written) and not self.disjoint(write, use):
                    self.refuse(write, use)

    def disjoint(self, write: Access, use: Access) -> bool:
        """Whether they are proved apart, by themselves or (in bounds) by their arrays."""
        pairs = itertools.product(
            dict.fromkeys((write.index, write.whole)), dict.fromkeys((use.index, use.whole))
        )
        return any(self.apart(left, right) for left, right in pairs)

    def apart(self, left: Lmad | None, right: Lmad | None) -> bool:
        """Whether two sets of elements are proved to have none in common."""
        if left is None or right is None:
            return False
        if self.all is not None and self.all in (self.scope.count(left), self.scope.count(right)):
            return False
        return self.scope.apart(left, right)

    def refuse(self, write: Access, use: Access, total: Access | None = None) -> None:
        """Give up, unless the launch is to compare; `total` is of all iterations."""
        left, right = self.launched(write), self.launched(total or use)
        if left is not None and right is not None and self.undecided(left, right):
            self.pairs.append((left, right))
            if self.assume:
                return
        if write.index is None or use.index is None:
            what = write if write.index is None else use
            found = f"which elements of {what.array} are accessed is not known"
        else:
            found = f"{self.scope.overlap(write.index, use.index)}"
        raise Refused("overlap", f"{use} after {write.array} would be written; {found}")


def _meet(left: Access, right: Access) -> bool:
    """Whether both plainly have an element in common, in one iteration."""
    first, second = left.index, right.index
    return first is not None and second is not None and first.offset == second.offset


_OTHER = "other."  # the index of another iteration


def _ranges(space: tuple[fun.Range, ...]) -> list[tuple[str, Size, Size]]:
    return [(r.index.name, Poly.const(0), r.extent) for r in space]


def _sides(name: str, lower: Size, upper: Size) -> tuple[tuple[Size, Size], tuple[Size, Size]]:
    """The indices before and after this one."""
    return (lower, Poly.var(name)), (Poly.var(name) + 1, upper)


def _bound(bodies: Iterable[fun.Body]) -> frozenset[str]:
    """Scalars that statements of the bodies bind, at any depth, and indices of inner ones."""
    names: set[str] = set()
    for body in bodies:
        for let in walk.statements(body):
            names.update(var.name for var in (*let.pattern, *walk.operands(let.expr)[2]))
    return frozenset(names)
