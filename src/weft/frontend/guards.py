"""Guards: the facts under which a graph holds, collected while it is built or traced."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.records import dataclass
from weft.sizes import Derived, Fact


@dataclass(frozen=True, slots=True)
class Guard:
    """A fact under which the graph was built, and the derived sizes that it names."""

    fact: Fact
    derived: tuple[Derived, ...] = ()


class _Recording(threading.local):
    """Guards since the last node was made, or since tracing began, in this thread."""

    def __init__(self) -> None:
        self.guards: list[Guard] = []
        self.depth = 0  # of compiled functions and combinators being traced
        self.chosen: dict[Any, Any] = {}  # extents computed in the outermost one, outside bodies


_recording = _Recording()


def tracing() -> bool:
    """Whether a function is being traced: shapes are then extents, not ints."""
    return _recording.depth > 0


@contextmanager
def recording() -> Iterator[list[Guard]]:
    """Trace a function: guards are collected in the list, for the whole of the block."""
    outer = _recording.guards
    guards: list[Guard] = []
    _recording.guards = guards
    _recording.depth += 1
    try:
        yield guards
    finally:
        _recording.guards = outer
        _recording.depth -= 1
        if not _recording.depth:
            _recording.chosen.clear()


def chosen() -> dict[Any, Any] | None:
    """Extents that the function being traced computes outside all bodies, by what they are of."""
    return _recording.chosen if _recording.depth else None


def record(guards: list[Guard]) -> None:
    """Add guards to those being collected."""
    _recording.guards.extend(guards)


def take_guards() -> tuple[Guard, ...]:
    """The guards that belong to the node being made (none while a function is traced)."""
    if _recording.depth or not _recording.guards:
        return ()
    guards = tuple(_recording.guards)
    _recording.guards.clear()
    return guards


def forget_guards() -> None:
    """Drop what a failed operation recorded."""
    if not _recording.depth:
        _recording.guards.clear()
