"""Calls of a device that fail: one of each kind, with what the driver raises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

from devices.harness import Device

from weft.launch.device import dialect_of
from weft.runtime.devices.opencl import OpenClDevice


class Faulty:
    """A driver, or what else has functions, of which one raises: its n-th call, or `every` one."""

    def __init__(self, whole: Any, function: str, at: int, error: BaseException) -> None:
        self._whole, self._function, self._at, self._error = whole, function, at, error
        self.calls, self.every = 0, False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._whole, name)
        if name != self._function:
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            self.calls += 1
            if self.every or self.calls == self._at:
                raise self._error
            return found(*arguments, **options)

        return call


CALLS = {
    "opencl": {
        "memory": ("cl", "Buffer"), "queue": ("cl", "CommandQueue"),
        "copy": ("cl", "enqueue_copy"), "launch": ("cl", "enqueue_nd_range_kernel"),
        "code": ("cl", "link_program"), "source": ("cl", "Program"),
    },
    "cuda": {
        "memory": ("pool", "allocate"), "queue": ("device", "create_stream"),
        "copy": ("", "copy"), "launch": ("", "check"), "code": ("core", "Program"),
        "source": ("core", "Program"),
    },
}  # fmt: skip
"""Which attribute of a device has the function that a kind of call is; "": the device itself."""


@contextmanager
def failing(on: Device, kind: str, at: int, error: BaseException) -> Iterator[Faulty]:
    """The n-th call of a kind fails."""
    attribute, function = CALLS[dialect_of(on.name)][kind]
    if attribute:
        faulty = Faulty(getattr(on, attribute), function, at, error)
        patched = mock.patch.object(on, attribute, faulty)
    else:
        faulty = Faulty(SimpleNamespace(**{function: getattr(on, function)}), function, at, error)
        patched = mock.patch.object(on, function, getattr(faulty, function))
    with patched:
        yield faulty


def lost(on: Device) -> BaseException:
    """What the driver raises where it has lost the device."""
    if isinstance(on, OpenClDevice):
        return on.cl.RuntimeError("the device was lost")  # type: ignore[no-any-return]
    return on.failures[0]("CUDA_ERROR_DEVICE_UNAVAILABLE: the device was lost")


def full(on: Device) -> BaseException:
    """What the driver raises where the device has no memory left."""
    if isinstance(on, OpenClDevice):
        return on.cl.MemoryError("out of resources")  # type: ignore[no-any-return]
    return on.failures[0]("CUDA_ERROR_OUT_OF_MEMORY: out of memory")
