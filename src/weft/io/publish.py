"""Drafts: files that are written under another name and published when they are whole."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import os
import secrets
import shutil
import threading

from weft.errors import SinkError
from weft.io.files import Array, Extent, extend, write_box
from weft.io.past_pages import PastPages
from weft.plan.protocols import Box

_SUFFIX = ".weft-draft"
_LONGEST = 200  # bytes of a name that drafts begin with: file systems take 255 for all of theirs
_LARGE = 64 << 20  # bytes of a file whose blocks and pages take long to free
_freed: list[threading.Thread] = []  # which free those of files that have been replaced


class Draft:
    """A file of known size in the directory of its final place.

    Its space is reserved at once where the file system can. A lock held on it tells other
    processes that its writer lives; drafts without one are remains of killed processes, and the
    next draft for the same place removes them.
    """

    def __init__(self, path: str, size: int, *, replace: bool) -> None:
        self.name = path
        self._path = os.path.abspath(path)
        self._replace = replace
        refuse_existing(path, replace=replace)
        remove_remains(self._path)
        require_space(path, size)
        self.path = draft_name(self._path)
        self._past_pages = PastPages(self.path)
        try:
            self.descriptor = os.open(
                self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666
            )
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            raise unwritable(path, error) from error
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            extend(self.descriptor, size)
        except OSError as error:
            self.discard()
            raise unwritable(path, error) from error

    def write(self, data: bytes, offset: int) -> None:
        """Write bytes at an offset."""
        try:
            while data:
                written = os.pwrite(self.descriptor, data, offset)
                data, offset = data[written:], offset + written
        except OSError as error:
            raise unwritable(self.name, error) from error

    def write_box(self, extent: Extent, box: Box, data: Array) -> None:
        """Write a box of an array that lies in the draft."""
        try:
            write_box(self.descriptor, extent, box, data, self._past_pages.move)
        except OSError as error:
            raise unwritable(self.name, error) from error

    def publish(self) -> None:
        """Give the file its final name, in one step."""
        try:
            publish(self.path, self._path, replace=self._replace)
        except OSError as error:
            self.discard()
            raise error if isinstance(error, SinkError) else unwritable(self.name, error) from error
        self._close()

    def discard(self) -> None:
        """Remove the draft; nothing where it is published or removed already."""
        if self.descriptor >= 0:
            self._close()
            remove_file(self.path)

    def _close(self) -> None:
        self._past_pages.close()
        _let_go(self.descriptor)
        self.descriptor = -1


class DraftDirectory:
    """A directory in the place of its final one; a partial one is kept when it is abandoned."""

    def __init__(self, path: str, size: int, *, replace: bool, partial: bool) -> None:
        self.name = path
        self._path = os.path.abspath(path)
        self._replace, self._partial = replace, partial
        refuse_existing(path, replace=replace, directory=True)
        remove_remains(self._path)
        directory, name = os.path.split(self._path)
        if partial:
            self.path = os.path.join(directory, f".{name}.weft-partial")
        else:
            self.path = draft_name(self._path)
        self.found = os.path.isdir(self.path)
        if not self.found:
            require_space(path, size)
        try:
            os.makedirs(self.path, exist_ok=True)
            self._lock = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise unwritable(path, error) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise SinkError(
                f"another process is writing {path}", "one writer", "wait for it to end"
            ) from None

    def publish(self) -> None:
        """Give the directory its final name."""
        try:
            publish(self.path, self._path, replace=self._replace)
        except OSError as error:
            self.discard()
            raise error if isinstance(error, SinkError) else unwritable(self.name, error) from error
        self._close()

    def discard(self) -> None:
        """Remove the directory, or leave it for another run to resume."""
        if self._lock >= 0:
            self._close()
            if not self._partial:
                shutil.rmtree(self.path, ignore_errors=True)

    def _close(self) -> None:
        _let_go(self._lock)
        self._lock = -1


def _let_go(descriptor: int) -> None:
    """Close a descriptor and give up its lock, which a forked process would keep with its copy."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def remove_file(path: str) -> None:
    """Remove a file that may be gone."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def draft_name(path: str) -> str:
    """A fresh hidden name beside `path`."""
    directory, name = os.path.split(path)
    return os.path.join(directory, f".{_shortened(name)}.{secrets.token_hex(4)}{_SUFFIX}")


def _shortened(name: str) -> str:
    """As much of a name as leaves room for what makes it that of a draft."""
    return os.fsencode(name)[:_LONGEST].decode(errors="ignore")


def final_place(path: str) -> str:
    """Where what is published as `path` appears: one name for all ways to spell it."""
    directory, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(directory), name)


def publish(draft: str, path: str, *, replace: bool) -> None:
    """Move a draft (file or directory) to its final name."""
    if replace:
        if os.path.isdir(path) and not os.path.islink(path):
            _replace_directory(draft, path)
        else:
            _replace_file(draft, path)
    elif os.path.isdir(draft):
        refuse_existing(path, replace=False)
        os.rename(draft, path)
    else:
        try:
            os.link(draft, path)  # unlike a rename, fails where the name is taken
        except FileExistsError:
            refuse_existing(path, replace=False)
        except OSError:
            refuse_existing(path, replace=False)
            os.rename(draft, path)
        else:
            os.unlink(draft)


def _replace_file(draft: str, path: str) -> None:
    """Move a draft over a file that may be there, of which the space is freed meanwhile.

    That takes as long as a tenth of writing as much. It begins when nothing has the file open,
    so it is held until another thread lets go of it.
    """
    held = _hold(path)
    try:
        os.replace(draft, path)
    finally:
        if held >= 0:
            thread = threading.Thread(target=os.close, args=(held,), name="weft-free", daemon=True)
            _freed[:] = [other for other in _freed if other.is_alive()] + [thread]
            thread.start()


def _hold(path: str) -> int:
    """A descriptor of a large file; -1 where there is none, or no way to have one unread."""
    if not hasattr(os, "O_PATH"):
        return -1
    try:
        held = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return -1
    if os.fstat(held).st_size >= _LARGE:
        return held
    os.close(held)
    return -1


def _replace_directory(draft: str, path: str) -> None:
    """A directory cannot be renamed over another one: the old one steps aside first."""
    aside = draft_name(path)
    os.rename(path, aside)
    try:
        os.rename(draft, path)
    except OSError:
        os.rename(aside, path)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def refuse_existing(path: str, *, replace: bool, directory: bool = False) -> None:
    """Raise `SinkError` where something is in the way and may not be replaced.

    A file replaces no directory, whatever may lie in it; nor does a directory replace a file.
    """
    if not os.path.lexists(path):
        return
    if not replace:
        raise SinkError(
            f"{path} already exists", "a new name", 'mode="w" replaces it, mode="r+" writes into it'
        )
    if (os.path.isdir(path) and not os.path.islink(path)) != directory:
        kind = "no directory" if directory else "a directory"
        raise SinkError(f"{path} is {kind}", "a new name, or what a target of its kind replaces")


def remove_remains(path: str) -> None:
    """Remove drafts of `path` whose writer was killed."""
    directory, name = os.path.split(path)
    begin = glob.escape(_shortened(name))
    pattern = os.path.join(glob.escape(directory), f".{begin}.*{_SUFFIX}")
    for remains in glob.glob(pattern):
        try:
            descriptor = os.open(remains, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.isdir(remains):
                shutil.rmtree(remains, ignore_errors=True)
            else:
                remove_file(remains)
        except OSError:
            pass  # its writer lives
        finally:
            os.close(descriptor)


def require_space(path: str, size: int) -> None:
    """Raise `SinkError` where the file system has no room for `size` more bytes."""
    directory = os.path.dirname(os.path.abspath(path))
    free = _free_bytes(path, directory)
    if free < size:
        for thread in _freed:
            thread.join()
        free = _free_bytes(path, directory)
    if free < size:
        raise SinkError(
            f"{directory} has {free:,} bytes free", f"{size:,} bytes for {path}",
            "free some space or write elsewhere",
        )  # fmt: skip


def _free_bytes(path: str, directory: str) -> int:
    try:
        status = os.statvfs(directory)
    except OSError as error:
        raise unwritable(path, error) from error
    return status.f_bavail * status.f_frsize


_REASONS = {
    errno.ENOSPC: "the file system is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "files may not grow so large",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "it may not be written",
    errno.EPERM: "it may not be written",
    errno.ENOENT: "its directory does not exist",
}


def unwritable(path: str, error: Exception) -> SinkError:
    """The `SinkError` for a target that cannot be created or written."""
    number = getattr(error, "errno", None)
    reason = _REASONS.get(number or 0) or getattr(error, "strerror", None) or str(error)
    return SinkError(f"cannot write {path}: {reason}", "a writable place with enough room")
