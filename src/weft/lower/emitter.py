"""Growing IMP: nested statement lists, and each scalar placed where it varies least.

A level is the body of a loop or of a branch. A scalar is declared at the outermost level
that everything it depends on allows, so what is invariant in a loop stands before it.
Loads and costly operations do not leave a branch, nor a loop that may not run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from weft.errors import Place
from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower.unit import Placed, Unit
from weft.mem.nodes import Choice, MemArray
from weft.ops.dtypes import DType
from weft.plan.segment import PARTS
from weft.records import dataclass
from weft.sizes import ONE, Derived, Poly, Size, as_poly

if TYPE_CHECKING:
    from weft.lower.masks import Ends
    from weft.lower.spans import Spans

Stmts = list[imp.Stmt]


@dataclass(slots=True)
class Watch:
    """The largest index that a simd loop met, as an unsigned number: to be checked after it.

    Of 32 bits where the indices were made of such: then twice as many fit a vector.
    """

    worst: imp.Var
    extent: imp.Expr
    code: int


class Emitter:
    """The point of a program where statements are being added."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.levels: list[Stmts] = [[]]
        self.floor = 0  # no load or costly operation goes above this level
        self.scalars: dict[str, imp.Expr] = {}  # FUN name -> its value here
        self.depths: dict[str, int] = {}  # IMP name, FUN array -> the level that defines it
        self.pointers: dict[tuple[str, DType], imp.Pointer] = {}
        self.chosen: dict[tuple[int, str, DType], imp.Pointer] = {}
        self.polynomials: dict[tuple[int, Size], imp.Expr] = {}
        self.definitions: dict[str, tuple[str, tuple[Size, ...]]] = {}  # int64 scalars
        self.ranges: dict[str, tuple[Size, Size]] = {}  # index -> lower, upper (exclusive)
        self.known: tuple[Size, ...] = ()  # polynomials that are >= 0 here
        self.conditional = False  # reached only where data says so
        self.narrow: dict[str, imp.Expr] = {}  # int64 variables -> the int32 that they were cast of
        self.watched: list[Watch] | None = None  # in a simd loop: checks to make after it
        self.serial = False  # inside of something that is already run serially
        self.of_reduction = False  # a kernel is a reduction with kept dimensions
        self.tile_level = 0  # where a tile function begins; 0 outside of one
        self.tile_ranges: frozenset[str] = frozenset()  # indices of what is outside of it
        self.thread: imp.Expr = imp.ZERO
        self.comparisons: dict[str, tuple[tuple[Size, ...], tuple[Size, ...]]] = {}
        self.interior = False  # boundary rules on the innermost index are known not to apply
        self.true_inside: frozenset[str] = frozenset()  # comparisons that hold in the interior
        self.lane = ""  # the FUN name of the innermost index
        # In a vector with masks: its index, and the first and last element that it is at.
        self.ends: Ends | None = None
        self.spans: Spans | None = None  # in a vector with masks: elements that lie apart
        self.within: imp.Expr | None = None  # where all of its lanes are computed: those of it
        self.place: Place | None = None

    # ------------------------------------------------------------ statements

    @property
    def depth(self) -> int:
        return len(self.levels) - 1

    @property
    def in_tile(self) -> bool:
        return self.tile_level > 0

    def emit(self, statement: imp.Stmt) -> None:
        self.levels[-1].append(statement)

    @contextmanager
    def level(self, *, hoist: bool = False) -> Iterator[Stmts]:
        """A new innermost level; its statements are in the list when it has closed."""
        statements: Stmts = []
        floor, interior, known = self.floor, self.interior, self.known
        self.levels.append(statements)
        if not hoist:
            self.floor = self.depth
        yield statements
        self.levels.pop()
        self.floor, self.interior, self.known = floor, interior, known
        depth = self.depth
        for chosen in [key for key in self.chosen if key[0] > depth]:
            del self.chosen[chosen]
        if self.polynomials:
            for key in [key for key in self.polynomials if key[0] > depth]:
                del self.polynomials[key]

    @contextmanager
    def loop(
        self,
        var: imp.Var,
        lower: imp.Expr,
        upper: imp.Expr,
        *,
        step: int = 1,
        unroll: int = 1,
        hoist: bool = False,
        in_turn: imp.Expr | None = None,
    ) -> Iterator[None]:
        """`for var from lower to upper` around what is emitted inside."""
        with self.level(hoist=hoist) as body:
            self.depths[var.name] = self.depth
            yield
        self.emit(imp.For(var, lower, upper, tuple(body), step, unroll=unroll, in_turn=in_turn))

    @contextmanager
    def branch(self, condition: imp.Expr) -> Iterator[None]:
        with self.level() as body:
            yield
        if body:
            self.emit(imp.If(condition, tuple(body)))

    def either(
        self, condition: imp.Expr, then: Callable[[], None], otherwise: Callable[[], None]
    ) -> None:
        """What one or the other emits, as the condition says."""
        ways = []
        for way in (then, otherwise):
            with self.level() as body:
                way()
            ways.append(tuple(body))
        self.emit(imp.If(condition, ways[0], ways[1]))

    @contextmanager
    def own_scalars(self) -> Iterator[None]:
        """What is bound inside is not bound after it, as another way does not come by here."""
        before = dict(self.scalars)
        yield
        changed = {n for n, value in self.scalars.items() if before.get(n) is not value}
        for key in [key for key in self.polynomials if key[1].variables() & changed]:
            del self.polynomials[key]
        self.scalars.clear()
        self.scalars.update(before)

    @contextmanager
    def index(self, name: str, value: imp.Expr, lower: Size, upper: Size) -> Iterator[None]:
        """Inside, the FUN index `name` has this value, within lower <= name < upper."""
        self.bind(name, value)
        self.ranges[name] = (lower, upper)
        yield
        del self.ranges[name]

    # ------------------------------------------------------------ scalars

    def depth_of(self, expr: imp.Expr) -> int:
        match expr:
            case imp.Const() | imp.Optimised():
                return 0
            case imp.Var(name):
                return self.depths.get(name, 0)
            case imp.Apply(_, arguments):
                return max(map(self.depth_of, arguments), default=0)
            case imp.Cast(_, argument) | imp.Rounded(argument):
                return self.depth_of(argument)
            case imp.Machine(_, left, right):
                return max(self.depth_of(left), self.depth_of(right))
            case imp.Select(condition, then, otherwise):
                return max(map(self.depth_of, (condition, then, otherwise)))
            case imp.Load():
                return self.depth

    def declare(self, value: imp.Expr, prefix: str = "v", depth: int | None = None) -> imp.Expr:
        """A constant holding the value, at the outermost level that its operands allow."""
        if isinstance(value, imp.Const | imp.Var):
            return value
        at = self.depth_of(value) if depth is None else depth
        if self.tile_level > 0 and at < self.tile_level:
            at = self.tile_level  # what is uniform over tiles is cheap to do in each
        var = self.unit.var(prefix, value.dtype)
        self.levels[at].append(imp.Declare(var, value))
        self.depths[var.name] = at
        return var

    def declare_here(self, value: imp.Expr, prefix: str = "v") -> imp.Var:
        """A constant of this level: what a variable is now; what depends on it stays here too."""
        var = self.unit.var(prefix, value.dtype)
        self.emit(imp.Declare(var, value))
        self.depths[var.name] = self.depth
        return var

    def mutable(self, dtype: DType, value: imp.Expr | None, prefix: str = "m") -> imp.Var:
        var = self.unit.var(prefix, dtype)
        self.emit(imp.Declare(var, value, mutable=True))
        self.depths[var.name] = self.depth
        return var

    def local(
        self, dtype: DType, extent: int, prefix: str = "a", *, far: bool = False
    ) -> imp.Pointer:
        pointer = self.unit.pointer(prefix, dtype)
        self.emit(imp.Local(pointer, extent, far))
        return pointer

    def shared(self, dtype: DType, extent: int) -> imp.Pointer:
        """An array of the group of items, for the whole kernel."""
        pointer = self.unit.pointer("shared", dtype)
        self.levels[0].append(imp.Shared(pointer, extent))
        return pointer

    def bind(self, name: str, value: imp.Expr) -> None:
        """The FUN scalar `name` has this value from here on."""
        if self.scalars.get(name, value) != value:
            for key in [key for key in self.polynomials if name in key[1].variables()]:
                del self.polynomials[key]
        self.scalars[name] = value
        if name in self.unit.from_end:
            self.unit.counted.add(value)

    def atom(self, atom: fun.Atom) -> imp.Expr:
        if isinstance(atom, fun.Const):
            return imp.Const(atom.value, atom.dtype)
        return self.scalars[atom.name]

    # ------------------------------------------------------------ polynomials

    def poly(self, poly: Size) -> imp.Expr:
        """The polynomial's value; its parts are computed at the levels where they vary."""
        if poly.is_constant:
            return imp.integer(poly.constant)
        if (name := poly.variable) is not None:
            return self.scalars[name]
        groups: dict[int, dict[tuple[str, ...], int]] = {}
        depths = {name: self.depth_of(self.scalars[name]) for name in poly.variables()}
        for monomial, factor in poly.terms.items():
            depth = max((depths[name] for name in monomial), default=0)
            groups.setdefault(max(depth, self.tile_level), {})[monomial] = factor
        total: imp.Expr = imp.ZERO
        sum_: Poly | None = None
        for depth in sorted(groups):
            part = Poly(groups[depth])
            sum_ = part if sum_ is None else sum_ + part
            if depth >= self.depth:
                return self._sum(part, total)
            key = (depth, sum_)
            found = self.polynomials.get(key)
            if found is None:
                found = self.declare(self._sum(part, total), "k", depth)
                self.polynomials[key] = found
            total = found
        return total

    def _sum(self, poly: Poly, total: imp.Expr) -> imp.Expr:
        for monomial, factor in sorted(
            poly.terms.items(), key=lambda term: (-len(term[0]), term[0])
        ):
            term: imp.Expr = imp.integer(abs(factor))
            for name in monomial:
                term = machine("*", term, self.scalars[name])
            total = machine("-" if factor < 0 else "+", total, term)
        return total

    def at_most(self, size: Size, limit: int) -> Size:
        """The smaller one, as a size of the launch; the limit where that does not know the size."""
        unit, most = self.unit, as_poly(limit)
        if not size.variables() <= unit.sizes:
            return most
        name = next(
            (d.name for d in unit.derived if (d.operation, d.left, d.right) == ("min", size, most)),
            "",
        )
        if not name:
            name = unit.fresh("least.")
            unit.derived.append(Derived(name, "min", size, most))
            least = machine("min", self.poly(size), imp.integer(limit))
            self.bind(name, self.declare(least, depth=0))
        return Poly.var(name)

    def parts(self) -> Size:
        """Of how many boxes of its size the whole has, as a size of the launch; 1 in core."""
        unit = self.unit
        if PARTS not in unit.taken:
            unit.take(Derived(PARTS, "max", ONE, ONE), unit.var("parts", DType.I64))
        self.bind(PARTS, unit.taken[PARTS])
        return Poly.var(PARTS)

    def named(self, poly: Size) -> imp.Expr:
        """The polynomial as a variable or constant."""
        return self.declare(self.poly(poly), "k")

    def watch(self, index: imp.Expr, extent: imp.Expr, array: str, axis: int) -> None:
        """In a simd loop: after it, fails if any lane's index was outside."""
        assert self.watched is not None
        code = self.unit.failure(array, axis, self.place, index=index)
        if isinstance(index, imp.Var):
            index = self.narrow.get(index.name, index)
        dtype = DType.U32 if index.dtype is DType.I32 else DType.U64
        watch = Watch(self.unit.var("worst", dtype), extent, code)
        self.watched.append(watch)
        unsigned: imp.Expr = imp.Cast(dtype, index)
        if not isinstance(extent, imp.Const) or not extent.value:
            # The largest index starts as 0, which is outside of nothing but an empty axis.
            none, every = imp.Const(0, dtype), imp.Const(np.iinfo(dtype.numpy).max, dtype)
            empty = self.declare(imp.Select(machine("==", extent, imp.ZERO), every, none))
            unsigned = imp.Apply("bitwise_or", (unsigned, empty), dtype)
        if self.within is not None:
            unsigned = imp.Select(self.within, unsigned, imp.Const(0, dtype))
        worst = imp.Apply("maximum", (watch.worst, unsigned), dtype)
        self.emit(imp.Assign(watch.worst, worst))

    # ------------------------------------------------------------ memory

    def pointer(self, block: str, dtype: DType) -> imp.Pointer:
        """A pointer to a block's elements; a thread's own block is that of this thread."""
        if block in self.unit.choices:
            return self.choice(self.unit.choices[block], dtype)
        key = (block, dtype)
        found = self.pointers.get(key)
        if found is None:
            placed = self.unit.blocks[block]
            found = self.unit.pointer("p", dtype)
            at = self.tile_level if placed.per_thread is not None else 0
            self.levels[at].append(self.view(found, placed))
            self.pointers[key] = found
        return found

    def choice(self, choice: Choice, dtype: DType) -> imp.Pointer:
        """A pointer to the block that a choice is now."""
        turn = self.named(choice.turn)
        at = self.depth_of(turn)
        key = (at, choice.name, dtype)
        found = self.chosen.get(key)
        if found is None:
            pointers = [self.pointer(block, dtype) for block in choice.blocks]
            found = self.chosen[key] = self._one_of(pointers, turn, self.levels[at])
        return found

    def _one_of(
        self, pointers: Sequence[imp.Pointer], turn: imp.Expr, level: list[imp.Stmt]
    ) -> imp.Pointer:
        """The pointer whose number `turn` is."""
        found, *others = pointers
        for number, other in enumerate(others, 1):
            pointer = self.unit.pointer("p", found.dtype)
            here = machine("==", turn, imp.integer(number))
            level.append(imp.Choose(pointer, here, other, found, imp.ZERO))
            found = pointer
        return found

    def shared_pointer(self, block: str, dtype: DType) -> imp.Pointer:
        """A pointer to a block that other threads write too, in turn."""
        choice = self.unit.choices.get(block)
        if choice is not None:
            pointers = [self.shared_pointer(one, dtype) for one in choice.blocks]
            return self._one_of(pointers, self.named(choice.turn), self.levels[-1])
        pointer = self.unit.pointer("p", dtype)
        self.emit(replace(self.view(pointer, self.unit.blocks[block]), alone=False))
        return pointer

    def view(self, pointer: imp.Pointer, placed: Placed) -> imp.View:
        """What makes the pointer that of a block's first element."""
        offset = self._sum(placed.offset, imp.ZERO)
        if placed.per_thread is not None:
            share = machine(
                "*", imp.Cast(DType.I64, self.thread), self._sum(placed.per_thread, imp.ZERO)
            )
            offset = machine("+", offset, share)
        return imp.View(pointer, placed.buffer, offset, placed.alone)

    def address(self, array: MemArray, indices: tuple[Size, ...]) -> tuple[imp.Pointer, imp.Expr]:
        return self.pointer(array.block, array.dtype), self.poly(array.index.apply(indices))

    def load(self, array: MemArray, indices: tuple[Size, ...]) -> imp.Load:
        return imp.Load(*self.address(array, indices))

    def store(self, array: MemArray, indices: tuple[Size, ...], value: imp.Expr) -> None:
        pointer, index = self.address(array, indices)
        self.emit(imp.Store(pointer, index, value))


@contextmanager
def frozen(e: Emitter, state: Sequence[imp.Var]) -> Iterator[list[imp.Expr]]:
    """The state's values at this point, for code that computes the next ones."""
    yield [e.declare_here(var) for var in state]
