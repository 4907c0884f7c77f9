"""Footprints: which elements of its arrays a statement reads when it runs on a box.

A box fixes the range of one index variable of a statement (the *cut* index). The footprint
of a read is an interval of each axis of the array read, found by interval arithmetic on its
index polynomials with actual sizes, for all boxes at once: bounds are int64 arrays with one
element for each box. An axis whose index depends on data is read whole, unless all that it
depends on are pointers: integers in memory that bound loops, as the rows' starts of a sparse
matrix do (`weft.plan.pointers`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun import walk
from weft.ops.dtypes import DType
from weft.plan.calls import CutCall, cut_call
from weft.plan.loops import CutLoop, cut_loop
from weft.plan.pointers import Pointers
from weft.records import dataclass
from weft.sizes import ONE, ZERO, Poly, Size

Numbers: TypeAlias = Any  # int, or an int64 ndarray with one element for each box
Interval: TypeAlias = tuple[Numbers, Numbers]  # both ends included
Bounds: TypeAlias = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]  # lower, upper excluded


@dataclass(frozen=True, slots=True)
class Access:
    """A read of `array` by a statement.

    `index` holds for each axis the first and the last index read (polynomials), or None
    where the whole axis may be read. `node` is the expression that reads; it identifies the
    access inside its statement, since index variables are bound once in a program.
    """

    array: str
    index: tuple[tuple[Size, Size] | None, ...]
    boundary: tuple[fun.Boundary | None, ...]
    node: fun.Expr | int | None  # an int: an argument of a call, a read of a loop
    place: Place | None


@dataclass(frozen=True, slots=True)
class IndexRange:
    """An index variable: lower <= index < upper."""

    lower: Size
    upper: Size


Definition: TypeAlias = IndexRange | fun.Expr


class Reads:
    """The reads of one top-level statement, and what defines the scalars in their indices."""

    def __init__(self, let: fun.Let, arrays: Mapping[str, int], leans: bool = False) -> None:
        """`arrays`: the rank of every array whose reads matter. `leans`: of a loop, in boxes."""
        self.arrays = arrays
        self.leans = leans
        self.definitions: dict[str, Definition] = {}
        self.accesses: list[Access] = []
        self._seen: set[tuple[str, object]] = set()
        self._resolved: dict[Size, Size] = {}
        self._dependent: dict[str, Collection[str]] = {}
        self._lasts: dict[str, Size | None] = {}
        self._let(let)

    # ------------------------------------------------------------ collecting

    def _let(self, let: fun.Let) -> None:
        expr = let.expr
        match expr:
            case fun.Index(array, indices, boundary) if array.name in self.arrays:
                rules = boundary or (None,) * len(indices)
                self._add(array.name, tuple((i, i) for i in indices), rules, expr, let.place)
            case fun.Slice(array, dims) if array.name in self.arrays:
                ends = tuple(_span_ends(dim) for dim in dims)
                self._add(array.name, ends, (None,) * len(dims), expr, let.place)
            case fun.Call() if (cut := cut_call(let)) is not None:
                self._call(let, expr, cut)
            case fun.Loop() if (rounds := cut_loop(let, self.leans)) is not None:
                self._loop(let, rounds)
                return
            case _:
                for atom in walk.operands(expr)[0]:
                    if isinstance(atom, fun.Var) and atom.name in self.arrays:
                        self._whole(atom.name, let.place)
        if len(let.pattern) == 1 and _is_known(let.pattern[0].type, expr):
            self.definitions[let.pattern[0].name] = expr
        match expr:
            case fun.Kernel(space) | fun.Reduce(space) | fun.Scan(space) | fun.Scatter(_, space):
                for dim in space:
                    self.definitions[dim.index.name] = IndexRange(ZERO, dim.extent)
            case fun.Loop(_, _, fun.For(index, lower, upper)):
                self.definitions[index.name] = IndexRange(lower, upper)
        for body in walk.bodies(expr):
            for inner in body.statements:
                self._let(inner)
            for result in body.results:
                if isinstance(result, fun.Var) and result.name in self.arrays:
                    self._whole(result.name, let.place)

    def _call(self, let: fun.Let, call: fun.Call, cut: CutCall) -> None:
        for number, (atom, index) in enumerate(zip(call.arguments, cut.reads, strict=True)):
            if isinstance(atom, fun.Var) and atom.name in self.arrays:
                self._add(atom.name, index, (None,) * len(index), number, let.place)
        for name, extent in (*cut.axes, *((cut.summed,) if cut.summed else ())):
            self.definitions[name] = IndexRange(ZERO, extent)

    def _loop(self, let: fun.Let, cut: CutLoop) -> None:
        for number, (array, index) in enumerate(cut.reads):
            if array.name in self.arrays:
                self._add(array.name, index, (None,) * len(index), number, let.place)
        for name, extent in cut.axes:
            self.definitions[name] = IndexRange(ZERO, extent)

    def _whole(self, array: str, place: Place | None) -> None:
        rank = self.arrays[array]
        self._add(array, (None,) * rank, (None,) * rank, None, place)

    def _add(
        self,
        array: str,
        index: tuple[tuple[Size, Size] | None, ...],
        boundary: tuple[fun.Boundary | None, ...],
        node: fun.Expr | int | None,
        place: Place | None,
    ) -> None:
        if (array, node) not in self._seen:
            self._seen.add((array, node))
            self.accesses.append(Access(array, index, boundary, node, place))

    # ------------------------------------------------------------ scalars in indices

    def resolve(self, size: Size) -> Size:
        """The polynomial with scalars replaced by the polynomials that define them."""
        found = self._resolved.get(size)
        if found is None:
            values = {}
            for name in size.variables():
                polynomial = self._polynomial(name)
                if polynomial is not None:
                    values[name] = polynomial
            found = self._resolved[size] = size.substitute(values) if values else size
        return found

    def _polynomial(self, name: str) -> Size | None:
        match self.definitions.get(name):
            case fun.SizeValue(size):
                return self.resolve(size)
            case fun.Apply("add", (left, right)):
                return self.resolve(_as_size(left) + _as_size(right))
            case fun.Apply("subtract", (left, right)):
                return self.resolve(_as_size(left) - _as_size(right))
            case fun.Apply("multiply", (left, right)):
                return self.resolve(_as_size(left) * _as_size(right))
            case fun.Apply("negative", (argument,)):
                return self.resolve(-_as_size(argument))
            case _:
                return None

    def last(self, name: str) -> Size | None:
        """The last value of a loop's index, where the statement computes that."""
        if name not in self._lasts:
            self._lasts[name] = self._last(name)
        return self._lasts[name]

    def _last(self, name: str) -> Size | None:
        definition = self.definitions.get(name)
        if not isinstance(definition, IndexRange):
            return None
        upper = self.resolve(definition.upper)
        match self.definitions.get(upper.variable or ""):
            case fun.Apply("maximum", (argument, fun.Const(0))):  # or it has no rounds
                upper = self.resolve(_as_size(argument))
        return upper - 1 if upper.variables() & self.definitions.keys() else None

    def depends(self, size: Size, index: str) -> bool:
        """Whether a polynomial's value may depend on an index variable."""
        return any(index in self._variables(name) for name in size.variables())

    def bounding(self) -> set[str]:
        """What the bounds of loops depend on."""
        bounds = (d for d in self.definitions.values() if isinstance(d, IndexRange))
        names = {n for d in bounds for size in (d.lower, d.upper) for n in size.variables()}
        return {found for name in names for found in self._variables(name)}

    def _variables(self, name: str) -> Collection[str]:
        found = self._dependent.get(name)
        if found is None:
            used = {name}
            self._dependent[name] = used  # definitions are acyclic; this only saves work
            definition = self.definitions.get(name)
            if isinstance(definition, fun.Apply | fun.Cast | fun.SizeValue | fun.If | fun.Index):
                for inner in walk.used_names(definition):
                    used.update(self._variables(inner))
            found = used
        return found


