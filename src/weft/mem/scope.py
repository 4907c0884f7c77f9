"""What is known of the scalars in scope, as the memory passes go into and out of bodies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from weft.fun import nodes as fun
from weft.fun import walk
from weft.lmad import Lmad
from weft.lmad import sets as lmads
from weft.lmad.overlap import Verdict, overlap
from weft.ops.dtypes import DType
from weft.sizes import Fact, Poly, Size, as_poly, product
from weft.sizes.prove import Prover


class Scope:
    """Ranges of indices, definitions of int64 scalars, and proofs from both.

    Attributes
    ----------
    ranges : list of (str, Size, Size)
        Indices of the kernels and loops that stand around: name, least, one past the last.
    launch : frozenset of str
        Variables that have values when the program is called.
    """

    def __init__(self, program: fun.Program, strides: Iterable[str] = ()) -> None:
        self.program = program
        derived = (entry.name for entry in program.derived)
        self.launch = frozenset((*program.sizes, *derived, *strides))
        self.ranges: list[tuple[str, Size, Size]] = []
        self.definitions = _definitions(program.body)
        self.turns = frozenset(_turns(program.body))
        self._provers: list[Prover] = []  # with so many of the ranges
        self._verdicts: dict[tuple[object, ...], Verdict] = {}
        self._sizes = frozenset(program.sizes)
        self._spans: dict[Lmad, tuple[Size, Size] | None] = {}
        self._turning: dict[Lmad, frozenset[str]] = {}
        self._turned: dict[tuple[Lmad, str], tuple[Lmad, Lmad]] = {}
        self._covers: dict[tuple[object, ...], Lmad | None] = {}

    @contextmanager
    def inside(self, ranges: Iterable[tuple[str, Size, Size]]) -> Iterator[None]:
        """Inside of these indices' kernel or loop."""
        depth = len(self.ranges)
        self.ranges.extend(ranges)
        try:
            yield
        finally:  # also of what is refused in there
            del self.ranges[depth:]
            del self._provers[depth + 1 :]

    @property
    def prover(self) -> Prover:
        if not self._provers:
            source = self.program
            known = Prover(source.facts, sizes=source.sizes, derived=source.derived)
            self._provers.append(self._with_limits(known))
        while len(self._provers) <= len(self.ranges):
            name, lower, upper = self.ranges[len(self._provers) - 1]
            lower, upper = self.resolved(lower), self.resolved(upper)
            self._provers.append(self._provers[-1].within(name, lower, upper - 1))
        return self._provers[-1]

    def _with_limits(self, known: Prover) -> Prover:
        """With what minima and maxima among the scalars say: low = max(min(i, n - e), 0)."""
        above: dict[Size, list[Size]] = {}  # of a scalar what it is at most
        below: dict[Size, list[Size]] = {}
        for let in walk.statements(self.program.body):
            match let.expr:
                case fun.Apply("minimum" | "maximum" as operation, (left, right)):
                    pass
                case _:
                    continue
            pair = _integer(left), _integer(right)
            if pair[0] is None or pair[1] is None:
                continue
            one, other = self.resolved(pair[0]), self.resolved(pair[1])
            var = Poly.var(let.pattern[0].name)
            sides = (one, other), (other, one)
            if operation == "minimum":
                above[var] = [one, other]
                below[var] = [
                    limit
                    for side, rest in sides
                    for limit in below.get(side, [side])
                    if known.less_equal(limit, rest)
                ]
            else:
                below[var] = [one, other]
                above[var] = [
                    limit
                    for side, rest in sides
                    for limit in above.get(side, [side])
                    if known.less_equal(rest, limit)
                ]
            facts = [limit - var for limit in above[var]] + [var - limit for limit in below[var]]
            known = known.assuming(*(Fact(">=0", fact) for fact in facts))
        return known

    def resolved(self, size: Size) -> Size:
        """With what scalars are defined as in their place."""
        return size.substitute(self.definitions) if self.definitions else size

    def resolve(self, index: Lmad) -> Lmad:
        if not self.definitions:
            return index
        dims = tuple((self.resolved(n), self.resolved(s)) for n, s in index.dims)
        return Lmad(self.resolved(index.offset), dims)

    # ------------------------------------------------------------ proofs

    def apart(self, left: Lmad, right: Lmad) -> bool:
        """Whether two sets of elements are proved to have none in common."""
        if self.plainly_apart(left, right):
            return True
        if left.offset == right.offset:  # an element of both
            return False
        return self.overlap(left, right).answer == "no"

    def count(self, index: Lmad) -> Size:
        """How many elements it has, in normal form."""
        count = product(index.shape)
        return count if count.is_constant else self.prover.normal(self.resolved(count))

    def plainly_apart(self, left: Lmad, right: Lmad) -> bool:
        """Whether one ends before the other begins, by the signs of factors alone."""
        for turn in self._turns_in(left) | self._turns_in(right):
            cases = zip(self._by_turn(left, turn), self._by_turn(right, turn), strict=True)
            return all(self.plainly_apart(*case) for case in cases)
        one, other = self._span(left), self._span(right)
        if one is None or other is None:
            return False
        (first, last), (start, end) = one, other
        return self._plain(start - last - 1) or self._plain(first - end - 1)

    def _turns_in(self, index: Lmad) -> frozenset[str]:
        """The turns of buffers that an index function names."""
        found = self._turning.get(index)
        if found is None:
            found = self._turning[index] = self.turns & variables(index)
        return found

    def _by_turn(self, index: Lmad, turn: str) -> tuple[Lmad, Lmad]:
        """What it is in the one turn, and in the other."""
        key = index, turn
        if key not in self._turned:
            self._turned[key] = put(index, turn, 0), put(index, turn, 1)
        return self._turned[key]

    def _span(self, index: Lmad) -> tuple[Size, Size] | None:
        """The least and the greatest element, where strides are plainly not negative."""
        if index not in self._spans:
            plain = all(map(self._plain, index.strides))
            last = sum(((n - 1) * stride for n, stride in index.dims), index.offset)
            self._spans[index] = (index.offset, last) if plain else None
        return self._spans[index]

    def _plain(self, size: Size) -> bool:
        """Whether a polynomial is >= 0 because its factors are, and its variables sizes."""
        return all(factor >= 0 for factor in size.terms.values()) and (
            size.variables() <= self._sizes
        )

    def overlap(self, left: Lmad, right: Lmad) -> Verdict:
        """Whether two sets of elements meet; a buffer's turn is 0 or 1, by cases."""
        left, right = self.resolve(left), self.resolve(right)
        turns = self._turns_in(left) | self._turns_in(right)
        if turns:
            turn = min(turns)
            cases = zip(self._by_turn(left, turn), self._by_turn(right, turn), strict=True)
            for case in cases:
                verdict = self.overlap(*case)
                if verdict.answer != "no":
                    break
            return verdict
        key = left, right, tuple(self.ranges)
        if key not in self._verdicts:
            self._verdicts[key] = overlap(left, right, self.prover)
        return self._verdicts[key]

    # ------------------------------------------------------------ updates at LMADs

    def admits(self, index: Lmad, extent: Size, at_launch: bool) -> bool:
        """Whether an LMAD is inside of an array of this extent, and meets no element twice.

        By proof or, with `at_launch`, because the launch knows enough to check it
        (`weft.lower.lmads` asks it to, where ranges end in sizes alone).
        """
        index, extent = self.resolve(index), self.resolved(extent)
        inside, once = self.lies_inside(index, extent), lmads.is_injective(index, self.prover)
        if inside and once:
            return True
        lengths = [self.resolved(upper - lower) for _, lower, upper in self.ranges]
        launched = [*lengths, extent, *index.shape, *index.strides]
        if not at_launch or any(not size.variables() <= self.launch for size in launched):
            return False
        return inside or all(self._at_launch(index, sign) for sign in (1, -1))

    def lies_inside(self, index: Lmad, extent: Size) -> bool:
        """Whether 0 <= least and greatest < extent is proved of an LMAD that is resolved."""
        prover, least, greatest = self.prover, index.offset, index.offset
        for count, stride in index.dims:
            if prover.nonnegative(stride):
                greatest = greatest + (count - 1) * stride
            elif prover.nonnegative(-stride):
                least = least + (count - 1) * stride
            else:
                return False
        return prover.nonnegative(least) and prover.less(greatest, extent)

    def _at_launch(self, index: Lmad, sign: int) -> bool:
        """Whether the launch knows the greatest (sign = -1: the least) element over all ranges."""
        source = self.program
        known = Prover(source.facts, sizes=source.sizes, derived=source.derived)
        if not all(known.nonnegative(s) or known.nonnegative(-s) for s in index.strides):
            return False
        left = index.offset
        for name, lower, upper in reversed(self.ranges):
            factor = left.coefficient(name)
            if left.degree(name) > 1:
                return False
            if known.nonnegative(factor * sign):
                left = left.without(name) + factor * (self.resolved(upper) - 1)
            elif known.nonnegative(-factor * sign):
                left = left.without(name) + factor * self.resolved(lower)
            else:
                return False
        return left.variables() <= self.launch

    def cover(self, index: Lmad, name: str, lower: Size, extent: Size) -> Lmad | None:
        """What an index function covers over a range of one of its variables."""
        key = index, name, lower, extent, *self.ranges
        if key not in self._covers:
            self._covers[key] = lmads.cover(index, name, lower, extent, self.prover)
        return self._covers[key]


