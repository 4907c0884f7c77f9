"""A measured timeline as a picture: one row for each queue, time from left to right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from weft.runtime.memory import format_bytes

if TYPE_CHECKING:
    from weft.runtime.profile import Event

_LEFT, _WIDTH, _RIGHT = 150, 900, 20
_ROW, _BAR, _TOP = 30, 20, 50
_TICKS = 8
_COLOURS = (
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#999933", "#882255",
)  # fmt: skip
"""Paul Tol's bright colours, which people without colour vision can tell apart too."""


def picture(events: Sequence[Event], start: float, seconds: float) -> str:
    """The events as an SVG document.

    Parameters
    ----------
    events : sequence of Event
    start, seconds : float
        When the profile began, and how long it took.

    Returns
    -------
    str
        Each bar tells on hovering what ran, how long, and how many bytes it touched.
    """
    rows = {queue: row for row, queue in enumerate(sorted({event.queue for event in events}))}
    names = list(dict.fromkeys(event.name for event in events))
    colours = {name: _COLOURS[k % len(_COLOURS)] for k, name in enumerate(names)}
    seconds = max(seconds, 1e-9)
    bottom = _TOP + _ROW * len(rows)
    height = bottom + 40 + 20 * len(names)
    width = _LEFT + _WIDTH + _RIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-size="14">{_time(seconds)}, {len(events)} events</text>',
        *_axis(seconds, bottom),
    ]
    for queue, row in rows.items():
        own = [event for event in events if event.queue == queue]
        lines += _row(queue, own, _TOP + _ROW * row, start, seconds, colours)
    for number, name in enumerate(names):
        y = bottom + 36 + 20 * number
        lines.append(f'<rect x="{_LEFT}" y="{y}" width="12" height="12" fill="{colours[name]}"/>')
        lines.append(f'<text x="{_LEFT + 18}" y="{y + 10}">{escape(name)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _row(
    queue: str, events: Sequence[Event], y: int, start: float, seconds: float,
    colours: dict[str, str],
) -> list[str]:  # fmt: skip
    """The name of a queue, how busy it was, and its bars."""
    busy = _busy(events) / seconds
    middle = y + _BAR - 5
    lines = [
        f'<text x="{_LEFT - 45}" y="{middle}" text-anchor="end">{escape(queue)}</text>',
        f'<text x="{_LEFT - 8}" y="{middle}" text-anchor="end" fill="#777">{busy:.0%}</text>',
    ]
    for event in events:
        x = _LEFT + _WIDTH * (event.start - start) / seconds
        length = max(_WIDTH * (event.end - event.start) / seconds, 0.5)
        told = f"{event.name}: {_time(event.end - event.start)}"
        if event.bytes:
            told += f", {format_bytes(event.bytes)}"
        lines.append(
            f'<rect x="{x:.2f}" y="{y}" width="{length:.2f}" height="{_BAR}" '
            f'fill="{colours[event.name]}" stroke="white" stroke-width="0.4">'
            f"<title>{escape(told)}</title></rect>"
        )
    return lines


def _busy(events: Sequence[Event]) -> float:
    """Seconds in which at least one of the events was under way."""
    total, reached = 0.0, -math.inf
    for event in sorted(events, key=lambda event: event.start):
        total += max(0.0, event.end - max(event.start, reached))
        reached = max(reached, event.end)
    return total


def _axis(seconds: float, bottom: int) -> list[str]:
    """Lines at round times."""
    step = 10.0 ** math.floor(math.log10(seconds / _TICKS))
    step *= next(factor for factor in (1, 2, 5, 10) if seconds / (step * factor) <= _TICKS)
    lines = []
    for number in range(int(seconds / step) + 1):
        x = _LEFT + _WIDTH * number * step / seconds
        lines.append(
            f'<line x1="{x:.1f}" y1="{_TOP - 8}" x2="{x:.1f}" y2="{bottom}" stroke="#ddd"/>'
        )
        lines.append(
            f'<text x="{x:.1f}" y="{_TOP - 12}" text-anchor="middle" fill="#777">'
            f"{_time(number * step)}</text>"
        )
    return lines


def _time(seconds: float) -> str:
    if seconds == 0:
        return "0"
    for factor, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
