"""A segment's text in parts that compilers can work on at the same time.

A text is what all of it needs (types, helpers), then the function of each tile after the struct of
its closure, then the entry, which has the address of each such function and calls none itself: no
function is compiled in another way where the others are elsewhere.
"""

from __future__ import annotations

import re

_FUNCTION = re.compile(r"^(?=struct closure_\d+ \{$|__attribute__.*\bint32_t \w+\()", re.MULTILINE)
_TILE = re.compile(r"(struct .*?\n\};\n)static (void tile_\d+\([^)]*\))( \{\n.*)", re.DOTALL)
_HIDDEN = '__attribute__((visibility("hidden"))) '

_WORTH = 4
"""Loops on which a compiler works for longer than another one takes to start."""


def _loops(text: str) -> int:
    """What compilers spend their time on, of whatever length the text is."""
    return text.count("for (")


def units(source: str, most: int) -> list[str]:
    """The translation units of a segment's text, of about equal work.

    Parameters
    ----------
    source : str
        What `weft.printers.c` printed; any other text is one unit.
    most : int
        How many units there may be.
    """
    common, *functions = _FUNCTION.split(source)
    tiles = [_TILE.fullmatch(function) for function in functions[:-1]]
    whole, longest = sum(map(_loops, functions)), max(map(_loops, functions), default=0)
    count = min(most, whole // _WORTH, len(functions))
    if count < 2 or whole - longest < _WORTH:
        return [source]
    declared, apart = [common], functions[-1:]
    for tile in tiles:
        if tile is None:
            return [source]
        declared.append(f"{tile[1]}{_HIDDEN}{tile[2]};\n")
        apart.append(f"{_HIDDEN}{tile[2]}{tile[3]}")
    groups: list[list[str]] = [["".join(declared)] for _ in range(count)]
    for function in sorted(apart, key=_loops, reverse=True):  # each to what is least so far
        min(groups, key=lambda group: sum(map(_loops, group))).append(function)
    return ["".join(group) for group in groups if len(group) > 1]