def ranges_of(expr: fun.Expr) -> list[tuple[str, Size, Size]]:
    """The ranges of the indices that an expression binds."""
    match expr:
        case fun.Kernel(space) | fun.Reduce(space) | fun.Scan(space) | fun.Scatter(_, space):
            return [(r.index.name, Poly.const(0), r.extent) for r in space]
        case fun.Loop(_, _, fun.For(index, lower, upper)):
            return [(index.name, lower, upper)]
        case _:
            return []


def variables(index: Lmad) -> frozenset[str]:
    """Names in an index function."""
    names = set(index.offset.variables())
    for extent, stride in index.dims:
        names |= extent.variables() | stride.variables()
    return frozenset(names)


def put(index: Lmad, name: str, value: Size | int) -> Lmad:
    """The index function with a value for a variable."""
    values = {name: as_poly(value)}
    dims = tuple((n.substitute(values), s.substitute(values)) for n, s in index.dims)
    return Lmad(index.offset.substitute(values), dims)


def _definitions(body: fun.Body) -> dict[str, Size]:
    """The int64 scalars that are polynomials of others, as polynomials of what is none."""
    known: dict[str, Size] = {}
    for let in walk.statements(body):
        match let.expr:
            case fun.SizeValue(size):
                poly: Size | None = size
            case fun.Apply("add" | "subtract" | "multiply" as operation, (left, right)):
                poly = _combined(operation, left, right)
            case fun.Cast(DType.I64, argument):
                poly = _integer(argument)
            case _:
                poly = None
        if poly is not None:
            known[let.pattern[0].name] = poly.substitute(known)
    return known


