"""Consecutive elements reduced in 64 lanes: lane l takes elements l, l + 64, ...

Lanes that no element reaches stay neutral. Where elements are few, only the first `width` lanes
are there, and are folded as they would be among all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from weft.fun import nodes as fun
from weft.fun.vector_math import has_vector_math
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import masks
from weft.lower.bodies import apply_lambda
from weft.lower.emitter import Emitter, frozen
from weft.lower.prefetch import Prefetcher
from weft.lower.rows import LANES, simd
from weft.ops.dtypes import DType

VECTOR = 8  # lanes that are folded to by vectors, the rest by scalars
SHORT = 2  # statements of an operator

Element = Callable[[imp.Expr], list[imp.Expr]]
"""What is at an index."""


class Lanes:
    """Lanes, each of them the neutral element at first.

    Parameters
    ----------
    e : Emitter
    operator : fun.Lambda
        One that commutes.
    neutral : sequence of imp.Expr
        Its neutral element, component by component.
    width : int, optional
        How many lanes: 64, or the power of two that there are elements at most.
    """

    def __init__(
        self, e: Emitter, operator: fun.Lambda, neutral: Sequence[imp.Expr], width: int = LANES
    ) -> None:
        self.e, self.operator, self.width = e, operator, width
        self.pointers = [e.local(value.dtype, width, "lane") for value in neutral]
        var = e.unit.integer("l")
        with simd(e, var, imp.ZERO, imp.integer(width)):
            self._store(var, neutral)

    def load(self, at: imp.Expr) -> list[imp.Expr]:
        """What a lane has."""
        e = self.e
        return [e.declare(imp.Load(pointer, at), depth=e.depth) for pointer in self.pointers]

    def _store(self, at: imp.Expr, values: Sequence[imp.Expr]) -> None:
        for pointer, value in zip(self.pointers, values, strict=True):
            self.e.emit(imp.Store(pointer, at, value))

    def accumulate(
        self,
        element: Element,
        start: imp.Expr,
        size: imp.Expr,
        prefetcher: Prefetcher | None = None,
    ) -> None:
        """Combines the elements start <= i < start + size into the lanes."""

        def ask(_: None, first: imp.Expr) -> None:
            if prefetcher is not None:
                prefetcher.part(first, LANES)

        accumulate(self.e, [(self, None)], lambda _, index: element(index), start, size, ask)

    def whole(
        self, element: Element, start: imp.Expr, end: imp.Expr, prefetcher: Prefetcher
    ) -> None:
        """Combines elements of which each lane has as many."""
        e, first, var = self.e, self.e.unit.integer("i"), self.e.unit.integer("l")
        with e.loop(first, start, end, step=self.width, hoist=True):
            prefetcher.part(first, self.width)
            with simd(e, var, imp.ZERO, imp.integer(self.width)):
                self.add(var, element(e.declare(machine("+", first, var))))

    def masked(
        self, element: Element, name: str, start: imp.Expr, end: imp.Expr,
        neutral: Sequence[imp.Expr], width: int,
    ) -> None:  # fmt: skip
        """Combines elements of which there are at most as many as lanes, in whole vectors.

        `name` is the index of the elements; what is past their end is neutral.
        """
        if width == self.width:
            self._vector(element, name, start, start, end, neutral, width)
            return
        first = self.e.unit.integer("i")
        with self.e.loop(first, start, end, step=width, hoist=True):
            self._vector(element, name, start, first, end, neutral, width)

    def _vector(
        self, element: Element, name: str, start: imp.Expr, first: imp.Expr, end: imp.Expr,
        neutral: Sequence[imp.Expr], width: int,
    ) -> None:  # fmt: skip
        """Those from `first` on: into the lanes that are as far from the first one."""
        e, var = self.e, self.e.unit.integer("l")
        left = e.declare(machine("-", end, first))
        with simd(e, var, imp.ZERO, imp.integer(width), width=width):
            last = e.declare(machine("-", end, imp.ONE))
            e.ends = masks.Ends(name, var, first, last, width)
            within = e.declare(e.ends.compared(e, "less", left))
            values = [e.mutable(value.dtype, value) for value in neutral]
            with e.level() as statements:  # a row may be empty: no load leaves the branch
                index = e.declare_here(machine("+", first, var))
                for slot, value in zip(values, element(index), strict=True):
                    e.emit(imp.Assign(slot, value))
            e.ends = None
            e.emit(imp.If(within, tuple(statements)))
            at = var if first == start else machine("+", e.declare(machine("-", first, start)), var)
            self.add(at, values)

    def few(
        self, element: Element, start: imp.Expr, size: imp.Expr
    ) -> None:
        """Combines elements of which there are at most as many as lanes."""
        e = self.e
        var = e.unit.integer("l")
        with e.loop(var, imp.ZERO, size, hoist=True):
            self.add(var, element(e.declare(machine("+", start, var))))

    def add(self, at: imp.Expr, values: Sequence[imp.Expr]) -> None:
        """Combines one element into one lane."""
        left = self.load(at)
        self._store(at, apply_lambda(self.e, self.operator, [*left, *values]))

    def any(self, test: Callable[[list[imp.Expr]], imp.Expr]) -> imp.Expr:
        """Whether the test holds for what some lane has."""
        e = self.e
        widest = max(pointer.dtype.numpy.itemsize for pointer in self.pointers)
        found = e.mutable(mask(widest), imp.Const(0, mask(widest)), "found")
        var = e.unit.integer("l")
        with simd(e, var, imp.ZERO, imp.integer(LANES), (("|", found),)):
            holds = e.declare(imp.Cast(found.dtype, e.declare(test(self.load(var)))))
            e.emit(imp.Assign(found, machine("|", found, holds)))
        return machine("!=", found, imp.Const(0, found.dtype))

    def total(self) -> list[imp.Expr]:
        """The lanes folded by halves, in place."""
        if self.width >= VECTOR and is_short(self.operator):
            return self._folded_at_once()
        if has_vector_math(self.operator.body):  # of which vectors of so many are a part
            self._fold_each_half()
        else:
            self.e.either(imp.OPTIMISED, self._fold_each_half, self._fold_in_loop)
        return self.load(imp.ZERO)

    def _fold_each_half(self) -> None:
        half = self.width // 2
        while half:
            var = self.e.unit.integer("l")
            with simd(self.e, var, imp.ZERO, imp.integer(half)):
                self._fold_lane(var, imp.integer(half))
            half //= 2

    def _fold_in_loop(self) -> None:
        e = self.e
        half = e.mutable(DType.I64, imp.integer(self.width // 2), "half")
        with e.level() as body, frozen(e, [half]) as (now,):
            var = e.unit.integer("l")
            with e.loop(var, imp.ZERO, now):  # a compiler takes longer to make vectors of it
                self._fold_lane(var, now)
            e.emit(imp.Assign(half, machine("/", half, imp.integer(2))))
        e.emit(imp.While(machine(">", half, imp.ZERO), tuple(body)))

    def _fold_lane(self, lane: imp.Expr, half: imp.Expr) -> None:
        """A lane combined with that which follows so many later."""
        left, right = self.load(lane), self.load(machine("+", lane, half))
        self._store(lane, apply_lambda(self.e, self.operator, [*left, *right]))

    def _folded_at_once(self) -> list[imp.Expr]:
        """The same without what is stored between the halves: to a vector's lanes, then to one."""
        e = self.e
        if self.width > VECTOR:
            var = e.unit.integer("l")
            with simd(e, var, imp.ZERO, imp.integer(VECTOR)):
                places = [machine("+", var, imp.integer(at)) for at in range(0, self.width, VECTOR)]
                self._store(var, self._by_halves([self.load(place) for place in places]))
        return self._by_halves([self.load(imp.integer(lane)) for lane in range(VECTOR)])

    def _by_halves(self, values: list[list[imp.Expr]]) -> list[imp.Expr]:
        while half := len(values) // 2:
            pairs = zip(values[:half], values[half:], strict=True)
            values = [apply_lambda(self.e, self.operator, [*a, *b]) for a, b in pairs]
        return values[0]


