"""Files that are replaced: their space is freed beside the caller, and counted once it is."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from weft.errors import SinkError
from weft.io import publish

pytestmark = pytest.mark.skipif(not hasattr(os, "O_PATH"), reason="no way to hold a file here")
SIZE = 1 << 16


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path, threading.Event]:
    """A draft, the file that it replaces, and what lets that file go."""
    monkeypatch.setattr(publish, "_LARGE", SIZE)
    monkeypatch.setattr(publish, "_freed", [])
    go, close = threading.Event(), os.close

    def slow(descriptor: int) -> None:
        if threading.current_thread().name == "weft-free":
            go.wait(10)
        close(descriptor)

    monkeypatch.setattr(os, "close", slow)
    draft, path = tmp_path / "draft", tmp_path / "file"
    draft.write_bytes(b"new")
    path.write_bytes(bytes(SIZE))
    return draft, path, go


def test_large_files_are_freed_beside(held: tuple[Path, Path, threading.Event]) -> None:
    draft, path, go = held
    publish.publish(str(draft), str(path), replace=True)
    assert path.read_bytes() == b"new"
    (thread,) = publish._freed
    assert thread.is_alive()
    go.set()
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.parametrize("kind", ["small", "absent", "link"])
def test_what_takes_no_time_is_done_at_once(
    held: tuple[Path, Path, threading.Event], kind: str
) -> None:
    draft, path, _ = held
    other = path.with_name("other")
    path.replace(other)
    if kind == "small":
        path.write_bytes(b"old")
    elif kind == "link":
        path.symlink_to(other)
    publish.publish(str(draft), str(path), replace=True)
    assert path.read_bytes() == b"new"
    assert other.stat().st_size == SIZE
    assert not publish._freed


def test_room_is_asked_for_when_it_is_free(
    held: tuple[Path, Path, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    draft, path, go = held
    publish.publish(str(draft), str(path), replace=True)
    asked: list[bool] = []

    def room(*_: Any) -> int:
        busy = any(thread.is_alive() for thread in publish._freed)
        asked.append(busy)
        go.set()
        return 10 if busy else 100

    monkeypatch.setattr(publish, "_free_bytes", room)
    publish.require_space(str(path), 5)
    assert asked == [True]
    go.clear()
    publish.require_space(str(path), 50)
    assert asked[-1] is False
    with pytest.raises(SinkError, match="100 bytes free"):
        publish.require_space(str(path), 500)
