"""Large parts of a file written past the system's cache of pages, where that is quicker.

A write copies to the cache, which takes a processor as long as it takes to find pages for it: on
machines that have to ask for their memory (virtual ones, full ones) longer than a disk takes to
write. A write past it takes the disk's time, but no processor's. Which is quicker is measured, on
the writes themselves. What has gone through the cache is there for whoever reads it next, so that
it is left only for something much quicker.
"""

from __future__ import annotations

import errno
import os
import threading
from time import perf_counter

from weft.io.files import Array, write_vector

PAGE = 4096
"""Bytes that offsets are multiples of."""

_SECTOR = 512  # bytes that addresses are multiples of, at least
_LEAST = 1 << 20  # bytes that are worth it
_MUCH = 2.0  # times as quick
_AGAIN = 16  # of the time of writes a part at most tells how quick the other way is now

_REFUSED = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOENT, errno.EACCES, errno.EPERM)


class PastPages:
    """Writes to one file. Calls from any number of threads are safe.

    Parameters
    ----------
    path : str
        The file, which is open for writing elsewhere too.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1
        self._opening = threading.Lock()
        self._refused = not hasattr(os, "O_DIRECT")
        self._seconds: dict[bool, float] = {}  # for a byte, past the pages and through them
        self._since = 0  # writes the quicker way
        self.past = 0  # bytes that went past the pages

    def move(self, descriptor: int, buffers: list[Array], offset: int) -> int:
        """As `write_vector`, through either way."""
        (first, *others), behind = buffers, -offset % PAGE
        address = first.ctypes.data + behind
        if others or self._refused or first.size - behind < _LEAST or address % _SECTOR:
            return write_vector(descriptor, buffers, offset)
        if behind:
            return os.pwrite(descriptor, first[:behind].data, offset)
        whole = first[: first.size // PAGE * PAGE].data
        past = self._is_next_past()
        start = perf_counter()
        try:
            written = os.pwrite(self._opened() if past else descriptor, whole, offset)
        except OSError as error:
            if not past or error.errno not in _REFUSED:
                raise
            self._refused = True
            return write_vector(descriptor, buffers, offset)
        now = (perf_counter() - start) / max(written, 1)
        self._seconds[past] = (self._seconds.get(past, now) + now) / 2
        self.past += written if past else 0
        return written

    def _is_next_past(self) -> bool:
        """Which way the next write goes: each once, then the quicker one, mostly."""
        through, past = self._seconds.get(False), self._seconds.get(True)
        if through is None or past is None:
            return through is not None
        better = through > _MUCH * past
        slower = max(1.0, self._seconds[not better] / max(self._seconds[better], 1e-15))
        self._since += 1
        if self._since < _AGAIN * slower:
            return better
        self._since = 0
        return not better

    def _opened(self) -> int:
        with self._opening:
            if self._descriptor < 0:
                self._descriptor = os.open(self._path, os.O_WRONLY | os.O_DIRECT | os.O_CLOEXEC)
            return self._descriptor

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
