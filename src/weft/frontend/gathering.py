"""What functions come upon while they are called, gathered for whoever called them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Found = TypeVar("Found")


@contextmanager
def gathering(into: ContextVar[list[Found] | None]) -> Iterator[list[Found]]:
    """Inside, the variable holds a list that functions add to; None, where nobody gathers."""
    found: list[Found] = []
    token = into.set(found)
    try:
        yield found
    finally:
        into.reset(token)
