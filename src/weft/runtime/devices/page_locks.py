"""Host memory that GPUs copy to and from as it lies: page-locked, once that is worth it.

A GPU copies at its link's rate only where the host's pages stay in place. Other memory goes through
page-locked pieces (`pinned`), a copy of the host's that takes all its cores to keep up. Locking
the pages of an array takes as long as a few such copies, once: so an array is locked when all of it
has been copied once before, which is never more than twice as slow as knowing beforehand.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy.typing as npt

from weft.runtime.memory import default_limit, owner_of

NDArray: TypeAlias = npt.NDArray[Any]

LEAST = 256 << 10
"""Bytes of an array's memory that are worth it: with less, others may share its pages."""


@dataclass(slots=True)
class _Pages:
    """The memory of one owner."""

    begin: int
    bytes: int
    copied: int = 0
    state: str = "pageable"  # or "locked", or "refused"


class PageLocks:
    """What is known of memory that was copied, and which of it is locked.

    Parameters
    ----------
    lock : function
        lock(address, bytes) locks pages; False where the driver refuses.
    unlock : function
        unlock(address) lets them go.
    is_locked : function
        is_locked(address): whether somebody else has locked the page there.
    most : int, optional
        Bytes to lock at most: such memory cannot be swapped out.
    """

    def __init__(
        self, lock: Callable[[int, int], bool], unlock: Callable[[int], object],
        is_locked: Callable[[int], bool], most: int | None = None,
    ) -> None:  # fmt: skip
        self._lock_pages, self._unlock_pages, self._is_locked = lock, unlock, is_locked
        self.most = default_limit() if most is None else most
        self.bytes = 0
        self._known: dict[int, _Pages] = {}  # by the identities of owners
        self._lock = threading.RLock()  # owners may die while it is held

    def holds(self, array: NDArray) -> bool:
        """Whether a GPU can copy an array as it lies, which is about to be copied."""
        owned = owner_of(array)
        if owned is None:
            return array.nbytes >= LEAST and self._is_foreign(array)
        owner, begin, count = owned
        if count < LEAST:
            return False
        with self._lock:
            pages = self._known.get(id(owner))
            if pages is None:
                pages = self._known[id(owner)] = _Pages(begin, count)
                weakref.finalize(owner, self._forget, id(owner)).atexit = False
            if pages.state == "pageable":
                if 8 * pages.copied < 7 * count:  # of a pool's memory an eighth may lie idle
                    pages.copied += array.nbytes
                    return False
                self._try(pages)
            return pages.state == "locked"

    def _try(self, pages: _Pages) -> None:
        if self.bytes + pages.bytes > self.most:
            return  # until others die
        if self._lock_pages(pages.begin, pages.bytes):
            pages.state = "locked"
            self.bytes += pages.bytes
        else:
            pages.state = "refused"

    def _forget(self, owner: int) -> None:
        with self._lock:
            pages = self._known.pop(owner)
            if pages.state == "locked":
                self._unlock_pages(pages.begin)
                self.bytes -= pages.bytes

    def _is_foreign(self, array: NDArray) -> bool:
        """Whether another library has locked what is its own."""
        if not array.flags.c_contiguous:
            return False
        first = array.__array_interface__["data"][0]
        return self._is_locked(first) and self._is_locked(first + array.nbytes - 1)
