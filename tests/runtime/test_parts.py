"""Parts of arrays that a device keeps for the tiles that read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from weft.errors import DeviceError
from weft.plan.nodes import Tiles
from weft.records import dataclass
from weft.runtime.parts import Parts

ROWS = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2])  # tiles of three rows, there and back


@dataclass(frozen=True)
class Planned:
    """As much of a planned stage as is asked for: the second window moves with every tile."""

    input_bytes: tuple[int, ...] = (100, 7, 30)
    tiles: Tiles = Tiles((1, 1), (0, 1), (), (), parts=(ROWS, None, ROWS // 2))


class Device:
    """Notes what changes, and which tiles one waits for."""

    def __init__(self, slots: int = 2) -> None:
        planned: Any = Planned()
        self.parts = Parts(planned, slots)
        self.changes: list[tuple[int, int, int]] = []
        self.after: list[Sequence[Any]] = []

    def change(self, number: int, size: int, buffers: int) -> None:
        self.changes.append((number, size, buffers))

    def start(self, tile: int, error: Exception | None = None) -> list[int]:
        """Begin a tile; the windows of which it brings a part."""
        held: Any = self
        self.changes.clear()

        def begin(after: Sequence[Any]) -> Any:
            self.after.append(after)
            if error is not None:
                raise error
            return tile

        self.parts.start(tile, held, begin)
        return [number for number, _, _ in self.changes]


def test_what_is_there_is_not_brought_again() -> None:
    on = Device()
    assert [on.start(tile) for tile in range(9)] == [
        [0, 2], [], [], [0], [], [], [0, 2], [], [],
    ]  # fmt: skip
    assert on.start(2) == [0, 2]
    assert on.changes == [(0, 100, 2), (2, 30, 2)]


def test_how_much_of_a_tile_is_there() -> None:
    on = Device()
    assert on.parts.bytes_there(0) == 0
    on.start(0)
    assert [on.parts.bytes_there(tile) for tile in (1, 3, 6)] == [130, 30, 0]


@pytest.mark.parametrize("slots", [1, 2])
def test_memory_that_tiles_use_is_not_written(slots: int) -> None:
    """A part comes to where one was that no tile needs, or once those that do have ended."""
    on = Device(slots)
    for tile in (0, 3, 1):  # the parts of rows 0 and 1, and 0 once more
        on.start(tile)
    assert [*on.after] == ([[], [0], [3]] if slots == 1 else [[], [], [0]])
    on.parts.ended(3, failed=False)  # type: ignore[arg-type]
    on.start(4)
    assert on.after[-1] == ([1] if slots == 1 else [])


def test_what_failed_is_brought_again() -> None:
    on = Device()
    with pytest.raises(DeviceError):
        on.start(0, DeviceError("lost"))
    assert on.parts.bytes_there(0) == 0
    assert on.start(1) == [0, 2]
    on.parts.ended(1, failed=True)  # type: ignore[arg-type]
    assert on.start(2) == [0, 2]
