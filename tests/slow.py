"""Parameters of which some take long, and random programs: all run in `make test-all` alone.

With `several`, each value is a tuple of several parameters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def some_slow(values: Iterable[Any], slow: Collection[Any], several: bool = False) -> list[Any]:
    """The values, those among them that take long marked as slow."""
    given = list(values)
    assert all(value in given for value in slow)
    return [_slow(value, several) if value in slow else value for value in given]


def every_second(values: Iterable[Any], several: bool = False) -> list[Any]:
    """The values, every second one marked as slow, where all are much alike."""
    return [_slow(v, several) if number % 2 else v for number, v in enumerate(values)]


everything = False
"""Whether all tests run, which `conftest.py` says before they are found."""


def examples(count: int) -> int:
    """How many random programs a test tries: so many, a third of them where not all tests run."""
    return count if everything else -(-count // 3)


def first_quick(values: Iterable[Any], kinds: Iterable[Any]) -> list[Any]:
    """The values, all but the first of each kind marked as slow."""
    seen: list[Any] = []
    found = []
    for value, kind in zip(values, kinds, strict=True):
        found.append(_slow(value, False) if kind in seen else value)
        seen.append(kind)
    return found


def _slow(value: Any, several: bool) -> Any:
    return pytest.param(*(value if several else (value,)), marks=pytest.mark.slow)
