"""What every refusal must be: a named error that says what was found, where, and what to do."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft.errors import InternalError, WeftError


def refused(
    run: Callable[[], Any], named: type[WeftError], builtin: type[Exception], line: str = "",
    **says: str,
) -> WeftError:  # fmt: skip
    """The error that a call ends with, checked.

    Parameters
    ----------
    run : callable
    named, builtin : type
        The error's own class, and the one that a user of Python would catch.
    line : str, optional
        What the user's line, which the error names, holds.
    **says : str
        What `found`, `expected` and `advice` must hold.
    """
    with pytest.raises(builtin) as caught:
        run()
    error = caught.value
    assert type(error) is named, f"{type(error).__name__}: {error}"
    assert isinstance(error, named)
    assert not isinstance(error, InternalError)
    assert error.found
    assert error.__cause__ is None or error.__suppress_context__ or isinstance(
        error.__cause__, Exception
    )
    for part, text in says.items():
        assert text in getattr(error, part), f"{part}: {getattr(error, part)!r}"
    if line:
        assert error.place is not None, f"no line in: {error}"
        assert line in error.place.excerpt(), error
        assert str(error.place) in str(error)
    return error


def script(folder: Path, text: str, *arguments: str) -> list[str]:
    """The command that runs a program of its own."""
    path = folder / "program.py"
    path.write_text(textwrap.dedent(text))
    return [sys.executable, str(path), *arguments]


def finished(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """A program run to its end."""
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, **options
    )


def leftovers(folder: Path, *known: str) -> list[str]:
    """Files in a folder that are not known."""
    return sorted(path.name for path in folder.iterdir() if path.name not in known)
