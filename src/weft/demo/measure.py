"""What the demonstration measures of its own process: the speed of files, and memory."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from types import TracebackType


def anonymous_memory() -> int | None:
    """Bytes of anonymous resident memory; None where the system does not tell."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            for line in file:
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


class PeakMemory:
    """Watches anonymous memory inside a `with` block; `peak` counts from its beginning."""

    def __init__(self, interval: float = 0.002) -> None:
        self._interval = interval
        self._ended = threading.Event()
        self._start = 0
        self.peak: int | None = None

    def __enter__(self) -> PeakMemory:
        start = anonymous_memory()
        if start is not None:
            self._start, self.peak = start, 0
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._ended.wait(self._interval):
            self._look()

    def _look(self) -> None:
        self.peak = max(self.peak or 0, (anonymous_memory() or 0) - self._start)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.peak is not None:
            self._ended.set()
            self._thread.join()
            self._look()


def read_seconds(path: str) -> float:
    """Seconds to read a file from end to end, into one buffer."""
    buffer = bytearray(4 << 20)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        start = time.perf_counter()
        while os.readv(descriptor, [buffer]):
            pass
        return time.perf_counter() - start
    finally:
        os.close(descriptor)


def write_seconds(directory: str, size: int, sample: int = 512 << 20) -> float:
    """Seconds to write `size` bytes into a new file, judged by a sample of them."""
    sample = min(sample, size)
    buffer = memoryview(bytes(4 << 20))
    with tempfile.TemporaryFile(dir=directory) as file:
        start = time.perf_counter()
        for offset in range(0, sample, len(buffer)):
            os.pwrite(file.fileno(), buffer[: sample - offset], offset)
        return (time.perf_counter() - start) * size / sample
