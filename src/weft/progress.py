"""Progress of streamed computations: a bar by rich, tqdm, or plain text."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from weft.runtime.memory import format_bytes

Report: TypeAlias = Callable[[int, int], None]


@contextmanager
def progress_bar(title: str) -> Iterator[Report]:
    """A bar with bytes, rate and time left; gives the function that moves it."""
    try:
        import rich.progress as rich
    except ImportError:
        with _plain(title) as report:
            yield report
        return
    bar = rich.Progress(
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.DownloadColumn(binary_units=True),
        rich.TransferSpeedColumn(),
        rich.TimeRemainingColumn(),
    )
    with bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def _plain(title: str) -> Iterator[Report]:
    start = last = time.monotonic()

    def report(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < 0.5 and done < total:
            return
        last = now
        rate = done / max(now - start, 1e-9)
        left = (total - done) / max(rate, 1.0)
        sys.stderr.write(
            f"\r{title}: {format_bytes(done)} of {format_bytes(total)}, "
            f"{format_bytes(rate)}/s, {left:.0f} s left  "
        )
        sys.stderr.flush()

    yield report
    sys.stderr.write("\n")


def tqdm_progress(bar: object) -> Report:
    """An adapter: moves a `tqdm.tqdm(unit="B", unit_scale=True)` bar.

    Parameters
    ----------
    bar : tqdm.tqdm
    """

    def report(done: int, total: int) -> None:
        bar.total = total  # type: ignore[attr-defined]
        bar.update(done - bar.n)  # type: ignore[attr-defined]

    return report
