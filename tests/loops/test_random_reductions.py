"""Random nests of updates by one operator an array: no race, and the same as plain Python."""

from __future__ import annotations

import copy
import random
import warnings
from typing import Any

import numpy as np
import pytest
from loops.random_nests import function_of
from slow import some_slow

import weft as wf

EXTENTS = {"n": 9, "m": 5, "k": 4}
OPERATORS = ("+", "-", "*", "&", "|", "^", "min", "max", "minimum")
DESTINATIONS = {"h": ("m",), "g": ("k", "m"), "s": ("k",)}


class Writer:
    """Text so far, and the counters in scope."""

    def __init__(self, choose: random.Random) -> None:
        self.choose = choose
        self.lines: list[str] = []
        self.counters: list[str] = []
        self.made = 0
        self.operators = {name: choose.choice(OPERATORS) for name in DESTINATIONS}

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def index(self, extent: str) -> str:
        """Into a dimension: constant, affine, by an element, or counted from the end."""
        name = self.choose.choice(self.counters)
        by_element = f"b[{name}] % {extent}"
        return self.choose.choice([
            "0", "-1", f"{name} % {extent}", by_element, f"{by_element} - {extent}",
            f"({name} + 1) // 3 % {extent}", f"-1 - {name} % {extent}",
        ])  # fmt: skip

    def value(self) -> str:
        name = self.choose.choice(self.counters)
        more = f"a[{name}, 0] + b[0]"
        return self.choose.choice(["1", name, f"b[{name}]", f"a[{name}, 1]", more])

    def update(self, depth: int) -> None:
        name = self.choose.choice([*DESTINATIONS])
        extents, operator = DESTINATIONS[name], self.operators[name]
        indices, value = [self.index(extent) for extent in extents], self.value()
        if extents[-1] == "m" and "m" not in operator and self.choose.random() < 0.3:
            indices[-1], value = self.choose.choice([":", "1:", ":3"]), f"a[{self.counters[0]}]"
            value += f"[{indices[-1]}]"
        at = f"{name}[{', '.join(indices)}]"
        if operator == "minimum":
            self.line(depth, f"{at} = np.minimum({at}, {value})")
        elif operator in ("min", "max"):
            self.line(depth, f"{at} = {operator}({at}, {value})")
        else:
            self.line(depth, f"{at} {operator}= {value}")

    def statements(self, depth: int) -> None:
        for _ in range(self.choose.randint(1, 3)):
            kind = self.choose.random()
            if kind < 0.6 or depth > 4:
                self.update(depth)
            elif kind < 0.75:
                self.line(depth, f"if {self.value()} > {self.choose.randint(-1, 3)}:")
                self.statements(depth + 1)
                if self.choose.random() < 0.4:
                    self.line(depth, "else:")
                    self.update(depth + 1)
            elif kind < 0.8:
                self.while_loop(depth)
            else:
                self.loop(depth, self.choose.choice(["range", "range", "wf.prange"]))

    def while_loop(self, depth: int) -> None:
        self.made += 1
        name = f"w{self.made}"
        self.line(depth, f"{name} = 0")
        self.line(depth, f"while {name} < b[{self.counters[0]}] % 3:")
        self.counters.append(name)
        self.update(depth + 1)
        self.line(depth + 1, f"{name} += 1")
        self.counters.pop()

    def loop(self, depth: int, kind: str) -> None:
        self.made += 1
        name = f"i{self.made}"
        outer = self.choose.choice(self.counters) if self.counters else "m"
        bounds = self.choose.choice(["n", "m", "1, k", "0, n, 2", outer, f"{outer} % 3"])
        self.line(depth, f"for {name} in {kind}({bounds}):")
        self.counters.append(name)
        self.statements(depth + 1)
        self.counters.pop()


def check(seed: int) -> bool:
    """Whether a nest is a reduction; where it runs in order it is the same, too."""
    choose = random.Random(seed)
    writer = Writer(choose)
    for _ in range(choose.choice([1, 1, 2])):
        writer.loop(1, "wf.prange")
    head = "def nest(h, g, s, a, b, n, m, k):"
    text = "\n".join([head, *writer.lines, ""])
    numbers = np.random.default_rng(seed)
    bits = {"&", "|", "^", "*"} & set(writer.operators.values())
    whole = bool(bits) or choose.random() < 0.3

    def array(shape: tuple[int, ...]) -> Any:
        found = numbers.integers(-4, 5, shape)
        return found if whole else found / 2

    given = [array(tuple(EXTENTS[e] for e in extents)) for extents in DESTINATIONS.values()]
    given += [array((EXTENTS["n"], EXTENTS["m"])), numbers.integers(-9, 10, EXTENTS["n"])]
    found, wanted = copy.deepcopy(given), copy.deepcopy(given)
    function = function_of(text)
    with np.errstate(over="ignore"):
        function(*wanted, *EXTENTS.values())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        wf.kernel(function)(*found, *EXTENTS.values())
    for own, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(own, other, err_msg=text)
    return not told


@pytest.mark.parametrize("seed", some_slow(range(60), range(20, 60)))
def test_random_reductions(seed: int) -> None:
    assert check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(1, 10))
def test_many_random_reductions(hundred: int) -> None:
    assert sum(check(seed) for seed in range(100 * hundred, 100 * hundred + 100)) > 95
