"""Parameters of which some take long: these run in `make test-all` alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def some_slow(values: Iterable[Any], slow: Collection[Any]) -> list[Any]:
    """The values, those among them that take long marked as slow."""
    given = list(values)
    assert all(value in given for value in slow)
    return [pytest.param(v, marks=pytest.mark.slow) if v in slow else v for v in given]
