"""Random functions of loop nests, as text, whose plain run is exact and stays inside its arrays.

Integers wrap, so that sums of them are the same in any order; floats are small multiples of 1/2,
and no branch depends on them. Subscripts are affine in the counters where their range is known
to fit, and taken modulo the extent otherwise.
"""

from __future__ import annotations

import linecache
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

import weft as wf

INTEGERS, FLOATS = "i", "f"
ARRAYS = {"x": (INTEGERS, 1), "a": (INTEGERS, 2), "y": (FLOATS, 1), "b": (FLOATS, 2)}
SCALARS = {"s": INTEGERS, "t": INTEGERS, "r": FLOATS}
PARAMETERS = ("x", "a", "y", "b", "n", "m", "k")


def function_of(text: str) -> Callable[..., Any]:
    """The function `nest` of a text, whose source `inspect` finds."""
    name = f"<random nest {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    module = types.ModuleType("random_nest")
    module.__dict__.update(wf=wf, np=np)
    exec(compile(text, name, "exec"), module.__dict__)
    made: Callable[..., Any] = module.__dict__["nest"]
    return made


@dataclass(frozen=True)
class Nest:
    """A function, as text, and the extents that its subscripts were made for."""

    text: str
    n: int
    m: int
    k: int

    def function(self) -> Callable[..., Any]:
        """The function, whose source `inspect` finds."""
        return function_of(self.text)

    def arguments(self, seed: int) -> tuple[Any, ...]:
        """Arrays `x[n], a[n, m]` of integers, `y[n], b[n, m]` of floats, and `n, m, k`."""
        random = np.random.default_rng(seed)
        arrays = []
        for kind, rank in ARRAYS.values():
            values = random.integers(-6, 7, (self.n, self.m)[:rank])
            arrays.append(values if kind == INTEGERS else values / 2)
        return (*arrays, self.n, self.m, self.k)