def pointer_params(program: fun.Program) -> frozenset[str]:
    """The parameters whose elements bound loops: where rows of a sparse matrix begin."""
    ranks = {
        param.name: 1 for param in program.params
        if isinstance(param.type, fun.Array) and param.type.rank == 1
        and param.type.dtype.is_integer
    }  # fmt: skip
    if not ranks:
        return frozenset()
    return frozenset(
        name for let in program.body.statements for name in Reads(let, ranks).bounding()
    ) & ranks.keys()


def _is_known(type_: fun.Type, expr: fun.Expr) -> bool:
    """Whether a definition may say what an index is: no number of it wraps around."""
    if not isinstance(type_, fun.Scalar):
        return False
    if type_.dtype is DType.BOOL:
        return isinstance(expr, fun.Apply) and expr.operation in _COMPARISONS
    return type_.dtype is DType.I64 or (type_.dtype.is_integer and isinstance(expr, fun.Index))


def _as_size(atom: fun.Atom) -> Size:
    if isinstance(atom, fun.Const):
        return Poly.const(int(atom.value.real))
    return Poly.var(atom.name)


def _span_ends(dim: fun.Span | Size) -> tuple[Size, Size]:
    if not isinstance(dim, fun.Span):
        return dim, dim
    last = dim.start + (dim.extent - ONE) * dim.step
    return (dim.start, last) if dim.step > 0 else (last, dim.start)


