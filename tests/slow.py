"""Parameters of which some take long: these run in `make test-all` alone.

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


def every_second(values: Iterable[Any]) -> list[Any]:
    """The values, every second one marked as slow, where all are much alike."""
    return [_slow(v, False) if number % 2 else v for number, v in enumerate(values)]


def _slow(value: Any, several: bool) -> Any:
    return pytest.param(*(value if several else (value,)), marks=pytest.mark.slow)