@dataclass
class Writer:
    """Text so far, and what is in scope where the next line goes."""

    number: Callable[[int, int], int]  # any from the first to the second
    extents: dict[str, int]
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    counters: dict[str, tuple[int, int]] = field(default_factory=dict)  # least and greatest
    in_range: list[bool] = field(default_factory=list)  # of each loop: may it be left?
    made: int = 0  # names and lines

    def pick(self, *options: Any) -> Any:
        return options[self.number(0, len(options) - 1)]

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)
        self.made += 1

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self.depth += 1
        yield
        self.depth -= 1

    def fresh(self, prefix: str) -> str:
        self.made += 1
        return f"{prefix}{self.made}"

    # Subscripts.

    def subscript(self, extent: str) -> str:
        """An index into an axis, affine in the counters or by an element."""
        size = self.extents[extent]
        if not self.counters or self.number(0, 7) == 0:
            if self.number(0, 3) == 0:
                return f"x[{self.affine('n')}] % {extent}"
            return str(self.number(-size, size - 1))
        return self.affine(extent)

    def affine(self, extent: str) -> str:
        if not self.counters:
            return str(self.number(0, self.extents[extent] - 1))
        name = self.pick(*self.counters)
        least, greatest = self.counters[name]
        form = self.number(0, 8)
        offset = self.number(-2, 2)
        if form < 4:
            text, low, high = f"{name} + {offset}", least + offset, greatest + offset
            text = name if offset == 0 else text
        elif form == 4:
            text, low, high = f"-1 - {name}", -1 - greatest, -1 - least
        elif form == 5:
            size = self.extents[extent]
            text, low, high = f"{extent} - 1 - {name}", size - 1 - greatest, size - 1 - least
        elif form == 6:
            text, low, high = f"2 * {name} + {offset}", 2 * least + offset, 2 * greatest + offset
        elif form == 7:
            text, low, high = f"{name} // 2", least // 2, greatest // 2
        else:
            other = self.pick(*self.counters)
            text = f"{name} + {other}"
            low, high = least + self.counters[other][0], greatest + self.counters[other][1]
        size = self.extents[extent]
        fits = (low >= 0 and high < size) or (-size <= low and high < 0)
        return text if fits else f"({text}) % {extent}"

    def element(self, name: str) -> str:
        rank = ARRAYS[name][1]
        return f"{name}[{', '.join(self.subscript(extent) for extent in 'nm'[:rank])}]"

    # Expressions.

    def value(self, kind: str, depth: int = 2) -> str:
        if depth == 0 or self.number(0, 3) == 0:
            return self.leaf(kind)
        form = self.number(0, 6 if kind == INTEGERS else 4)
        first, second = self.value(kind, depth - 1), self.value(kind, depth - 1)
        if form < 2:
            return f"({first} {self.pick('+', '-')} {second})"
        if form == 2:
            return f"{self.pick('min', 'max')}({first}, {second})"
        if form == 3:
            return f"({first} if {self.condition(0)} else {second})"
        if kind == FLOATS:
            return f"abs({first})"
        if form == 4:
            return f"({first} {self.pick('//', '%')} {self.pick(2, 3, -3)})"
        return f"({first} * {self.pick(2, 3, -1)})"

    def leaf(self, kind: str) -> str:
        form = self.number(0, 5)
        if form == 0:
            return str(self.number(-3, 3) / 2 if kind == FLOATS else self.number(-3, 3))
        if form == 1:
            return str(self.pick(*(name for name, of in SCALARS.items() if of == kind)))
        if form == 2 and kind == INTEGERS and self.counters:
            return str(self.pick(*self.counters))
        return self.element(self.pick(*(name for name, (of, _) in ARRAYS.items() if of == kind)))

    def condition(self, depth: int = 1) -> str:
        form = self.number(0, 4 if depth else 1)
        compare = self.pick("<", "<=", "==", "!=", ">")
        plain = f"{self.value(INTEGERS, 1)} {compare} {self.value(INTEGERS, 0)}"
        if form == 2:
            return f"{plain} {self.pick('and', 'or')} {self.condition(0)}"
        if form == 3:
            return f"not ({plain})"
        return plain

    # Statements.

    def statements(self, most: int) -> None:
        for _ in range(self.number(1, most)):
            if self.made > 40:
                return self.line("pass")
            self.statement()

    def statement(self) -> None:
        forms: list[Callable[[], None]] = [self.assign, self.assign, self.assign, self.scalar]
        if self.depth < 5:
            forms += [self.branch, self.loop, self.loop, self.loop]
        if self.depth < 4:
            forms += [self.count_while]
        forms += [self.slices]
        if self.in_range and self.in_range[-1]:
            forms += [self.leave]
        self.pick(*forms)()

    def assign(self) -> None:
        name = self.pick(*ARRAYS)
        kind = ARRAYS[name][0]
        operator = self.pick("=", "=", "+=", "-=")
        self.line(f"{self.element(name)} {operator} {self.value(kind)}")

    def scalar(self) -> None:
        name = self.pick(*SCALARS)
        kind = SCALARS[name]
        form = self.number(0, 3)
        if form == 0:
            self.line(f"{name} = {self.value(kind, 1)}")
        elif form == 1:
            self.line(f"{name} = {self.pick('min', 'max')}({name}, {self.value(kind, 1)})")
        else:
            self.line(f"{name} += {self.value(kind, 1)}")

    def branch(self) -> None:
        with self.block(f"if {self.condition()}:"):
            self.statements(2)
        if self.number(0, 3) == 0:
            with self.block(f"elif {self.condition()}:"):
                self.statements(1)
        if self.number(0, 1) == 0:
            with self.block("else:"):
                self.statements(2)

    def loop(self) -> None:
        name = self.fresh("i")
        bounds, counted = self.bounds()
        parallel = not self.in_range and self.number(0, 2) == 0
        if len(counted) == 0:
            self.line("pass")
            return
        with self.block(f"for {name} in {'wf.prange' if parallel else 'range'}({bounds}):"):
            self.counters[name] = (min(counted), max(counted))
            self.in_range.append(not parallel)
            self.statements(3)
            self.in_range.pop()
            del self.counters[name]

    def bounds(self) -> tuple[str, range]:
        extent = self.pick("n", "m")
        size = self.extents[extent]
        form = self.number(0, 7)
        if form == 0:
            return f"1, {extent}", range(1, size)
        if form == 1:
            return f"{extent} - 1, -1, -1", range(size)
        if form == 2:
            return f"0, {extent}, 2", range(0, size, 2)
        if form == 3:
            return "k", range(self.extents["k"])
        if form < 6 and self.counters:
            name = self.pick(*self.counters)
            least, greatest = self.counters[name]
            if form == 4:
                return name, range(greatest)
            return f"{name} + 1, {extent}", range(least + 1, size)
        if form == 6:
            return f"1, {extent} - 1", range(1, size - 1)
        return extent, range(size)

    def count_while(self) -> None:
        name = self.fresh("w")
        self.line(f"{name} = 0")
        limit = self.number(1, 4)
        more = f" and {self.condition(0)}" if self.number(0, 1) else ""
        with self.block(f"while {name} < {limit}{more}:"):
            self.counters[name] = (0, limit - 1)
            self.in_range.append(False)
            self.statements(2)
            self.in_range.pop()
            del self.counters[name]
            self.line(f"{name} += 1")

    def leave(self) -> None:
        with self.block(f"if {self.condition(0)}:"):
            self.line(self.pick("break", "continue"))

    def slices(self) -> None:
        """An assignment to a slice, of slices as long."""
        kind = self.pick(INTEGERS, FLOATS)
        vector, matrix = ("x", "a") if kind == INTEGERS else ("y", "b")
        offsets = [self.number(0, 2) for _ in range(3)]
        cut = max(offsets)
        if self.extents["n"] <= cut:
            return self.line("pass")
        rows = [f"{o}:n - {cut - o}" for o in offsets]
        reads = [
            f"{vector}[{row}]" if self.number(0, 1) else f"{matrix}[{row}, {self.subscript('m')}]"
            for row in rows[1:]
        ]
        target = self.pick(f"{vector}[{rows[0]}]", f"{matrix}[{rows[0]}, {self.subscript('m')}]")
        operator = self.pick("=", "+=", "-=")
        right = f"{reads[0]} {self.pick('+', '-')} {self.pick(reads[1], self.leaf(kind))}"
        self.line(f"{target} {operator} {right}")


def write_nest(number: Callable[[int, int], int]) -> Nest:
    """A function of the arrays and sizes of `Nest.arguments`, by drawn numbers."""
    extents = {"n": number(1, 6), "m": number(1, 6), "k": number(0, 5)}
    writer = Writer(number, extents)
    for name, kind in SCALARS.items():
        writer.line(f"{name} = {0 if kind == INTEGERS else 0.0}")
    writer.loop()
    writer.statements(4)
    writer.line(f"return {', '.join(SCALARS)}")
    text = "\n".join([f"def nest({', '.join(PARAMETERS)}):", *writer.lines, ""])
    return Nest(text, **extents)


@st.composite
def nests(draw: Any) -> Nest:
    """Functions as `write_nest` makes them."""
    return write_nest(lambda least, greatest: draw(st.integers(least, greatest)))