Row = TypeVar("Row")


def accumulate(
    e: Emitter,
    rows: Sequence[tuple[Lanes, Row]],
    element: Callable[[Row, imp.Expr], list[imp.Expr]],
    start: imp.Expr,
    size: imp.Expr,
    ask: Callable[[Row, imp.Expr], None],
) -> None:
    """Combines the elements start <= i < start + size of each row into its own lanes.

    `ask` is told where each 64 of a row begin.
    """
    width = imp.integer(LANES)

    def block(first: imp.Expr, count: imp.Expr) -> None:
        var = e.unit.integer("l")
        with simd(e, var, imp.ZERO, count, grain=True):
            index = e.declare(machine("+", first, var))
            for lanes, row in rows:
                lanes.add(var, element(row, index))

    whole = e.declare(machine("&", size, imp.integer(-LANES)))
    whole = e.declare(imp.Select(imp.OPTIMISED, whole, imp.ZERO))
    middle, end = (e.declare(machine("+", start, length)) for length in (whole, size))
    with e.level() as statements:
        var = e.unit.integer("i")
        with e.loop(var, start, middle, step=LANES, hoist=True):
            for _, row in rows:
                ask(row, var)
            block(var, width)
    e.emit(imp.If(imp.OPTIMISED, tuple(statements)))
    var = e.unit.integer("i")
    with e.loop(var, middle, end, step=LANES, hoist=True):  # less than 64, if it is optimised
        block(var, e.declare(machine("min", width, e.declare(machine("-", end, var)))))


def is_short(operator: fun.Lambda) -> bool:
    """Whether its text may stand there for each of the halves, in vectors and then in scalars."""
    body = operator.body
    return len(body.statements) <= SHORT and not has_vector_math(body)


def mask(size: int) -> DType:
    """The integers as wide as values of so many bytes, as vectors of truths are."""
    return {1: DType.I8, 2: DType.I16, 4: DType.I32}.get(size, DType.I64)
