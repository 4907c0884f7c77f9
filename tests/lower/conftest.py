"""Fixtures of the tests of lowering."""

from __future__ import annotations

import pytest

from weft.lower import trapezoids


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of a few elements, so that small arrays have many of them, and odd ones."""
    monkeypatch.setattr(trapezoids, "LEVELS", (3, 4, 4))
    monkeypatch.setattr(trapezoids, "FEW_LEVELS", 2)
    monkeypatch.setattr(trapezoids, "FEWER", (3,))
    monkeypatch.setattr(trapezoids, "PART_LEVELS", 2)
    monkeypatch.setattr(trapezoids, "ACROSS", 1)
    monkeypatch.setattr(trapezoids, "line", lambda _: 5)
    monkeypatch.setattr(trapezoids, "WIDE", 4)
    monkeypatch.setattr(trapezoids, "ROW", (7, 6))
    monkeypatch.setattr(trapezoids, "SECOND", 3)
    monkeypatch.setattr(trapezoids, "block_bytes", lambda: (700, 4800))
    monkeypatch.setattr(trapezoids, "part_bytes", lambda: 500)
