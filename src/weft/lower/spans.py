"""Elements that lie a few apart, taken from what lies between the first and the last of them.

    for simd l < 16 { if l < count { .. x[k + 2 * l] .. x[k + 2 * l + 1] .. } }
        =>  for simd l < 32 { s[l] = x[k + l] if l < 2 * count else 0 }
            for simd l < 16 { if l < count { .. s[2 * l] .. s[2 * l + 1] .. } }

Processors gather elements under masks one by one; from whole vectors, compilers take every second
one at once. What no lane needs is written too, as 0: a load that follows waits only briefly for a
store of as many bytes, but long for one that was masked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.ops.dtypes import DType
from weft.records import dataclass
from weft.sizes import Size, as_poly

if TYPE_CHECKING:
    from weft.lower.emitter import Emitter

APART = 4  # elements from one lane to the next: at most so many


def step(address: Size, lane: str) -> int:
    """The elements from one lane to the next; -1 where only the launch knows."""
    factor = address.coefficient(lane)
    return int(factor.constant) if factor.is_constant else -1


@dataclass(slots=True)
class _Span:
    """Elements from `start` on, as far as what is read last of each step."""

    source: imp.Pointer
    near: imp.Pointer
    start: imp.Expr
    first: int
    last: int
    step: int


class Spans:
    """Those that a vector with masks reads: `count` of `width` lanes, the first one at `begin`.

    It is made where the lanes' work is emitted, and knows only what they all read. `every`: so are
    elements that are side by side, so that lanes that are not wanted may be computed too.
    """

    def __init__(
        self, e: Emitter, lane: str, var: imp.Var, begin: imp.Expr, count: imp.Expr, width: int,
        *, every: bool = False,
    ) -> None:  # fmt: skip
        self.lane, self.var, self.begin, self.count, self.width = lane, var, begin, count, width
        self.depth = e.depth
        self.least = 1 if every else 2
        self.found: dict[tuple[str, Size, int], list[_Span]] = {}

    def element(self, e: Emitter, source: imp.Pointer, address: Size) -> imp.Expr | None:
        """A lane's element; None where it is not one of a span."""
        apart = step(address, self.lane)
        if not self.least <= apart <= APART or e.depth != self.depth:
            return None
        numbers = {}  # of a reduction that is written out
        for name in address.variables():
            value = e.scalars[name]
            if isinstance(value, imp.Const):
                numbers[name] = as_poly(int(value.value.real))
        address = address.substitute(numbers)
        at = address.constant
        spans = self.found.setdefault((source.name, address - at, apart), [])
        span = next((one for one in spans if 0 <= at - one.first < apart), None)
        if span is None:
            here = e.scalars[self.lane]
            e.bind(self.lane, self.begin)
            start = e.named(address)
            e.bind(self.lane, here)
            near = e.unit.pointer("span", source.dtype)
            span = _Span(source, near, start, at, at, apart)
            spans.append(span)
        span.last = max(span.last, at)
        place = machine("*", imp.integer(apart), self.var)
        return imp.Load(span.near, machine("+", place, imp.integer(at - span.first)))

    def fill(self, e: Emitter, statements: list[imp.Stmt]) -> None:
        """Loads the spans, in statements that stand before the lanes' loop."""
        for span in (one for spans in self.found.values() for one in spans):
            extent = span.step * self.width
            number = e.unit.integer("l")
            beside = imp.integer(span.last - span.first + 1 - span.step)
            until = machine("+", machine("*", imp.integer(span.step), self.count), beside)
            limit = e.declare(imp.Cast(DType.I32, e.declare(until)))
            below = imp.Apply("less", (imp.Cast(DType.I32, number), limit), DType.BOOL)
            load = imp.Load(span.source, machine("+", span.start, number))
            value = imp.Select(below, load, imp.Const(0, span.source.dtype))
            store = imp.Store(span.near, number, value)
            statements += [
                imp.Local(span.near, extent),
                imp.For(
                    number, imp.ZERO, imp.integer(extent), (store,), simd=True, lanes=self.width
                ),
            ]
