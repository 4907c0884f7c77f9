"""Parts of arrays that stay on a device while tiles that read them come and go.

    c[i, j] = sum_k a[i, k] * b[k, j]     tiles of one row read the same part of a

A device that shares tiles with others brings a part with the first of its tiles that reads it, and
has as many parts of an array as it has tiles under way. Which device takes which tile is decided
while the stage runs, so what is there is known then alone.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from weft.plan.code import Held, Pending
from weft.plan.nodes import PlannedStage

Begin = Callable[[Sequence[Pending]], Pending]


class Parts:
    """What one device holds of the windows that tiles share. Safe for any number of threads.

    Parameters
    ----------
    planned : PlannedStage
        In tiles.
    slots : int
        How many tiles the device has under way.
    """

    def __init__(self, planned: PlannedStage, slots: int) -> None:
        assert planned.tiles is not None
        self._slots = slots
        self._sizes = planned.input_bytes
        self._parts = {
            number: parts.tolist()
            for number, parts in enumerate(planned.tiles.parts) if parts is not None
        }
        self._now: dict[int, int] = {}  # the part of each window that is there
        self._users: dict[int, deque[list[Pending]]] = {k: deque() for k in self._parts}
        self._lock = threading.Lock()

    def bytes_there(self, tile: int) -> int:
        """How much of what a tile reads is on the device."""
        now = self._now
        return sum(
            self._sizes[number]
            for number, parts in self._parts.items() if now.get(number) == parts[tile]
        )

    def start(self, tile: int, held: Held, begin: Begin) -> Pending:
        """Begin a tile, which brings those parts that are not there.

        Parameters
        ----------
        tile : int
        held : Held
        begin : callable
            Begins it after some others, which use the memory that its parts come to.
        """
        with self._lock:
            after: list[Pending] = []
            changing = [k for k, parts in self._parts.items() if self._now.get(k) != parts[tile]]
            for number in changing:
                self._now.pop(number, None)  # until it is there
                users = self._users[number]
                if len(users) == self._slots:
                    after += users.popleft()
                users.append([])
                held.change(number, self._sizes[number], self._slots)
            pending = begin(after)
            for number in changing:
                self._now[number] = self._parts[number][tile]
            for users in self._users.values():
                users[-1].append(pending)
            return pending

    def ended(self, pending: Pending, failed: bool) -> None:
        """A tile uses nothing any more; what a failed one brought is not relied on."""
        with self._lock:
            if failed:
                self._now.clear()
            for users in self._users.values():
                for using in users:
                    if pending in using:
                        using.remove(pending)
