"""The compile cache on disk: files named by what they were made from.

Only its owner can write the directory, and no file in it is ever executed or unpickled
before its checksum holds. Writers put a whole file in place with one rename, so any
number of processes may share the directory without locks.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import shutil
import stat
import threading
import time
from pathlib import Path

from weft.errors import warn
from weft.records import dataclass

_TRAILER = b"weft:end"
"""Marks the end of a cached file; the SHA-256 of what precedes it comes before."""

_TRAILER_BYTES = 32 + len(_TRAILER)

_STAMP = ".cleaned"
"""The file whose time tells when some process looked for what to remove."""

_SECONDS = 3600.0  # after which it is looked again
_PART = 16  # or once a process has stored such a part of the limit


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """What is in the cache."""

    directory: Path
    files: int
    bytes: int


class Cache:
    """A directory of checksummed files.

    Parameters
    ----------
    directory : Path
        Made with mode 0700 if it is missing.
    limit : int
        Bytes above which `clean` removes the files used longest ago; it may be passed for a while.
    """

    def __init__(self, directory: Path, limit: int = 1 << 30) -> None:
        self.directory = directory
        self.limit = limit
        self._stored: int | None = None  # bytes, since it was looked for what to remove

    def path(self, key: str, suffix: str) -> Path:
        """Where the file of a key is, whether or not it exists."""
        return self.directory / (key + suffix)

    def load(self, key: str, suffix: str) -> bytes | None:
        """The contents stored under a key; None where there are none, or are damaged."""
        try:
            contents = self.path(key, suffix).read_bytes()
        except OSError:
            return None
        body, checksum = contents[:-_TRAILER_BYTES], contents[-_TRAILER_BYTES:]
        if checksum != hashlib.sha256(body).digest() + _TRAILER:
            self.remove(key, suffix)
            return None
        return body

    def load_file(self, key: str, suffix: str) -> Path | None:
        """The path of a whole file stored under a key (its checksum follows the contents)."""
        return None if self.load(key, suffix) is None else self.path(key, suffix)

    def save(self, key: str, suffix: str, contents: bytes) -> Path:
        """Store contents under a key, replacing what was there in one step."""
        path = self.path(key, suffix)
        temporary = self._unique(".new-")
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(contents)
                file.write(hashlib.sha256(contents).digest() + _TRAILER)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        if self._is_to_be_cleaned(len(contents)):
            self.clean()
        return path

    def _is_to_be_cleaned(self, stored: int) -> bool:
        """Whether it is time to look at all files, which takes a second where they are many."""
        before, self._stored = self._stored, (self._stored or 0) + stored
        if before is not None:
            return self._stored > self.limit // _PART
        try:
            return time.time() - os.stat(self.directory / _STAMP).st_mtime > _SECONDS
        except OSError:
            return True

    def workspace(self) -> Path:
        """A new directory, for its maker to remove (`clear` does where that was killed)."""
        directory = self._unique(".build-")
        directory.mkdir(mode=0o700)
        return directory

    def _unique(self, prefix: str) -> Path:
        return self.directory / f"{prefix}{os.urandom(8).hex()}"  # `tempfile` takes 3 ms to import

    def remove(self, key: str, suffix: str) -> None:
        with contextlib.suppress(OSError):
            self.path(key, suffix).unlink()

    def info(self) -> CacheInfo:
        sizes = [size for _, size, _ in self._files()]
        return CacheInfo(self.directory, len(sizes), sum(sizes))

    def clear(self) -> CacheInfo:
        """Remove everything; gives what there was."""
        before = self.info()
        for _, _, path in self._files():
            with contextlib.suppress(OSError):
                path.unlink()
        for path in self.directory.glob(".build-*"):  # left by a process that was killed
            shutil.rmtree(path, ignore_errors=True)
        return before

    def clean(self) -> None:
        """Remove the files used longest ago until the rest fits the limit."""
        self._stored = 0
        with contextlib.suppress(OSError):
            (self.directory / _STAMP).touch(mode=0o600)
        files = sorted(file for file in self._files() if not file[2].name.startswith("."))
        total = sum(size for _, size, _ in files)
        for _, size, path in files:
            if total <= self.limit:
                break
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size

    def _files(self) -> list[tuple[float, int, Path]]:
        found = []
        with contextlib.suppress(OSError), os.scandir(self.directory) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_file(follow_symlinks=False) and entry.name != _STAMP:
                        status = entry.stat()
                        used = max(status.st_atime, status.st_mtime)
                        found.append((used, status.st_size, Path(entry.path)))
        return found


def key_of(*parts: str | bytes) -> str:
    """The SHA-256 of some parts, each kept apart from the next, as a file name."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()


def default_directory() -> Path:
    """`$WEFT_CACHE_DIR`, else `weft` in the user's cache directory."""
    chosen = os.environ.get("WEFT_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base and os.path.isabs(base) else Path.home() / ".cache") / "weft"


_opened: dict[Path, Cache] = {}
_opening = threading.Lock()


def open_cache() -> Cache:
    """The process's cache in `default_directory`.

    Where that directory is not safe (not the user's own, or writable by others) or cannot
    be made, a warning says so and a private temporary directory takes its place until
    the process ends.
    """
    try:
        directory = default_directory()
    except RuntimeError:  # no home directory
        directory = Path("~")
    found = _opened.get(directory)
    if found is not None:
        return found
    with _opening:
        if directory not in _opened:
            reason = _prepare(directory)
            _opened[directory] = Cache(directory if not reason else _private(directory, reason))
        return _opened[directory]


def go_elsewhere(unwritten: Cache, error: OSError) -> Cache | None:
    """A private directory in place of the process's cache, which cannot be written to.

    None where it was one already.
    """
    directory = unwritten.directory
    with _opening:
        if directory not in _opened:
            return None
        if _opened[directory] is unwritten:  # no other thread has found it out
            reason = f"it cannot be written ({error.strerror})"
            _opened[directory] = Cache(_private(directory, reason))
        return _opened[directory]


def _after_fork() -> None:
    global _opening
    _opening = threading.Lock()  # another thread may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _prepare(directory: Path) -> str:
    """Make the directory if need be; why it cannot be used, or an empty string."""
    if directory == Path("~"):
        return "there is no home directory"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.stat()
    except OSError as error:
        return f"it cannot be made ({error.strerror})"
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a directory"
    if hasattr(os, "getuid") and status.st_uid != os.getuid():
        return "it belongs to another user"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others may write to it"
    if not os.access(directory, os.W_OK | os.X_OK):
        return "it is read-only"
    return ""


def _private(refused: Path, reason: str) -> Path:
    from tempfile import mkdtemp

    warn(
        f"weft: the compile cache {refused} is not used: {reason}; compiled code is kept for "
        "this process only (set WEFT_CACHE_DIR to a directory that only you can write)"
    )
    directory = Path(mkdtemp(prefix="weft-"))
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # not when a forked child ends
            shutil.rmtree(directory, ignore_errors=True)

    atexit.register(remove)
    return directory