class Intervals:
    """Interval arithmetic on the scalars of one statement, for many boxes at once.

    Parameters
    ----------
    reads : Reads
    sizes : mapping of str to int
        Every size variable, derived ones included.
    fixed : mapping of str to Interval
        Index variables with the ranges that the boxes give them.
    pointers : mapping of str to Pointers, optional
        Arrays of integers whose elements are known.
    """

    def __init__(
        self, reads: Reads, sizes: Mapping[str, int], fixed: Mapping[str, Interval],
        pointers: Mapping[str, Pointers] | None = None,
    ) -> None:  # fmt: skip
        self.reads = reads
        self.sizes = sizes
        self.pointers = pointers or {}
        self.fixed = fixed
        self.known: dict[str, Interval | None] = dict(fixed)

    def size(self, size: Size) -> Interval | None:
        """The least and the greatest value of a polynomial (None: not known)."""
        resolved = self.reads.resolve(size)
        found = self._sum(resolved)
        if found is None:
            return None
        low, high = found
        for name in resolved.variables():
            # What a loop over a slice reads ends where that does, wherever it begins.
            last = None if name in self.fixed else self.reads.last(name)
            if last is None or resolved.degree(name) != 1:
                continue
            factor = resolved.coefficient(name)
            if not factor.is_constant:
                continue
            at_last = self._sum(resolved.substitute({name: last}))
            if at_last is None:
                continue
            if factor.constant > 0:
                high = np.minimum(high, at_last[1])
            else:
                low = np.maximum(low, at_last[0])
        return low, high

    def _sum(self, size: Size) -> Interval | None:
        low: Numbers = 0
        high: Numbers = 0
        for monomial, factor in size.terms.items():
            term: Interval = (factor, factor)
            for name in monomial:
                other = self.variable(name)
                if other is None:
                    return None
                term = _times(term, other)
            low, high = low + term[0], high + term[1]
        return low, high

    def variable(self, name: str) -> Interval | None:
        if name in self.sizes:
            value = self.sizes[name]
            return value, value
        if name not in self.known:
            definition = self.reads.definitions.get(name)
            self.known[name] = None if definition is None else self._defined(definition)
        return self.known[name]

    def atom(self, atom: fun.Atom) -> Interval | None:
        if isinstance(atom, fun.Const):
            if not isinstance(atom.value, int):
                return None
            return int(atom.value), int(atom.value)
        return self.variable(atom.name)

    def _defined(self, definition: Definition) -> Interval | None:
        match definition:
            case IndexRange(lower, upper):
                first, last = self.size(lower), self.size(upper)
                if first is None or last is None:
                    return None
                return first[0], np.maximum(last[1] - 1, first[0])
            case fun.SizeValue(size):
                return self.size(size)
            case fun.Cast(DType.I64, fun.Var() as argument):
                return self.atom(argument)
            case fun.Index(array, (index,), ()) if array.name in self.pointers:
                places = self.size(index)
                return None if places is None else self.pointers[array.name].between(*places)
            case fun.Apply(operation, arguments):
                found = [self.atom(argument) for argument in arguments]
                return _apply(operation, found)
            case _:
                return None


def _chosen(
    test: Interval | None, left: Interval | None, right: Interval | None
) -> Interval | None:
    """The interval of `where`; that of one side where the test is known."""
    low, high = (0, 1) if test is None else test
    if np.all(low > 0):
        return left
    if np.all(high < 1):
        return right
    if left is None or right is None:
        return None
    both = _hull(left, right)
    chosen = [
        np.where(low > 0, own, np.where(high < 1, other, hull))
        for own, other, hull in zip(left, right, both, strict=True)
    ]
    return chosen[0], chosen[1]


_TURNED = {"greater": "less", "greater_equal": "less_equal"}
_COMPARISONS = {"less", "less_equal", *_TURNED}


def _times(left: Interval, right: Interval) -> Interval:
    factor = left[0]
    if factor is left[1] and isinstance(factor, int):  # as most are
        low, high = right if factor >= 0 else (right[1], right[0])
        return (low, high) if factor == 1 else (factor * low, factor * high)
    products = [a * b for a in left for b in right]
    low, high = products[0], products[0]
    for product in products[1:]:
        low, high = np.minimum(low, product), np.maximum(high, product)
    return low, high


def _hull(left: Interval, right: Interval) -> Interval:
    return np.minimum(left[0], right[0]), np.maximum(left[1], right[1])


