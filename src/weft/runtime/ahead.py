"""A compiler that is started before there is a text for it.

Starting one takes as long as it works on some lines: that is done while the program is still being
optimised. It reads its text from a pipe, as what another text includes: gcc gets ready for a
language when it has read a text, which takes it a tenth of what it works on one.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from weft.runtime.cache import open_cache

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

_COMES_LATER = '#include "/dev/stdin"\n'


class Ahead:
    """A running compiler that waits for its text.

    Parameters
    ----------
    command : tuple of str
        The compiler and its flags, without a file.
    libraries : tuple of str
    """

    def __init__(self, command: tuple[str, ...], libraries: tuple[str, ...]) -> None:
        from subprocess import DEVNULL, PIPE

        self.made_by = command, libraries
        self._directory = open_cache().workspace()
        self._library = self._directory / "segment.so"
        text = self._directory / "segment.c"
        try:
            text.write_text(_COMES_LATER)
            self._process = launch(
                [*command, "-pipe", str(text), "-o", str(self._library), *libraries],
                self._directory, stdin=PIPE, stderr=DEVNULL,
            )  # fmt: skip
        except OSError:
            self._remove()
            raise
        _running.add(self)

    def compile(self, source: str) -> bytes | None:
        """The library of a text; None where that failed, for whatever reason."""
        try:
            with suppress(OSError):  # it may have ended
                self._process.communicate(source.encode())
            return None if self._process.returncode else self._library.read_bytes()
        except OSError:
            return None
        finally:
            self.end()

    def end(self) -> None:
        """Have it leave nothing behind."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        kill(self._process)
        self._process.wait()
        _running.discard(self)
        self._remove()

    def forget(self) -> None:
        """In a process that was forked: the text comes, and ends, where the other one says so."""
        pipe = self._process.stdin
        if pipe is not None and not pipe.closed:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, pipe.fileno())
            os.close(nothing)
        self._process.returncode = 0  # it is not this process's

    def _remove(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)


def launch(
    command: list[str], directory: Path, stdin: int, stderr: int
) -> subprocess.Popen[bytes]:
    """A compiler that leads a process group, with its files in a directory."""
    import subprocess

    return subprocess.Popen(
        command, stdin=stdin, stdout=subprocess.DEVNULL, stderr=stderr,
        env={**os.environ, "TMPDIR": str(directory)}, process_group=0,
    )  # fmt: skip


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a compiler that leads a process group, and what it has started."""
    if process.poll() is None:
        with suppress(OSError):  # it may have ended
            os.killpg(process.pid, signal.SIGKILL)


_running: set[Ahead] = set()
_started: Ahead | None = None
_lock = threading.Lock()


def start(command: tuple[str, ...], libraries: tuple[str, ...]) -> None:
    """Have a compiler wait for the next text, unless one does already."""
    global _started
    with _lock, suppress(OSError):
        if _started is None:
            _started = Ahead(command, libraries)


def compile_ahead(
    source: str, command: tuple[str, ...], libraries: tuple[str, ...]
) -> bytes | None:
    """The library that the waiting compiler makes of a text; None if there is none that can."""
    found = _take()
    if found is None:
        return None
    if found.made_by == (command, libraries):
        return found.compile(source)
    found.end()
    return None


def end() -> None:
    """End the compiler that waits, if any: no text comes."""
    if _started is not None and (found := _take()) is not None:
        found.end()


def _take() -> Ahead | None:
    global _started
    with _lock:
        found, _started = _started, None
        return found


def _after_fork() -> None:
    global _lock, _started
    _lock = threading.Lock()  # another thread may have held it
    _started = None
    while _running:
        _running.pop().forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
