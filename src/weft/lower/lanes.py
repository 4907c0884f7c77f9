"""Consecutive elements reduced in 64 lanes: lane l takes elements l, l + 64, ..."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower.bodies import apply_lambda
from weft.lower.emitter import Emitter
from weft.lower.prefetch import Prefetcher
from weft.lower.rows import LANES, simd
from weft.ops.dtypes import DType


class Lanes:
    """64 lanes, each of them the neutral element at first.

    Parameters
    ----------
    e : Emitter
    operator : fun.Lambda
        One that commutes.
    neutral : sequence of imp.Expr
        Its neutral element, component by component.
    """

    def __init__(self, e: Emitter, operator: fun.Lambda, neutral: Sequence[imp.Expr]) -> None:
        self.e, self.operator = e, operator
        self.pointers = [e.local(value.dtype, LANES, "lane") for value in neutral]
        var = e.unit.integer("l")
        with simd(e, var, imp.ZERO, imp.integer(LANES)):
            self._store(var, neutral)

    def _load(self, at: imp.Expr) -> list[imp.Expr]:
        e = self.e
        return [e.declare(imp.Load(pointer, at), depth=e.depth) for pointer in self.pointers]

    def _store(self, at: imp.Expr, values: Sequence[imp.Expr]) -> None:
        for pointer, value in zip(self.pointers, values, strict=True):
            self.e.emit(imp.Store(pointer, at, value))

    def accumulate(
        self,
        element: Callable[[imp.Expr], list[imp.Expr]],
        start: imp.Expr,
        size: imp.Expr,
        prefetcher: Prefetcher | None = None,
    ) -> None:
        """Combines the elements start <= i < start + size into the lanes."""
        e, width = self.e, imp.integer(LANES)

        def block(first: imp.Expr, count: imp.Expr) -> None:
            var = e.unit.integer("l")
            with simd(e, var, imp.ZERO, count):
                values = element(e.declare(machine("+", first, var)))
                self._store(var, apply_lambda(e, self.operator, [*self._load(var), *values]))

        whole = e.declare(machine("&", size, imp.integer(-LANES)))
        end = e.declare(machine("+", start, whole))
        var = e.unit.integer("i")
        with e.loop(var, start, end, step=LANES, hoist=True):
            if prefetcher is not None:
                prefetcher.part(var, LANES)
            block(var, width)
        block(end, e.declare(machine("-", size, whole)))

    def any(self, test: Callable[[list[imp.Expr]], imp.Expr]) -> imp.Expr:
        """Whether the test holds for what some lane has."""
        e = self.e
        widest = max(pointer.dtype.numpy.itemsize for pointer in self.pointers)
        found = e.mutable(mask(widest), imp.Const(0, mask(widest)), "found")
        var = e.unit.integer("l")
        with simd(e, var, imp.ZERO, imp.integer(LANES), (("|", found),)):
            holds = e.declare(imp.Cast(found.dtype, e.declare(test(self._load(var)))))
            e.emit(imp.Assign(found, machine("|", found, holds)))
        return machine("!=", found, imp.Const(0, found.dtype))

    def total(self) -> list[imp.Expr]:
        """The lanes folded by halves, in place."""
        e, half = self.e, LANES // 2
        while half:
            var = e.unit.integer("l")
            with simd(e, var, imp.ZERO, imp.integer(half)):
                left, right = self._load(var), self._load(machine("+", var, imp.integer(half)))
                self._store(var, apply_lambda(e, self.operator, [*left, *right]))
            half //= 2
        return self._load(imp.ZERO)


def mask(size: int) -> DType:
    """The integers as wide as values of so many bytes, as vectors of truths are."""
    return {1: DType.I8, 2: DType.I16, 4: DType.I32}.get(size, DType.I64)