def _apply(operation: str, found: list[Interval | None]) -> Interval | None:
    """The interval of an int64 operation whose operands lie in intervals."""
    match operation, found:
        case "minimum", [left, right]:
            if left is None or right is None:
                return None
            return np.minimum(left[0], right[0]), np.minimum(left[1], right[1])
        case "maximum", [left, right]:
            if left is None or right is None:
                return None
            return np.maximum(left[0], right[0]), np.maximum(left[1], right[1])
        case "where", [test, left, right]:
            return _chosen(test, left, right)
        case "less", [(a, b), (c, d)]:
            return np.less(b, c) * 1, np.less(a, d) * 1
        case "less_equal", [(a, b), (c, d)]:
            return np.less_equal(b, c) * 1, np.less_equal(a, d) * 1
        case "greater" | "greater_equal", [left, right]:
            return _apply(_TURNED[operation], [right, left])
        case "add", [(a, b), (c, d)]:
            return a + c, b + d
        case "subtract", [(a, b), (c, d)]:
            return a - d, b - c
        case "multiply", [(a, b), (c, d)]:
            return _times((a, b), (c, d))
        case "negative", [(a, b)]:
            return -b, -a
        case "abs" | "absolute", [(a, b)]:
            return np.maximum(np.maximum(a, -b), 0), np.maximum(-a, b)
        case "floor_divide", [(a, b), (c, d)] if np.all(c == d) and np.all(c > 0):
            return a // c, b // c
        case "remainder", [(a, b), (c, d)] if np.all(c == d) and np.all(c > 0):
            inside = a // c == b // c  # no wrap within the interval
            return np.where(inside, a % c, 0), np.where(inside, b % c, c - 1)
        case _:
            return None


def footprint(
    access: Access, intervals: Intervals, shape: tuple[int, ...], boxes: int
) -> tuple[Bounds, ...]:
    """For each axis the elements that boxes read: `lower <= index < upper`, inside the array.

    Parameters
    ----------
    access : Access
    intervals : Intervals
    shape : tuple of int
        The actual shape of the array.
    boxes : int
        How many boxes; each bound has this many elements.

    Returns
    -------
    tuple of (lower, upper)
        For an empty footprint `lower == upper`.
    """
    found = []
    for ends, rule, extent in zip(access.index, access.boundary, shape, strict=True):
        low: Numbers = 0
        high: Numbers = extent - 1
        if ends is not None:
            first = intervals.size(ends[0])
            last = first if ends[1] is ends[0] else intervals.size(ends[1])
            if first is not None and last is not None:
                low, high = _inside(first[0], last[1], rule, intervals, extent)
        low = np.minimum(np.maximum(low, 0), extent)  # a third of what np.clip takes
        high = np.minimum(np.maximum(high, -1), extent - 1)
        upper = np.maximum(high + 1, low)
        found.append((_spread(low, boxes), _spread(upper, boxes)))
    return tuple(found)


def unwrapped(access: Access, intervals: Intervals, axis: int, boxes: int) -> Bounds | None:
    """What boxes read along an axis that wraps around, as if it went on beyond both ends.

    None where the axis does not wrap, or nothing is known of the index.
    """
    ends, rule = access.index[axis], access.boundary[axis]
    if ends is None or rule is None or rule.kind != "wrap":
        return None
    first, last = intervals.size(ends[0]), intervals.size(ends[1])
    if first is None or last is None:
        return None
    return _spread(first[0], boxes), _spread(last[1] + 1, boxes)


def _spread(value: Numbers, boxes: int) -> npt.NDArray[np.int64]:
    array = np.asarray(value, dtype=np.int64)
    return array if array.shape == (boxes,) else np.broadcast_to(array, (boxes,))


def _inside(
    low: Numbers, high: Numbers, rule: fun.Boundary | None, intervals: Intervals, extent: int
) -> Interval:
    """Where indices from `low` to `high` read under a boundary rule."""
    if rule is None or rule.kind == "constant":
        return low, high
    limits = intervals.size(rule.lower), intervals.size(rule.upper)
    if limits[0] is None or limits[1] is None:
        return 0, extent - 1
    first, last = limits[0][0], limits[1][1] - 1
    if rule.kind == "edge":
        return np.clip(low, first, last), np.clip(high, first, last)
    if rule.kind == "wrap":
        out = (low < first) | (high > last)
        return np.where(out, first, low), np.where(out, last, high)
    # Mirrored at an edge: as far inside as it is outside; further out, everything.
    mirrored_high = np.where(low < first, np.maximum(high, 2 * first - low), high)
    mirrored_low = np.where(high > last, np.minimum(low, 2 * last - high), low)
    far = (mirrored_high > last) & (low < first) | (mirrored_low < first) & (high > last)
    low = np.where(far, first, np.maximum(mirrored_low, first))
    return low, np.where(far, last, np.minimum(mirrored_high, last))
