"""Two tiers of compiled code: one that is quick to compile, and one that is quickest to run.

What optimises most takes a compiler two thirds of its time, and gives programs some per cent:
loops are vectors in either tier. So a first call runs code of the first tier, and that of the
second is compiled after it, at the lowest priority, for later calls. A call that is brief in any
case does without the code that is there for speed alone, such as that of several rows at once:
compilers then have half as much to do. All give the same bits.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from weft.errors import CompileError
from weft.records import dataclass
from weft.runtime import ahead
from weft.runtime.toolchain import (
    Compiler,
    Effort,
    find_compiler,
    first_tier,
    forget,
    is_compiled,
    kill_idle,
    load_library,
)  # fmt: skip

_AT_EXIT = 2.0
"""Seconds that the end of a process waits at most for a compiler that it kills."""


@dataclass(frozen=True, slots=True)
class _Task:
    """A text to compile with all optimisation, in place of what `quick` gave, for `adopt`."""

    source: str
    compiler: Compiler
    quick: Compiler
    adopt: Callable[[ctypes.CDLL], None]


class _Background:
    """One thread that compiles one text after another while nobody waits for it."""

    def __init__(self) -> None:
        self._tasks: deque[_Task] = deque()
        self._changed = threading.Condition()
        self._running = False
        self._ended = False

    def add(self, task: _Task) -> None:
        """Have a text wait for `begin`."""
        with self._changed:
            self._tasks.append(task)

    def begin(self) -> None:
        if not self._tasks:
            return
        with self._changed:
            if not self._running and not self._ended:
                self._running = True
                threading.Thread(target=self._work, name="weft-compile", daemon=True).start()

    def _work(self) -> None:
        while (task := self._next()) is not None:
            # Whatever fails here (the disk may be full), what there is so far still runs.
            with suppress(Exception):
                task.adopt(load_library(task.source, task.compiler, idle=True))
                forget(task.source, task.quick)

    def _next(self) -> _Task | None:
        with self._changed:
            if self._tasks and not self._ended:
                return self._tasks.popleft()
            self._running = False
            self._changed.notify_all()
            return None

    def wait(self, seconds: float | None = None) -> bool:
        self.begin()
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, seconds)

    def end(self) -> None:
        """Drop what waits and kill the compiler, so that it leaves nothing half made."""
        self._ended = True
        self._tasks.clear()
        until = monotonic() + _AT_EXIT
        while not self.wait(0.02) and monotonic() < until:
            kill_idle()


_background = _Background()


def load(source: str, effort: Effort, adopt: Callable[[ctypes.CDLL], None]) -> None:
    """Compile C text to a library of the first tier, unless one of the second is there.

    Parameters
    ----------
    source : str
    effort : Effort
        What is done for the first tier; if all, it is the second.
    adopt : callable
        Is given the library; and that of the second tier, from another thread, some time after
        `begin`.

    Raises
    ------
    CompileError
        When there is no compiler, or it refuses the text.
    """
    compiler = find_compiler()
    quick = None if compiler is None else first_tier(compiler, effort)
    if compiler is None or quick is None or is_compiled(source, compiler):
        adopt(load_library(source, compiler))
        return
    try:
        library = load_library(source, quick)
    except CompileError:
        # Another process may be ahead: the second tier is there, and the first one no more. Or
        # the compiler refuses what makes it quick.
        adopt(load_library(source, compiler))
        return
    adopt(library)
    _background.add(_Task(source, compiler, quick, adopt))


def expect() -> None:
    """Be ready for a text: a compiler starts while the program is optimised."""
    compiler = find_compiler()
    quick = None if compiler is None else first_tier(compiler)
    if quick is not None:
        ahead.start((*quick.command, *quick.flags), quick.libraries)


def begin() -> None:
    """Compile what is still to be optimised: a call has ended, of which the time counts."""
    ahead.end()
    _background.begin()


def wait(seconds: float | None = None) -> bool:
    """Wait until nothing more is compiled in the background; whether that is so."""
    return _background.wait(seconds)


def _after_fork() -> None:
    global _background
    _background = _Background()  # the thread of the other one is not here


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(ahead.end)
atexit.register(lambda: _background.end())
