"""Memory: sizes as text, the default limit, a budget, and a pool of host blocks.

On virtual machines the first touch of a page can cost more than the kernel that touches
it, so blocks are kept after use and given out again, already faulted in.
"""

from __future__ import annotations

import bisect
import ctypes
import itertools
import math
import mmap
import os
import re
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.errors import ArgumentError, MemoryLimitError
from weft.runtime.address import address_of
from weft.runtime.apart import first_byte
from weft.runtime.threads import cgroup_directories

# ---------------------------------------------------------------- sizes as text

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGTP", start=1):
    _UNITS[_letter + "B"] = 1000**_power
    _UNITS[_letter] = _UNITS[_letter + "IB"] = 1024**_power

_SIZE = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z]*)\s*")


def parse_bytes(size: str | int | float) -> int:
    """The number of bytes that a text such as `"256 MiB"`, `"1.5GB"` or `"4096"` names.

    KiB, MiB, GiB, ... (and K, M, G) are powers of 1024; kB, MB, GB, ... of 1000.

    Raises
    ------
    ArgumentError
        When it is no size, or negative.
    """
    if isinstance(size, str):
        match = _SIZE.fullmatch(size)
        unit = _UNITS.get(match[2].upper()) if match else None
        if match is None or unit is None:
            raise ArgumentError(f"{size!r} is not a size in bytes", 'a text such as "256 MiB"')
        number: int | float = float(match[1]) * unit
    else:
        number = size
    if not 0 <= number < math.inf:
        raise ArgumentError(f"{size!r} is not a size in bytes", "a number that is not negative")
    return int(number)


def format_bytes(count: int | float) -> str:
    """A number of bytes for people: `"512 B"`, `"1.5 KiB"`, `"256 MiB"`."""
    if abs(count) < 1024:
        return f"{int(count)} B"
    amount = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        amount /= 1024
        if abs(amount) < 1023.95 or unit == "PiB":
            break
    text = f"{amount:.1f}" if abs(amount) < 99.95 else f"{amount:.0f}"
    return f"{text.removesuffix('.0')} {unit}"


# ---------------------------------------------------------------- the default limit


def available_memory() -> int:
    """Bytes that this process could still allocate: of the machine, and of its cgroups."""
    amounts = [_machine_available()]
    for version, directory in cgroup_directories("memory"):
        left = _cgroup_available(version, directory)
        if left is not None:
            amounts.append(left)
    return max(0, min(amounts))


def default_limit() -> int:
    """60% of the memory available to the process now, in bytes."""
    return int(0.6 * available_memory())


def _machine_available() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _cgroup_available(version: str, directory: Path) -> int | None:
    """What a cgroup leaves: its limit, less what it uses that is not page cache."""
    names = ("memory.max", "memory.current", "inactive_file")
    if version == "v1":
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    try:
        limit = (directory / names[0]).read_text().strip()
        if limit == "max" or int(limit) >= 1 << 60:
            return None
        used = int((directory / names[1]).read_text())
        for line in (directory / "memory.stat").read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == names[2]:
                used -= int(value)
    except (OSError, ValueError):
        return None
    return int(limit) - used


# ---------------------------------------------------------------- the budget


class Budget:
    """An account of bytes in use, with a limit that is never passed. Thread-safe.

    Attributes
    ----------
    limit, now, peak : int
        Bytes allowed, in use, and the most ever in use.
    """

    __slots__ = ("_lock", "limit", "now", "peak")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.now = 0
        self.peak = 0
        self._lock = threading.Lock()

    def reserve(self, count: int, purpose: str = "") -> None:
        """Account for `count` more bytes.

        Raises
        ------
        MemoryLimitError
            When they would pass the limit; nothing is then reserved.
        """
        with self._lock:
            if self.now + count > self.limit:
                raise MemoryLimitError(
                    f"{format_bytes(count)} {'for ' + purpose + ' ' if purpose else ''}"
                    f"are asked of {format_bytes(self.limit)}, of which "
                    f"{format_bytes(self.now)} are in use",
                    "no more than the memory limit",
                    "raise memory_limit",
                )
            self.now += count
            self.peak = max(self.peak, self.now)

    def release(self, count: int) -> None:
        """Give back `count` bytes."""
        with self._lock:
            self.now -= count


