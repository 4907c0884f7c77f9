"""How quick an OpenCL device is: copies each way, within it, and the cost of a command."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.errors import WeftError
from weft.plan.code import Rates

if TYPE_CHECKING:
    from weft.runtime.devices.opencl import OpenClDevice

_BYTES = 4 << 20
_SMALL = 64
_COMMANDS = 16
_ROUNDS = 5
_LAUNCH = 1.5e-5  # seconds that the host takes for a launch
_BOX = 2e-4  # seconds that the host takes to begin a box and to see its end
_CHAINS, _TURNS = 4, 1 << 12  # of a kernel that is multiplications and additions alone
_KERNELS = 0.5  # of its rate, that others have: they load and store
_OPERATIONS = f"""
__kernel void operations(__global float *out, float a, float b) {{
  float16 x[{_CHAINS}];
  for (int c = 0; c < {_CHAINS}; c++) x[c] = (float16)(get_global_id(0) + c);
  for (int k = 0; k < {_TURNS}; k++)
    for (int c = 0; c < {_CHAINS}; c++) x[c] = x[c] * a + b;
  float16 y = x[0];
  for (int c = 1; c < {_CHAINS}; c++) y += x[c];
  float8 z = y.lo + y.hi;
  out[get_global_id(0)] = z.s0 + z.s1 + z.s2 + z.s3 + z.s4 + z.s5 + z.s6 + z.s7;
}}
"""
_UNKNOWN = Rates(4e9, 4e9, 16e9, 2e-5, _BOX, 2, True)


def measure(device: OpenClDevice) -> Rates:
    """The rates of a device; those of none in particular where it cannot be measured."""
    cl, count = device.cl, min(_BYTES, device.limit // 4)
    if count < 64 << 10:
        return _UNKNOWN
    slot = device.take_slot()
    try:
        slot.release()
        first, second = slot.fit([count, count], ["measuring", "measuring"])
        host = np.zeros(count, np.uint8)

        def copy(target: Any, source: Any, **options: Any) -> None:
            cl.enqueue_copy(slot.queue, target, source, **options)

        def commands() -> None:
            for _ in range(_COMMANDS):
                copy(second, first, byte_count=_SMALL)

        shared = bool(device.device.type & cl.device_type.CPU)
        if shared:
            into = out = within = _copied()
        else:
            into, out, within = (
                count / _seconds(slot.queue, partial(copy, to, of, **options))
                for to, of, options in (
                    (first, host, {"is_blocking": False}), (host, first, {"is_blocking": False}),
                    (second, first, {}),
                )
            )  # fmt: skip
        command = _seconds(slot.queue, commands) / _COMMANDS
        operations = _operations(device, slot.queue, first)
    except Exception as error:  # what is wrong with it, its use will tell
        if not isinstance(error, cl.Error | MemoryError | WeftError):
            raise
        return _UNKNOWN
    finally:
        slot.release()
        device.give_back(slot)
    units = device.device.max_compute_units if shared else 1
    # A copy within the device reads and writes; one processor of several makes it.
    memory = 2 * units * within
    engines = units if shared else 2
    launch = command + _LAUNCH
    return Rates(into, out, memory, launch, _BOX, engines, not shared, _KERNELS * operations)


def _copied() -> float:
    """Bytes that a processor copies in a second: what a copy of a device is that is one.

    Of more than a small limit lets be there, whose copies would be over before they have begun.
    """
    source, target = np.zeros((2, _BYTES), np.uint8)
    found = []
    for _ in range(_ROUNDS):
        start = perf_counter()
        np.copyto(target, source)
        found.append(perf_counter() - start)
    return _BYTES / max(min(found), 1e-9)


def _operations(device: OpenClDevice, queue: Any, out: Any) -> float:
    """How many multiplications and additions the device does in a second, in registers."""
    kernel = device.build(_OPERATIONS).operations
    kernel.set_args(out, np.float32(0.999), np.float32(0.5))
    items: int = device.items
    cl = device.cl
    launch = partial(cl.enqueue_nd_range_kernel, queue, kernel, (items,), None)
    return float(2 * 16 * _CHAINS * _TURNS * items) / _seconds(queue, launch)


def _seconds(queue: Any, enqueue: Callable[[], object]) -> float:
    """The least of some rounds."""
    found = []
    for _ in range(_ROUNDS):
        start = perf_counter()
        enqueue()
        queue.finish()
        found.append(perf_counter() - start)
    return max(min(found), 1e-9)
