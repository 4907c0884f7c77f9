"""A measured timeline as a picture: one row for each queue, time from left to right."""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from html import escape
from typing import TYPE_CHECKING

from weft.runtime.memory import format_bytes

if TYPE_CHECKING:
    from weft.runtime.profile import Event

_LEFT, _WIDTH, _RIGHT = 210, 960, 30
_ROW, _BAR, _TOP = 30, 22, 58
_GAP = 10  # between the rows of two devices
_TICKS = 8
_LETTER = 6.6  # the width of a letter in a bar
_WAYS = ("read", "in", "compute", "out", "write")
"""What the queues of a device do, in the order of a box's way through them."""
_COLOURS = (
    "#4477aa", "#228833", "#aa3377", "#bb5566", "#997700", "#007788", "#882255", "#666666",
)  # fmt: skip
"""After Paul Tol, for people without colour vision too; white letters can be read on each."""


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
        Rows of one device stand together, in the order of a box's way: read, in, compute, out,
        write. Each bar tells on hovering what ran, how long, and how many bytes it touched.
    """
    seconds = max(seconds, 1e-9)
    tops, bottom = _places({event.queue for event in events})
    colours = _colours(events)
    height = bottom + 36 + 20 * len(colours)
    width = _LEFT + _WIDTH + _RIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-size="14">{_heading(events, seconds)}</text>',
        *_axis(seconds, bottom),
    ]
    for queue, top in tops.items():
        own = [event for event in events if event.queue == queue]
        lines += _row(queue, own, top, start, seconds, colours)
    for number, (name, colour) in enumerate(colours.items()):
        y = bottom + 26 + 20 * number
        own = [event for event in events if event.name == name]
        total = sum(event.end - event.start for event in own)
        told = f"{name}: {_time(total)} in {len(own)} of the events"
        lines.append(f'<rect x="{_LEFT}" y="{y}" width="12" height="12" fill="{colour}"/>')
        lines.append(f'<text x="{_LEFT + 18}" y="{y + 10}">{escape(told)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _places(queues: Set[str]) -> tuple[dict[str, int], int]:
    """Where the row of each queue begins, those of a device together; and where the last ends."""

    def place(queue: str) -> tuple[str, int, str]:
        device, _, way = queue.rpartition(" ")
        return device, _WAYS.index(way) if way in _WAYS else len(_WAYS), way

    tops: dict[str, int] = {}
    y, before = _TOP, None
    for queue in sorted(queues, key=place):
        device = place(queue)[0]
        y += _GAP * (before is not None and device != before)
        tops[queue], before = y, device
        y += _ROW
    return tops, y


def _colours(events: Sequence[Event]) -> dict[str, str]:
    """The colour of each name: those that took most time first, and unlike each other."""
    totals: dict[str, float] = {}
    for event in events:
        totals[event.name] = totals.get(event.name, 0.0) + event.end - event.start
    names = sorted(totals, key=lambda name: -totals[name])
    return {name: _COLOURS[k % len(_COLOURS)] for k, name in enumerate(names)}


def _heading(events: Sequence[Event], seconds: float) -> str:
    """How long it took, and how much of it several queues were at work together."""
    if not events:
        return f"{_time(seconds)}, 0 events"
    queues = {event.queue for event in events}
    together = sum(_busy([e for e in events if e.queue == queue]) for queue in queues)
    apart = _busy(events)
    return (
        f"{_time(seconds)}, {len(events)} events; something at work {apart / seconds:.0%} "
        f"of the time, {together / max(apart, 1e-12):.2f} queues then on average"
    )


def _row(
    queue: str, events: Sequence[Event], y: int, start: float, seconds: float,
    colours: dict[str, str],
) -> list[str]:  # fmt: skip
    """The name of a queue, how busy it was, and its bars."""
    busy = _busy(events) / seconds
    middle = y + _BAR - 7
    lines = [
        f'<rect x="{_LEFT}" y="{y}" width="{_WIDTH}" height="{_BAR}" fill="#f4f4f4"/>',
        f'<text x="{_LEFT - 48}" y="{middle}" text-anchor="end">{escape(queue)}</text>',
        f'<text x="{_LEFT - 8}" y="{middle}" text-anchor="end" fill="#777">{busy:.0%}</text>',
    ]
    for event in events:
        x = _LEFT + _WIDTH * (event.start - start) / seconds
        length = max(_WIDTH * (event.end - event.start) / seconds, 1.0)
        told = f"{event.name}: {_time(event.end - event.start)}"
        if event.bytes:
            told += f", {format_bytes(event.bytes)}"
        lines.append(
            f'<rect x="{x:.2f}" y="{y}" width="{length:.2f}" height="{_BAR}" '
            f'fill="{colours[event.name]}" stroke="white" stroke-width="0.4">'
            f"<title>{escape(told)}</title></rect>"
        )
        if length > _LETTER * len(event.name) + 8:
            lines.append(
                f'<text x="{x + length / 2:.1f}" y="{middle}" text-anchor="middle" fill="white" '
                f'font-size="11" pointer-events="none">{escape(event.name)}</text>'
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