# ---------------------------------------------------------------- the pool

_PAGE = mmap.PAGESIZE
_HUGE_PAGE = 2 << 20
_SMALL = 64 << 10
"""Below this, `numpy.empty` is as good: malloc keeps such memory itself."""

_MOST_WASTE = 8
"""A block is reused for a request if no more than 1/8 of it would lie idle."""


_LINE, _SECTOR = 64, 512

_APART = 25 * _LINE
"""How far one block begins behind the last, within a page.

Elements of one number in several arrays then lie in different sets of a cache, and no load waits
for a store to another array whose address has the same last bits. In lines of 64 bytes it has no
factor in common with a page and is near its golden section: any few blocks lie far apart.
"""

_FAR_APART = 5 * _SECTOR
"""The same of large ones, which begin with a sector, so that disks take them as they lie."""

_mappings = itertools.count()


class _Mapping:
    """Pages of anonymous memory; huge ones where they fit."""

    __slots__ = ("__weakref__", "_map", "address", "begin", "bytes", "memory", "step")

    def __init__(self, count: int) -> None:
        huge = count >= _HUGE_PAGE
        # The kernel backs only aligned ranges with huge pages; what is cut off is never touched.
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._map = mmap.mmap(-1, count + _PAGE + (_HUGE_PAGE if huge else 0), flags)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        skipped = -start % _HUGE_PAGE if huge else 0
        if huge and hasattr(mmap, "MADV_HUGEPAGE"):
            self._map.madvise(mmap.MADV_HUGEPAGE, skipped, count // _HUGE_PAGE * _HUGE_PAGE)
        self.bytes = count
        self.begin, self.step = start + skipped, _SECTOR if huge else _LINE
        apart = _FAR_APART if huge else _APART
        self.address = self.begin + next(_mappings) * apart % _PAGE
        self.memory = _memory_type(count)


class _Memory:
    """What an array's memory returns to the pool through, when its last view dies.

    Mixed into a ctypes array type, since NumPy wants a buffer and ctypes gives one.
    """

    mapping: _Mapping
    pool: Pool

    def __del__(self) -> None:
        self.pool._give_back(self.mapping)


_memory_types: dict[int, Any] = {}


def _memory_type(count: int) -> Any:
    found = _memory_types.get(count)
    if found is None:
        if len(_memory_types) > 4096:
            _memory_types.clear()
        base = ctypes.c_char * count
        found = _memory_types[count] = type("PoolMemory", (_Memory, base), {})
    return found


class Pool:
    """Host memory (64-byte aligned) that is reused without faulting it in again.

    Parameters
    ----------
    limit : int, optional
        Bytes that blocks in use and free ones kept may take together; free blocks are
        unmapped to stay below it. Those in use are their owners' to bound, by a `Budget`.
    retained : float
        The part of the limit that free blocks may take.

    Notes
    -----
    Thread-safe, and safe in a forked child (its memory is a copy of its own).
    """

    def __init__(self, limit: int | None = None, retained: float = 0.5) -> None:
        self.limit = default_limit() if limit is None else limit
        self.retained = retained
        self.live = 0
        self.free = 0
        self.peak = 0
        self._free: list[tuple[int, int, _Mapping]] = []  # by size, then age
        self._age = 0
        self._returned: deque[_Mapping] = deque()
        self._lock = threading.Lock()
        _pools.add(self)

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An uninitialised row-major array, whose memory comes back when its last view dies.

        Raises
        ------
        MemoryLimitError
            When the system has no more memory.
        """
        wanted = np.dtype(dtype)
        count = math.prod(shape) * wanted.itemsize
        if count < _SMALL:
            return np.empty(shape, wanted)
        mapping = self._take(-(-count // _PAGE) * _PAGE)
        memory = mapping.memory.from_address(mapping.address)
        memory.mapping = mapping
        memory.pool = self
        return np.ndarray(shape, wanted, memory)

    @contextmanager
    def workspace(self, count: int, beside: Sequence[npt.NDArray[Any]] = ()) -> Iterator[int]:
        """The address of `count` bytes (64-byte aligned), taken within the block.

        Parameters
        ----------
        count : int
        beside : sequence of ndarray
            What may be written by turns with it; see `weft.runtime.apart`.
        """
        if count == 0:
            yield 0
            return
        mapping = self._take(-(-count // _PAGE) * _PAGE)
        try:
            usual = mapping.address - mapping.begin
            yield mapping.begin + first_byte(beside, mapping.step, usual)
        finally:
            self._give_back(mapping)

    def trim(self, retained: int = 0) -> None:
        """Unmap free blocks, the oldest first, until they take at most `retained` bytes."""
        with self._lock:
            self._collect()
            self._trim(retained)

    def _take(self, count: int) -> _Mapping:
        with self._lock:
            self._collect()
            place = bisect.bisect_left(self._free, (count, -1))
            if place < len(self._free):
                size = self._free[place][0]
                if (size - count) * _MOST_WASTE <= size and self.live + size <= self.limit:
                    mapping = self._free.pop(place)[2]
                    self.free -= size
                    self._count_live(size)
                    return mapping
            self._trim(max(0, self.limit - self.live - count))
            self._count_live(count)
        try:
            return _Mapping(count)
        except (OSError, ValueError) as error:
            with self._lock:
                self.live -= count
            raise MemoryLimitError(
                f"the system has no {format_bytes(count)} of memory left",
                advice="lower memory_limit, so that the work is cut into smaller boxes",
            ) from error

    def _count_live(self, count: int) -> None:
        self.live += count
        self.peak = max(self.peak, self.live)

    def _give_back(self, mapping: _Mapping) -> None:
        # May run anywhere, even inside _take when that collects garbage: only note it down.
        self._returned.append(mapping)
        if self._lock.acquire(blocking=False):
            try:
                self._collect()
            finally:
                self._lock.release()

    def _collect(self) -> None:
        """Make free what was given back (with the lock held)."""
        while self._returned:
            mapping = self._returned.popleft()
            self.live -= mapping.bytes
            self.free += mapping.bytes
            self._age += 1
            # Of equal sizes the newest comes first: its pages are likeliest in the cache.
            bisect.insort(self._free, (mapping.bytes, (1 << 62) - self._age, mapping))
        self._trim(min(int(self.retained * self.limit), max(0, self.limit - self.live)))

    def _trim(self, retained: int) -> None:
        if self.free <= retained:
            return
        for block in sorted(self._free, key=lambda block: -block[1]):
            if self.free <= retained:
                break
            self._free.remove(block)
            self.free -= block[0]

    def _after_fork(self) -> None:
        self._lock = threading.Lock()


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _after_fork() -> None:
    global _making
    _making = threading.Lock()
    for pool in _pools:
        pool._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def owner_of(array: npt.NDArray[Any]) -> tuple[object, int, int] | None:
    """Whose memory an array lies in, where that begins, and its bytes.

    None where that is neither NumPy's nor a pool's. The owner can be referred to weakly: its memory
    is there until it dies.
    """
    base: object = array
    while isinstance(base, np.ndarray):
        if base.flags.owndata:
            return base, address_of(base), base.nbytes
        base = base.base
    if isinstance(base, _Memory):
        return base.mapping, base.mapping.begin, base.mapping.bytes + _PAGE
    return None


_host: Pool | None = None
_making = threading.Lock()


def host_pool() -> Pool:
    """The process's pool of host memory."""
    global _host
    if _host is None:
        with _making:
            if _host is None:
                _host = Pool()
    return _host
