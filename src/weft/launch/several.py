"""Calls on several devices: what they cannot do together, or one fails to do alone, others do.

Boxes of a stage are shared, and what one device fails to do of them others do
(`weft.runtime.scheduler`). What is not shared is done by the first device of the list. Where that
cannot be, the call is made again, of what it was given: with each of the others as the first, and
then as if there were one device, for each.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from weft.config import Settings, settings, within
from weft.errors import (
    CompileError,
    DeviceError,
    MemoryLimitError,
    UnsupportedError,
    WeftError,
    warn,
)
from weft.launch.device import CPU, device_limit
from weft.runtime.devices.cpu import cores_of, is_cpu

if TYPE_CHECKING:
    from weft.plan.nodes import Plan

T = TypeVar("T")

_HALVED = 1
"""Times that the memory of a device is taken to be half of what it seemed."""


def by_any(attempt: Callable[[], T]) -> T:
    """What a call gives in the first order of the devices in which it succeeds.

    Parameters
    ----------
    attempt : callable
        Makes the call under the settings in force. It may be called again after it has failed:
        until it succeeds it changes nothing that it reads, and what it has written it writes anew.

    Raises
    ------
    WeftError
        What it fails by in the order that was given, where it succeeds in none.
    """
    current = settings()
    if len(current.devices) == 1:
        return attempt()
    failures: dict[str, WeftError] = {}  # of the orders that a device was the first of
    for order in orders(current):
        lost = {device for device, e in failures.items() if isinstance(e, DeviceError)}
        taking_part = tuple(device for device in order if device not in lost) or order
        try:
            with within(devices=taking_part):
                found = attempt()
        except (CompileError, DeviceError, MemoryLimitError, UnsupportedError) as error:
            failures.setdefault(order[0], error)
            _let_go(error)
        else:
            for device, failure in failures.items():
                if device != order[0] and _is_failure(failure):
                    warn(f"{device} was left out, and others did its part: {failure}",
                         RuntimeWarning)  # fmt: skip
            return found
    raise next(iter(failures.values()))


def by_one(attempt: Callable[[], T], refusal: MemoryLimitError) -> T:
    """What a call gives on the first device that has room for it alone.

    Parameters
    ----------
    attempt : callable
        Makes the call, and may update in place what it reads: it is not made again once it runs.
    refusal : MemoryLimitError
        What is raised where none has.
    """
    for device in _alone(settings()):
        try:
            with within(devices=(device,)):
                return attempt()
        except MemoryLimitError as error:
            if error.has_begun or _is_failure(error):
                raise
    raise refusal


def in_less_memory(plan: Callable[[], Plan], run: Callable[[Plan], T], times: int = _HALVED) -> T:
    """What a plan gives; of one for half the memory, where a device that is alone has too little.

    Boxes are halved while a stage runs. What is no box, as the pivots of a block of rounds, is
    smaller in another plan alone.

    Parameters
    ----------
    plan : callable
        Plans the call under the settings in force.
    run : callable
        Runs a plan, and changes nothing that it reads.
    """
    made = plan()
    try:
        return run(made)
    except MemoryLimitError as error:
        current = settings()
        device, *others = current.devices
        limit = device_limit(device, current)
        if limit is None or others or not times:
            raise
        _let_go(error)
        limits = {**dict(current.device_limits), device: limit // 2}
        with within(device_limits=tuple(limits.items())):
            try:
                plan()
            except MemoryLimitError:
                raise error from error.__cause__
            return in_less_memory(plan, run, times - 1)


def orders(current: Settings) -> Iterator[tuple[str, ...]]:
    """The devices as they are given; with each of the others as the first; each alone.

    Parts of the CPU are the first once: together they do what is not shared.
    """
    devices = current.devices
    firsts: dict[str, tuple[str, ...]] = {}
    for number, device in enumerate(devices):
        order = (device, *devices[:number], *devices[number + 1 :])
        firsts.setdefault(CPU if is_cpu(device) else device, order)
    yield from firsts.values()
    yield from ((device,) for device in _alone(current))


def _alone(current: Settings) -> Iterable[str]:
    """The devices; of parts of the CPU with as many cores and the same limit one."""
    limits = dict(current.device_limits)
    found: dict[object, str] = {}
    for device in current.devices:
        part = (len(cores_of(device)), limits.get(device)) if is_cpu(device) else device
        found.setdefault(part, device)
    return found.values()


def _is_failure(error: WeftError) -> bool:
    """Whether a device, or the system, has failed while it ran; else a plan was refused."""
    return isinstance(error, CompileError | DeviceError) or error.__cause__ is not None


def _let_go(error: BaseException | None) -> None:
    """Give the memory back that an error passed by, and keeps."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
