"""Facts about size variables, and sizes that no polynomial expresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from weft.records import dataclass
from weft.sizes.poly import Poly

Relation: TypeAlias = Literal[">=0", "==0", "!=0", "divides"]
SizeOperation: TypeAlias = Literal["floordiv", "mod", "min", "max", "pow2floor"]


def least(name: str) -> int:
    """What a size variable is at least: 2, but for bounds of boxes and sizes of any length."""
    return 0 if name.startswith(("box", "any")) else 2


@dataclass(frozen=True, slots=True)
class Fact:
    """`poly` relation; for "divides", `divisor` divides `poly` without remainder."""

    relation: Relation
    poly: Poly
    divisor: int = 1

    def holds(self, values: Mapping[str, int]) -> bool:
        value = self.poly.evaluate(values)
        match self.relation:
            case ">=0":
                return value >= 0
            case "==0":
                return value == 0
            case "!=0":
                return value != 0
            case "divides":
                return value % self.divisor == 0

    def __str__(self) -> str:
        if self.relation == "divides":
            return f"{self.divisor} divides {self.poly}"
        return f"{self.poly} {self.relation[:2]} 0"


@dataclass(frozen=True, slots=True)
class Derived:
    """A size that is computed at launch: `name = operation(left, right)`.

    floordiv and mod round towards minus infinity, as Python's do; `pow2floor` is the
    largest power of two that is at most max(left, 1) (right is ignored).
    """

    name: str
    operation: SizeOperation
    left: Poly
    right: Poly

    def evaluate(self, values: Mapping[str, int]) -> int:
        left, right = self.left.evaluate(values), self.right.evaluate(values)
        match self.operation:
            case "floordiv":
                return left // right
            case "mod":
                return left % right
            case "min":
                return min(left, right)
            case "max":
                return max(left, right)
            case "pow2floor":
                return 1 << (max(left, 1).bit_length() - 1)

    def __str__(self) -> str:
        if self.operation == "pow2floor":
            return f"{self.name} = pow2floor({self.left})"
        return f"{self.name} = {self.operation}({self.left}, {self.right})"
