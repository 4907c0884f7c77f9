"""Threads: how many, and the C pool that runs the tiles of compiled segments.

The pool (`pool.c`, and what follows it in `pool_source`) is compiled once for each machine, through
the cache, while the first segment is.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from weft.runtime import built
from weft.runtime.toolchain import load_library


def default_threads() -> int:
    """The CPUs that this process may use, capped by `OMP_NUM_THREADS`.

    That is the least of the scheduling affinity and of the cgroup's CPU quota.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    quota = _cgroup_cpus()
    if quota is not None:
        count = min(count, max(1, math.ceil(quota)))
    limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if limit.isdigit() and int(limit) > 0:
        count = min(count, int(limit))
    return max(1, count)


@functools.cache
def cores() -> tuple[int, ...]:
    """The cores that this process uses, as the operating system numbers them."""
    affinity = getattr(os, "sched_getaffinity", None)
    found = sorted(affinity(0)) if affinity is not None else range(os.cpu_count() or 1)
    return tuple(found[: threads()])


@contextmanager
def on_cores(wanted: Collection[int]) -> Iterator[None]:
    """Keep the calling thread on some cores within the block, where the system can; () for any.

    Threads that it starts meanwhile stay there too.
    """
    affinity = getattr(os, "sched_setaffinity", None)
    if affinity is None or not wanted:
        yield
        return
    before = os.sched_getaffinity(0)  # of this thread
    try:
        affinity(0, wanted)
    except OSError:  # cores that are gone, or a sandbox: a hint, no more
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):
            affinity(0, before)


@functools.cache
def threads() -> int:
    """The number of threads of calls that do not say."""
    return default_threads()


def _cgroup_cpus(root: str = "/sys/fs/cgroup") -> float | None:
    """The smallest CPU quota of this process's cgroup and those above it (None: no quota)."""
    quotas = []
    for controller, directory in cgroup_directories("cpu", root):
        try:
            if controller == "v2":
                quota, period = (directory / "cpu.max").read_text().split()
            else:
                quota = (directory / "cpu.cfs_quota_us").read_text().strip()
                period = (directory / "cpu.cfs_period_us").read_text().strip()
            if quota not in ("max", "-1"):
                quotas.append(int(quota) / int(period))
        except (OSError, ValueError, ZeroDivisionError):
            continue
    return min(quotas, default=None)


def cgroup_directories(
    controller: str, root: str = "/sys/fs/cgroup", membership: str = "/proc/self/cgroup"
) -> list[tuple[str, Path]]:
    """Where the limits of this process are: ("v1" or "v2", directory), innermost first."""
    found: list[tuple[str, Path]] = []
    try:
        lines = Path(membership).read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            version, top = "v2", Path(root)
        elif controller in controllers.split(","):
            version, top = "v1", Path(root) / controller
        else:
            continue
        # In a container the path is that of the host: the top alone is then there.
        inner = top / path.lstrip("/")
        while True:
            if inner.is_dir():
                found.append((version, inner))
            if inner == top or top not in inner.parents:
                break
            inner = inner.parent
    return found


def pool_source() -> str:
    """The text of the C pool, one translation unit."""
    here = Path(__file__)
    names = (
        "pool.c", "roots.c", "columns.c", "boxes.c", "products.c", "copies.c", "launches.c",
        "given.c",
    )  # fmt: skip
    return "".join(here.with_name(name).read_text() for name in names)


class Pool:
    """The loaded C pool.

    Attributes
    ----------
    call : function
        `call(address of a record) -> status`, see `pool.c`; releases the GIL.
    call_all : function
        The same for several records, one after another.
    call_given : function
        The same, with addresses from arguments that are like others: see `given.c`.
    boxes, gram, product, copy : int
        The addresses of the entries that run boxes side by side, make Gram matrices, multiply
        other matrices, and copy: see `boxes.c`, `products.c` and `copies.c`.
    launch : function
        Queues launches on a GPU: see `launches.c`.
    """

    def __init__(self) -> None:
        source = pool_source()
        found = built.entry_of(source)
        self.library = load_library(source) if found is None else found.library
        self.call = self.library.weft_call
        self.call.argtypes = [ctypes.c_void_p]
        self.call.restype = ctypes.c_int32
        self.call_all = self.library.weft_call_all
        self.call_all.argtypes = [ctypes.c_void_p]
        self.call_all.restype = ctypes.c_int32
        self.call_given = self.library.weft_call_given
        self.call_given.argtypes = [ctypes.c_void_p] * 3
        self.call_given.restype = ctypes.c_int32
        self.library.weft_watch.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
        self.boxes = ctypes.cast(self.library.weft_boxes, ctypes.c_void_p).value
        self.gram = ctypes.cast(self.library.weft_gram, ctypes.c_void_p).value
        self.product = ctypes.cast(self.library.weft_product, ctypes.c_void_p).value
        self.copy = ctypes.cast(self.library.weft_copy, ctypes.c_void_p).value
        self.launch = self.library.weft_launch
        self.launch.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int64, ctypes.c_void_p]
        self.launch.restype = ctypes.c_int32

    def workers(self) -> int:
        """The number of worker threads there are now."""
        return int(self.library.weft_workers())


_pool: Pool | None = None
_loading = threading.Lock()


def _after_fork() -> None:
    global _loading
    _loading = threading.Lock()  # another thread may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def pool() -> Pool:
    """The process's pool, compiled or loaded at the first use.

    Raises
    ------
    CompileError
        When there is no C compiler.
    """
    global _pool
    if _pool is None:
        with _loading:
            if _pool is None:
                _pool = Pool()
    return _pool


@contextmanager
def pool_meanwhile() -> Iterator[None]:
    """Have the pool there at the end of the block: compiled beside what the block compiles.

    Where that fails, `pool` does so again, and says so.
    """
    if _pool is not None:
        yield
        return

    def make() -> None:
        with suppress(Exception):
            pool()

    thread = threading.Thread(target=make, name="weft-pool")
    thread.start()
    try:
        yield
    finally:
        thread.join()


class CancelFlag:
    """A flag that stops calls: tiles already running finish, no others begin.

    Setting it is safe from any thread. It stays set.
    """

    __slots__ = ("_cell", "address")

    def __init__(self) -> None:
        self._cell = ctypes.c_int32(0)
        self.address = ctypes.addressof(self._cell)

    def set(self) -> None:
        self._cell.value = 1

    def __bool__(self) -> bool:
        return self._cell.value != 0


class Cancelled(Exception):  # noqa: N818 (not an error)
    """A call ended early because its `CancelFlag` was set."""
