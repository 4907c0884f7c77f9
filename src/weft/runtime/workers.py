"""Threads that are kept from one run to the next, each on the cores where it was started.

A thread takes a good part of a millisecond to start, and to move to its core: as long as a small
box of a stage that devices share.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from weft.runtime.threads import on_cores

_MOST_IDLE = 64  # of all cores; more end when they have nothing to do

_idle: dict[tuple[int, ...], list[_Worker]] = {}
_lock = threading.Lock()


def _after_fork() -> None:
    """Threads do not follow into a child, and one of them may have held the lock."""
    global _lock
    _lock = threading.Lock()
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Job:
    """What a worker is to do once: call a function, which raises nothing."""

    def __init__(self, function: Callable[[], None]) -> None:
        self.function = function
        self.ended = threading.Event()

    def join(self) -> None:
        """Wait until it is done."""
        self.ended.wait()


class _Worker:
    """A thread on some cores, () for any."""

    def __init__(self, cores: tuple[int, ...]) -> None:
        self.cores = cores
        self.jobs: SimpleQueue[Job] = SimpleQueue()
        name = "weft-worker" + "".join(f"-{core}" for core in cores)
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def _work(self) -> None:
        with on_cores(self.cores):
            kept = True
            while kept:
                job = self.jobs.get()
                try:
                    job.function()
                    kept = self._rest()  # before who waits for it goes on, and may want it again
                finally:
                    job.ended.set()

    def _rest(self) -> bool:
        """Be idle; False where enough others are."""
        with _lock:
            if sum(map(len, _idle.values())) >= _MOST_IDLE:
                return False
            self.wait()
            return True

    def wait(self) -> None:
        """Be among the idle ones; the lock is held."""
        _idle.setdefault(self.cores, []).append(self)


def begin(functions: Sequence[tuple[Callable[[], None], tuple[int, ...]]]) -> list[Job]:
    """Have a thread for each call a function, on some cores, () for any.

    None begins before there are threads for all: one that computes may keep who starts the next
    from its core.

    Raises
    ------
    RuntimeError
        When the system has no thread left; nothing has begun then.
    """
    taken: list[_Worker] = []
    try:
        for _, cores in functions:
            taken.append(_idle_worker(cores) or _Worker(cores))
    except BaseException:
        with _lock:
            for worker in taken:
                worker.wait()
        raise
    jobs = [Job(function) for function, _ in functions]
    for worker, job in zip(taken, jobs, strict=True):
        worker.jobs.put(job)
    return jobs


def _idle_worker(cores: tuple[int, ...]) -> _Worker | None:
    with _lock:
        idle = _idle.get(cores)
        return idle.pop() if idle else None
