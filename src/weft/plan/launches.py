"""What the host of a device does for a segment: kernels launched, loops and branches around them.

    steps  = step*
    step   = launch kernel over items (blocks; integers)
           | define name = size                  -- an integer that the host computes
           | read name from block, offset        -- a scalar in memory, which the host waits for
           | repeat index from lower to upper { steps }
           | while { steps } name { steps }      -- the first steps give the condition `name`
           | branch name { steps } { steps }

Integers are named as in the FUN program; sizes are polynomials of them. Memory is a segment's
parameters, results and workspace, numbered in this order.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Any, TypeAlias

from weft.records import dataclass
from weft.sizes import ZERO, Size, parse_poly

PROCESSOR = "is_processor"
"""The integer that every device defines: 1 if it is a CPU, else 0."""

ON_PROCESSOR = "on-processor"
"""Among the words of `optimise`: the device is known to be a CPU, while a segment is compiled."""

LONG_EXTREMES = "has_long_extremes"
"""Another: 1 if its items can take extremes of 64 bits atomically, else 0."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One run of a kernel.

    `items`: how many indices there are; `group`: work items that run together (1: the kernel
    is one item); `blocks`: the memory that the kernel is given; `integers`: as arguments.
    """

    kernel: str
    items: Size
    group: int
    blocks: tuple[int, ...]
    integers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Define:
    """The integer `name`, computed from others."""

    name: str
    size: Size


@dataclass(frozen=True, slots=True)
class Read:
    """The integer `name`, from the scalar of a dtype that lies `offset` bytes into a block."""

    name: str
    dtype: str
    block: int
    offset: Size


@dataclass(frozen=True, slots=True)
class Repeat:
    """The steps for index = lower, ..., upper - 1."""

    index: str
    lower: Size
    upper: Size
    steps: Steps


@dataclass(frozen=True, slots=True)
class While:
    """`before`, which gives `condition`, then the steps, as long as the condition holds."""

    before: Steps
    condition: str
    steps: Steps


@dataclass(frozen=True, slots=True)
class Branch:
    """One of two lists of steps."""

    condition: str
    then: Steps
    otherwise: Steps


Step: TypeAlias = Launch | Define | Read | Repeat | While | Branch
Steps: TypeAlias = tuple[Step, ...]


Listed: TypeAlias = tuple[Launch, int, tuple[int, ...]]
"""A launch, its items, and the values of its integers."""


def listed(steps: Steps, values: dict[str, Any], most: int) -> list[Listed] | None:
    """The launches that steps make, one after another, for integers that are known.

    None where a scalar that is read decides about them, or where there are more than `most`.
    What the steps define is added to `values`.
    """
    found: list[Listed] = []
    same: dict[tuple[int, ...], Listed] = {}  # those that come again are one object

    def add(steps: Steps) -> bool:
        for step in steps:
            match step:
                case Launch():
                    items = step.items.evaluate(values)
                    integers = tuple(values[name] for name in step.integers)
                    if items > 0:
                        key = (id(step), items, *integers)
                        found.append(same.setdefault(key, (step, items, integers)))
                case Define(name, size):
                    values[name] = size.evaluate(values)
                case Repeat(index, lower, upper, inner):
                    for number in range(lower.evaluate(values), upper.evaluate(values)):
                        values[index] = number
                        if not add(inner):
                            return False
                case Branch(condition, then, otherwise):
                    if not add(then if values[condition] else otherwise):
                        return False
                case Read() | While():
                    return False
            if len(found) > most:
                return False
        return True

    return found if add(steps) else None


def on_processors(steps: Sequence[Step]) -> list[Step]:
    """The steps as they are where the device is known to be a processor.

    if is_processor { a } else { b }  =>  a
    """
    found: list[Step] = []
    for step in steps:
        match step:
            case Launch():
                items = step.items.substitute({PROCESSOR: 1})
                if items != ZERO:
                    found.append(replace(step, items=items))
            case Branch(condition, then, _) if condition == PROCESSOR:
                found += on_processors(then)
            case Branch(condition, then, otherwise):
                sides = (tuple(on_processors(side)) for side in (then, otherwise))
                found.append(Branch(condition, *sides))
            case Repeat(_, _, _, inner):
                found.append(replace(step, steps=tuple(on_processors(inner))))
            case While(before, condition, inner):
                first, rest = (tuple(on_processors(side)) for side in (before, inner))
                found.append(While(first, condition, rest))
            case _:
                found.append(step)
    return found


def kernels_of(steps: Sequence[Step]) -> set[str]:
    """The kernels that steps launch."""
    found: set[str] = set()
    for step in steps:
        match step:
            case Launch(kernel):
                found.add(kernel)
            case Branch(_, then, otherwise):
                found |= kernels_of((*then, *otherwise))
            case Repeat(_, _, _, inner):
                found |= kernels_of(inner)
            case While(before, _, inner):
                found |= kernels_of((*before, *inner))
    return found


def launched_after(steps: Sequence[Step], first: Set[str]) -> frozenset[str]:
    """The kernels that may be launched after one of `first`."""
    found: set[str] = set()

    def walk(steps: Sequence[Step], after: bool) -> bool:
        """Whether one of `first` may have been launched by the end of the steps."""
        for step in steps:
            match step:
                case Launch(kernel):
                    if after:
                        found.add(kernel)
                    after = after or kernel in first
                case Repeat(steps=inner):
                    after = rounds(inner, after)
                case While(before, _, inner):
                    after = rounds((*before, *inner), after)
                case Branch(_, then, otherwise):
                    sides = [walk(then, after), walk(otherwise, after)]
                    after = any(sides)
        return after

    def rounds(steps: Sequence[Step], after: bool) -> bool:
        return walk(steps, walk(steps, after))

    walk(steps, False)
    return frozenset(found)


def to_json(steps: Steps) -> list[Any]:
    """Steps as plain lists, strings and numbers."""
    found: list[Any] = []
    for step in steps:
        match step:
            case Launch(kernel, items, group, blocks, integers):
                found.append(["launch", kernel, str(items), group, list(blocks), list(integers)])
            case Define(name, size):
                found.append(["define", name, str(size)])
            case Read(name, dtype, block, offset):
                found.append(["read", name, dtype, block, str(offset)])
            case Repeat(index, lower, upper, inner):
                found.append(["repeat", index, str(lower), str(upper), to_json(inner)])
            case While(before, condition, inner):
                found.append(["while", to_json(before), condition, to_json(inner)])
            case Branch(condition, then, otherwise):
                found.append(["branch", condition, to_json(then), to_json(otherwise)])
    return found


def from_json(found: list[Any]) -> Steps:
    """The steps of `to_json`.

    Raises
    ------
    KeyError, ValueError, TypeError
        When it is something else.
    """
    return tuple(_step(*entry) for entry in found)


def _step(kind: str, *parts: Any) -> Step:
    match kind, parts:
        case "launch", (kernel, items, group, blocks, integers):
            return Launch(kernel, parse_poly(items), group, tuple(blocks), tuple(integers))
        case "define", (name, size):
            return Define(name, parse_poly(size))
        case "read", (name, dtype, block, offset):
            return Read(name, dtype, block, parse_poly(offset))
        case "repeat", (index, lower, upper, steps):
            return Repeat(index, parse_poly(lower), parse_poly(upper), from_json(steps))
        case "while", (before, condition, steps):
            return While(from_json(before), condition, from_json(steps))
        case "branch", (condition, then, otherwise):
            return Branch(condition, from_json(then), from_json(otherwise))
        case _:
            raise ValueError(f"a step {kind!r}")
