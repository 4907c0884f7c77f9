"""Measured timelines: what ran when, on which queue, and how many bytes it touched.

Off by default, and then free: whoever records asks `profile.recorder` first.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import NamedTuple

from weft.records import dataclass
from weft.runtime.memory import format_bytes


class Event(NamedTuple):
    """One thing that ran. Times are in seconds, on the clock of `time.perf_counter`."""

    name: str
    queue: str
    start: float
    end: float
    bytes: int


@dataclass(slots=True)
class _Total:
    count: int = 0
    seconds: float = 0.0
    bytes: int = 0


class Profile:
    """The events recorded within a `profile()` block.

    Attributes
    ----------
    events : list of Event
        In the order in which they ended.
    """

    def __init__(self, others: tuple[Profile, ...] = ()) -> None:
        """`others`: those that are open when it begins, which record what it does."""
        self._others = others
        self.events: list[Event] = []
        self.start = perf_counter()
        self.end: float | None = None

    def record(self, name: str, queue: str, start: float, end: float, count: int = 0) -> None:
        """Note that `name` ran on `queue` from `start` to `end`, touching `count` bytes."""
        if getattr(_thread, "in_event", False):
            return
        event = Event(name, queue, start, end, count)
        self.events.append(event)
        for other in self._others:
            if other.end is None:
                other.events.append(event)

    @property
    def seconds(self) -> float:
        """How long the block took (so far)."""
        return (perf_counter() if self.end is None else self.end) - self.start

    @property
    def overlap(self) -> float:
        """The busy times of all queues, of copies and of kernels, over the time in which any is.

        1: nothing was done beside anything else; with three queues, 3 at most.
        """
        busy, _, own = self._busy()
        return own / busy if busy else 1.0

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the timeline, one row for each queue of each device.

        As a picture where the name ends in ".svg", else in Chrome's trace format (open it in
        Perfetto or chrome://tracing).
        """
        if os.fspath(path).lower().endswith(".svg"):
            from weft.runtime.timeline import picture

            with open(path, "w", encoding="utf-8") as file:
                file.write(picture(list(self.events), self.start, self.seconds))
            return
        import json

        process = os.getpid()
        rows = {queue: row for row, queue in enumerate(self._queues())}
        entries: list[dict[str, object]] = [
            {"name": "thread_name", "ph": "M", "pid": process, "tid": row, "args": {"name": queue}}
            for queue, row in rows.items()
        ]
        for event in list(self.events):
            entries.append(
                {
                    "name": event.name, "ph": "X", "pid": process, "tid": rows[event.queue],
                    "ts": (event.start - self.start) * 1e6,
                    "dur": (event.end - event.start) * 1e6,
                    "args": {"bytes": event.bytes},
                }
            )  # fmt: skip
        with open(path, "w") as file:
            json.dump({"traceEvents": entries, "displayTimeUnit": "ms"}, file)

    def summary(self) -> str:
        """A table: time, share, bytes and rate of each name, by queue; then the overlap."""
        totals: dict[tuple[str, str], _Total] = {}
        for event in list(self.events):
            total = totals.setdefault((event.queue, event.name), _Total())
            total.count += 1
            total.seconds += event.end - event.start
            total.bytes += event.bytes
        seconds = self.seconds
        lines = [f"{seconds:.3f} s, {len(self.events)} events"]
        if not totals:
            return lines[0]
        width = max(len(name) for _, name in totals)
        queues = max(10, *(len(queue) for queue, _ in totals))
        order = {queue: row for row, queue in enumerate(self._queues())}
        for (queue, name), total in sorted(
            totals.items(), key=lambda item: (order[item[0][0]], -item[1].seconds)
        ):
            rate = f"{total.bytes / total.seconds / 2**30:8.2f} GiB/s" if total.seconds else ""
            lines.append(
                f"  {queue:<{queues}} {name:<{width}} {total.count:>6} x {total.seconds:9.4f} s "
                f"{100 * total.seconds / max(seconds, 1e-12):5.1f}% "
                f"{format_bytes(total.bytes):>9} {rate}".rstrip()
            )
        busy, overlapped, _ = self._busy()
        lines.append(
            f"  busy {busy:.4f} s of {seconds:.4f} s; "
            f"{overlapped:.4f} s with more than one queue at work (overlap {self.overlap:.2f})"
        )
        return "\n".join(lines)

    def _queues(self) -> list[str]:
        return list(dict.fromkeys(event.queue for event in list(self.events)))

    def _busy(self) -> tuple[float, float, float]:
        """Seconds in which any queue, and in which more than one, was at work; those of each."""
        changes = []
        for queue in self._queues():
            reached = float("-inf")
            # A queue may itself hold overlapping events: those count once.
            for event in sorted(
                (e for e in self.events if e.queue == queue), key=lambda e: e.start
            ):
                start = max(event.start, reached)
                if event.end > start:
                    changes += [(start, 1), (event.end, -1)]
                    reached = event.end
        busy = overlapped = own = 0.0
        active, before = 0, 0.0
        for time, change in sorted(changes):
            busy += (time - before) * (active > 0)
            overlapped += (time - before) * (active > 1)
            own += (time - before) * active
            active += change
            before = time
        return busy, overlapped, own


recorder: Profile | None = None
"""Where events go now; None while nothing is profiled."""

_open: list[Profile] = []  # of all threads, the last of which is the recorder
_lock = threading.Lock()
_thread = threading.local()  # whether it is within an event that is recorded as one


@contextmanager
def profile() -> Iterator[Profile]:
    """Record what Weft runs within the block, on any thread, and within blocks inside of it.

    Examples
    --------
    >>> with wf.profile() as measured:
    ...     f(x)
    >>> measured.save("trace.json")
    >>> measured.save("timeline.svg")
    >>> print(measured.summary())
    """
    global recorder
    with _lock:
        recorder = measured = Profile(tuple(_open))
        _open.append(measured)
    try:
        yield measured
    finally:
        measured.end = perf_counter()
        with _lock:  # blocks of several threads may end in any order
            _open.remove(measured)
            recorder = _open[-1] if _open else None


@contextmanager
def span(name: str, queue: str, count: int = 0) -> Iterator[None]:
    """Record the block as one event, where anything is recorded."""
    measured = recorder
    if measured is None:
        yield
        return
    start = perf_counter()
    try:
        yield
    finally:
        measured.record(name, queue, start, perf_counter(), count)


@contextmanager
def in_event() -> Iterator[None]:
    """Record nothing of what this thread does in the block: its caller records all of it."""
    _thread.in_event = True
    try:
        yield
    finally:
        _thread.in_event = False