def _combined(operation: str, left: fun.Atom, right: fun.Atom) -> Size | None:
    first, second = _integer(left), _integer(right)
    if first is None or second is None:
        return None
    match operation:
        case "add":
            return first + second
        case "subtract":
            return first - second
        case _:
            return first * second


def _integer(atom: fun.Atom) -> Size | None:
    if atom.type != fun.Scalar(DType.I64):
        return None
    return Poly.var(atom.name) if isinstance(atom, fun.Var) else as_poly(int(atom.value.real))


def _turns(body: fun.Body) -> Iterator[str]:
    """Loop parameters that begin as 0 and become 1 less themselves: whose turn it is."""
    for let in walk.statements(body):
        for param, var in turns_of(let):
            yield from (param.name, var.name)


def turns_of(let: fun.Let) -> Iterator[tuple[fun.Var, fun.Var]]:
    """The parameters of a loop that say whose turn it is, and what they have become after it."""
    if not isinstance(let.expr, fun.Loop):
        return
    loop = let.expr
    made = {inner.pattern[0].name: inner.expr for inner in loop.body.statements}
    for param, first, result, var in zip(
        loop.params, loop.initial, loop.body.results, let.pattern, strict=True
    ):
        flip = fun.Apply("subtract", (fun.Const(1, DType.I64), param))
        zero = first == fun.Const(0, DType.I64)
        if zero and isinstance(result, fun.Var) and made.get(result.name) == flip:
            yield param, var
