"""Fixtures of the tests of lowering."""

from __future__ import annotations

import pytest

from weft.lower import time_tiles


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of a few elements, so that small arrays have many of them, and odd ones."""
    monkeypatch.setattr(time_tiles, "LEVELS", (3, 4, 2))
    monkeypatch.setattr(time_tiles, "FEW_LEVELS", 2)
    monkeypatch.setattr(time_tiles, "LINE", 5)
    monkeypatch.setattr(time_tiles, "ROW", (7, 6))
    monkeypatch.setattr(time_tiles, "SECOND", 3)
    monkeypatch.setattr(time_tiles, "block_bytes", lambda: (300, 700))
