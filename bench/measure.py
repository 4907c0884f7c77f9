"""Contenders in alternation, and what their times say."""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from weft.runtime import tiers

ROUNDS = 9
LEAST_ROUNDS = 5
PAUSE = 0.02
"""Seconds before each call, and again while threads of this process still run."""
PAUSES = 25  # at most
SLOW = 8.0
"""A contender this many times slower than the fastest runs in `LEAST_ROUNDS` rounds alone."""


@dataclass
class Times:
    """Seconds of each contender, round by round (missing rounds: None)."""

    seconds: dict[str, list[float | None]] = field(default_factory=dict)

    def median(self, name: str) -> float:
        return statistics.median(s for s in self.seconds[name] if s is not None)

    def ratio(self, name: str, of: str) -> float:
        """The median over rounds of (seconds of `name`) / (seconds of `of`)."""
        pairs = zip(self.seconds[name], self.seconds[of], strict=True)
        return statistics.median(a / b for a, b in pairs if a is not None and b is not None)

    def spread(self, name: str) -> float:
        """Largest over smallest time: how quiet the machine was."""
        known = [s for s in self.seconds[name] if s is not None]
        return max(known) / min(known)


def settle() -> None:
    """Wait until no thread of this process runs, and Weft has no code to optimise.

    OpenMP's spin for milliseconds after a region has ended, OpenBLAS's for 100 after a product;
    they would take the processors from whoever comes next.
    """
    tiers.wait()
    for _ in range(PAUSES):
        before = time.process_time()
        time.sleep(PAUSE)
        if time.process_time() - before < PAUSE / 10:
            return


def timed(function: Callable[[], object]) -> float:
    """Seconds of one call; its result dies outside the clock."""
    start = time.perf_counter()
    result = function()
    seconds = time.perf_counter() - start
    del result
    return seconds


def alternate(
    contenders: Mapping[str, Callable[[], object]], rounds: int = ROUNDS,
    before: Callable[[str], object] = lambda name: None, awake: bool = False,
) -> Times:  # fmt: skip
    """Warm every contender up, then time them in turn, each round beginning with another.

    `before` is called before each, outside the clock. `awake`: each is timed just after two calls
    of its own, when its threads still run if they ever do so. In the second one a driver gives
    back the memory that another one had.
    """

    def once(name: str) -> float:
        before(name)
        settle()
        for _ in range(2 if awake else 0):
            contenders[name]()
        return timed(contenders[name])

    names = list(contenders)
    warm = {}
    for name in names:
        once(name)
        warm[name] = min(once(name) for _ in range(2))
    fastest = min(warm.values())
    times = Times({name: [] for name in names})
    gc.collect()
    gc.disable()
    try:
        for number in range(rounds):
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                skipped = number >= LEAST_ROUNDS and warm[name] > SLOW * fastest
                times.seconds[name].append(None if skipped else once(name))
    finally:
        gc.enable()
    return times


def table(header: list[str], rows: list[list[str]]) -> str:
    """Columns aligned: the first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = []
    for row in [header, ["-" * width for width in widths], *rows]:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def note(text: str) -> None:
    """Progress, apart from the results."""
    print(text, file=sys.stderr, flush=True)
