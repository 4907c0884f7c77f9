"""Random affine nests: what is refused races, and what races is warned of, or a sum."""

from __future__ import annotations

import copy
import itertools
import random
import warnings
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from loops.random_nests import function_of

import weft as wf
from weft.errors import RaceError

EXTENT = 40
Index = tuple[tuple[int, ...], int]
"""Factors of the loops' indices, and what is added."""


@dataclass(frozen=True)
class AffineNest:
    """A write, in up to three loops, of what some reads give; factors may be arguments."""

    text: str
    arguments: tuple[int, ...]
    extents: tuple[int, ...]
    parallel: tuple[bool, ...]
    write: tuple[Index, ...]
    reads: tuple[tuple[Index, ...], ...]

    def races(self) -> bool:
        """Whether two rounds of a parallel loop touch an element that one of them writes."""
        points = list(itertools.product(*map(range, self.extents)))
        for level, parallel in enumerate(self.parallel):
            touched: dict[Any, list[tuple[int, bool]]] = defaultdict(list)
            for point in points:
                for access in (self.write, *self.reads):
                    found = (point[:level], _element(access, point))
                    touched[found].append((point[level], access is self.write))
            for rounds in touched.values():
                several = len({number for number, _ in rounds}) > 1
                if parallel and several and any(written for _, written in rounds):
                    return True
        return False

    def accumulates(self) -> bool:
        """Whether what is written is what was there and more: a sum, in whatever order."""
        points = list(itertools.product(*map(range, self.extents)))
        return any(
            all(_element(read, point) == _element(self.write, point) for point in points)
            for read in self.reads
        )


def _element(access: tuple[Index, ...], point: tuple[int, ...]) -> tuple[int, ...]:
    flat = (sum(map(int.__mul__, factors, point), offset) for factors, offset in access)
    return tuple(place % EXTENT for place in flat)


def write_affine_nest(choose: random.Random) -> AffineNest:
    depth, rank = choose.choice([1, 2, 2, 3]), choose.choice([1, 1, 2])
    names, arguments = "ijk"[:depth], list[int]()
    symbolic = choose.random() < 0.5
    extents = tuple(choose.randint(1, 4) for _ in names)
    parallel = [choose.random() < 0.7 for _ in names]
    parallel[choose.randrange(depth)] = True

    def access() -> tuple[Index, ...]:
        factors = [tuple(choose.choice([0, 1, 1, 2, 3, -1]) for _ in names) for _ in range(rank)]
        return tuple((own, choose.randint(0, 3)) for own in factors)

    def number(value: int) -> str:
        if not symbolic or value == 1:
            return str(value)
        arguments.append(value)
        return f"n{len(arguments) - 1}"

    def shown(of: tuple[Index, ...]) -> str:
        dims = []
        for factors, offset in of:
            terms = [f"{number(f)} * {n}" for f, n in zip(factors, names, strict=True) if f]
            dims.append(" + ".join([*terms, str(offset)]))
        return f"a[{', '.join(dims)}]"

    write, reads = access(), tuple(access() for _ in range(choose.choice([0, 1, 2])))
    if reads and choose.random() < 0.3:
        reads = (write,)
    lines = []
    for level, (name, extent) in enumerate(zip(names, extents, strict=True)):
        kind = "wf.prange" if parallel[level] else "range"
        lines.append("    " * (level + 1) + f"for {name} in {kind}({number(extent)}):")
    value = " + ".join([*map(shown, reads), *(f"{n + 2} * {i}" for n, i in enumerate(names))])
    lines.append("    " * (depth + 1) + f"{shown(write)} = {value}")
    head = f"def nest({', '.join(['a', *(f'n{k}' for k in range(len(arguments)))])}):"
    text = "\n".join([head, *lines, ""])
    return AffineNest(text, tuple(arguments), extents, tuple(parallel), write, reads)


def check(seed: int) -> None:
    nest = write_affine_nest(random.Random(seed))
    before = np.random.default_rng(seed).random((EXTENT,) * len(nest.write))
    found, expected = copy.deepcopy(before), copy.deepcopy(before)
    function = function_of(nest.text)
    function(expected, *nest.arguments)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            wf.kernel(function)(found, *nest.arguments)
            refused = ""
        except RaceError as error:
            refused = str(error)
    if refused:
        assert nest.races(), f"{nest.text}{nest.arguments}\n{refused}"
        return
    np.testing.assert_allclose(found, expected, err_msg=nest.text)
    assert told or not nest.races() or nest.accumulates(), nest.text


@pytest.mark.parametrize("seed", range(40))
def test_random_affine_nests(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(1, 9))
def test_many_random_affine_nests(hundred: int) -> None:
    for seed in range(100 * hundred, 100 * hundred + 100):
        check(seed)
