"""The exception tree, places in user code, and excerpts of it.

Every error that Weft raises is a `WeftError`, and each leaf is also the built-in
exception that a Python user would catch.
"""

from __future__ import annotations

import linecache
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from numpy.linalg import LinAlgError

from weft.records import dataclass

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_PROGRAMS = os.path.join(_PACKAGE, "demo") + os.sep  # that are written as a user's are
_own: dict[str, bool] = {}


@dataclass(frozen=True, slots=True)
class Place:
    """A line of user code: where an operation was written."""

    file: str
    line: int
    function: str = ""
    column: int = 0  # from 1; 0 where it is not known

    def __str__(self) -> str:
        column = f":{self.column}" if self.column else ""
        return f"{self.file}:{self.line}{column}"

    def excerpt(self) -> str:
        """The source line, stripped, or an empty string where it cannot be read."""
        return linecache.getline(self.file, self.line).strip()


class _Reading(threading.local):
    """The statement of user code that this thread interprets, if it does."""

    place: Place | None = None


_reading = _Reading()


def interpreted_place() -> Place | None:
    """Where in the user's code Weft is, while it interprets a function's syntax tree."""
    return _reading.place


@contextmanager
def interpreting(place: Place | None) -> Iterator[None]:
    """What happens in the block is due to this place in the user's code."""
    before, _reading.place = _reading.place, place
    try:
        yield
    except WeftError:
        raise
    except Exception as error:  # Python's own, which know no place in what is interpreted
        note_place(error, place)
        raise
    finally:
        _reading.place = before


def note_place(error: Exception, place: Place | None) -> None:
    """Note where in the user's code an error arose, unless that is noted already."""
    if place is not None and not getattr(error, "__notes__", None):
        error.add_note(f"at {place}: {place.excerpt()}")


def is_own(file: str) -> bool:
    """Whether a file is Weft's, and not a program that uses it."""
    own = _own.get(file)
    if own is None:
        own = _own[file] = file.startswith(_PACKAGE) and not file.startswith(_PROGRAMS)
    return own


def user_frame() -> FrameType | None:
    """The innermost frame outside Weft itself (None when there is none)."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_own(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def user_place() -> Place | None:
    """The line of user code that Weft is called from or interprets (None when there is none)."""
    if _reading.place is not None:
        return _reading.place
    frame = user_frame()
    if frame is None:
        return None
    return Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def place_at_caller(error: WeftError) -> None:
    """Name the line of user code that Weft was called from, where an error names none."""
    place = user_place() if error.place is None else None
    if place is not None:
        error.move_to(place)


class Placing:
    """Errors of the block are placed at the line of user code that Weft was called from."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, WeftError):
            place_at_caller(error)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of something at the innermost frame outside Weft itself: the user's line."""
    level = 1
    frame = sys._getframe()
    while frame.f_back is not None and is_own(frame.f_code.co_filename):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


class WeftError(Exception):
    """The root of all errors that Weft raises.

    Parameters
    ----------
    found : str
        What was found, as a sentence without its full stop.
    expected : str
        What was expected, or an empty string.
    advice : str
        What to do about it, or an empty string.
    place : Place or None
        Where in the user's code.
    """

    def __init__(
        self, found: str, expected: str = "", advice: str = "", place: Place | None = None
    ) -> None:
        self.found = found
        self.expected = expected
        self.advice = advice
        self.place = place
        super().__init__(self._message())

    def _message(self) -> str:
        lines = [self.found]
        if self.expected:
            lines.append(f"expected: {self.expected}")
        if self.place is not None:
            excerpt = self.place.excerpt()
            lines.append(f"at {self.place}" + (f": {excerpt}" if excerpt else ""))
        if self.advice:
            lines.append(f"try: {self.advice}")
        return "\n  ".join(lines)

    def move_to(self, place: Place) -> None:
        """Name another line of user code."""
        self.place = place
        self.args = (self._message(),)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.found, self.expected, self.advice, self.place)


class ShapeError(WeftError, ValueError):
    """Shapes that do not fit together."""


class ArgumentError(WeftError, ValueError):
    """An argument outside what a function accepts."""


class DTypeError(WeftError, TypeError):
    """A dtype that an operation does not take."""


class ArgumentTypeError(WeftError, TypeError):
    """An argument of a type that a function does not take."""


class TracingError(WeftError, TypeError):
    """Code that needs a value while only its shape and dtype are known."""


class UndefinedNameError(TracingError, NameError):
    """A name that Python does not find either, or that has no value yet."""


def called(name: str) -> str:
    """What a user called what a program has under a name: names are numbered there."""
    base, _, number = name.rpartition("_")
    return base if base and number.isdigit() else name


class OutOfBoundsError(WeftError, IndexError):
    """An index outside its array."""


class RaceError(WeftError, ValueError):
    """A loop that is said to be parallel, two of whose rounds access one element."""


class RaceWarning(UserWarning):
    """A loop that is said to be parallel runs in order: it is not known to have no races."""


class MemoryLimitError(WeftError, MemoryError):
    """A program that does not fit the memory limit however it is cut."""

    needed = 0  # bytes, by which the planner compares what did not fit
    has_written = False  # results may be in the arrays given for them, which nothing there reads
    has_begun = False  # arguments that are read may have been updated: no call can be made again


class SourceError(WeftError, OSError):
    """Input that cannot be read: missing, truncated, of an unknown format, shrunk."""


class SinkError(WeftError, OSError):
    """Output that cannot be written: read-only, full, already there."""


class CompileError(WeftError, RuntimeError):
    """Generated code that a compiler refused, or no compiler where one is needed."""


class DeviceError(WeftError, RuntimeError):
    """A device that refused a launch or a copy, or was lost."""


class ImplicitComputeError(WeftError, RuntimeError):
    """A value was asked of a lazy array while `implicit_compute` is "raise"."""


class LinearAlgebraError(WeftError, LinAlgError):
    """A factorisation that a matrix does not have, as of a singular one."""


class UnsupportedError(WeftError, NotImplementedError):
    """Something that Weft does not do (yet)."""


class InternalError(WeftError, AssertionError):
    """A broken invariant of the compiler: names the pass and shows the statement."""
