"""How many cycles a processor takes for a vector of a simd loop's iterations, as predicted.

Instructions begin some a cycle, a divider does one quotient or root after the other, and an
iteration waits from each operation to the next. A processor does other iterations meanwhile, as
far as it looks ahead: of WINDOW instructions, of which N are an iteration that takes L cycles,
WINDOW / N iterations are under way, and N L / WINDOW cycles pass for each (J. Little, "A proof for
the queuing formula", Operations Research 9, 1961). Cycles are those of A. Fog's "Instruction
tables" for processors with AVX2. The window is what loops of quotients show: less than such
processors retire in order, since their schedulers, where instructions wait, are smaller.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from math import frexp

from weft.imp import nodes as imp
from weft.ops.dtypes import DType
from weft.records import dataclass

OF_DIVIDERS = frozenset({"divide", "reciprocal", "sqrt"})

WINDOW = 150  # instructions
BEGUN = 4  # of them a cycle
LOAD = 5  # cycles, from the nearest cache
OPERATION = 3
QUOTIENT = 12
DIVIDER = {DType.F32: 5, DType.F64: 9}  # cycles until it is free for the next vector
_OF_SEVERAL = {"maximum": 2, "minimum": 2, "fmax": 2, "fmin": 2}  # instructions


def waits_for_divider(value: imp.Expr) -> bool:
    """Whether it is a quotient or a root; quotients by powers of two are products."""
    match value:
        case imp.Apply("divide", (_, imp.Const(float() as divisor))):
            return abs(frexp(divisor)[0]) != 0.5
        case imp.Apply(operation):
            return operation in OF_DIVIDERS
        case _:
            return False


@dataclass(slots=True)
class Pace:
    """What the values of an iteration, declared in order, and its stores take together.

    `kept`: the values that other loops left in memory.
    """

    kept: Iterable[str] = ()
    instructions: int = 0
    divider: int = 0
    latency: int = 0  # cycles until the last store
    ready: dict[str, int] = field(default_factory=dict)  # when each value is known

    @property
    def cycles(self) -> float:
        waiting = self.instructions * self.latency / WINDOW
        return max(self.instructions / BEGUN, self.divider, waiting)

    def declare(self, name: str, value: imp.Expr) -> None:
        self.ready[name] = self._known(value)

    def store(self, value: imp.Expr) -> None:
        self.instructions += 1
        self.latency = max(self.latency, self._known(value))

    def _known(self, expr: imp.Expr) -> int:
        """The cycle in which a value is known; what it takes is counted."""
        match expr:
            case imp.Var(name):
                if name not in self.ready and name in self.kept:
                    self.instructions += 1
                    self.ready[name] = LOAD
                return self.ready.get(name, 0)
            case imp.Load():
                self.instructions += 1
                return LOAD
            case imp.Apply(operation, arguments, dtype):
                begin = max(map(self._known, arguments), default=0)
                if waits_for_divider(expr):
                    self.instructions += 1
                    self.divider += DIVIDER.get(dtype, 0)
                    return begin + QUOTIENT
                count = _OF_SEVERAL.get(operation, 1)
                self.instructions += count
                return begin + OPERATION * count
            case imp.Select(condition, then, otherwise):
                self.instructions += 1
                return OPERATION + max(map(self._known, (condition, then, otherwise)))
            case imp.Cast(_, argument):
                self.instructions += 1
                return OPERATION + self._known(argument)
            case _:  # numbers, and indices, which are known early
                return 0
