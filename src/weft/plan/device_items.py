"""How many work items of a device have memory of their own: all that it keeps busy, or what fits.

Items that have memory of their own take one index after another, so that fewer of them do the
same work, with the same bits. A GPU has more than a hundred thousand at once: what each has, for
the rows of a box, would be all of a low limit, or more, however small boxes are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.plan.code import DeviceCode

GROUP = 64
"""Items that are launched together, and the fewest."""

_PART = 4  # of the limit, that a box's own memory may take before items are fewer


def with_items(
    device: DeviceCode, values_for: Callable[[int], dict[str, Any]]
) -> dict[str, Any]:
    """The sizes of boxes, `values_for` as many items as suit the device's limit."""
    values = values_for(device.items)
    most, room = _memory(device, values), device.limit // _PART
    if most <= room or device.items <= GROUP:
        return values
    least = _memory(device, values_for(GROUP))
    each = -(-(most - least) * GROUP // (device.items - GROUP))  # bytes of a group more
    if not each:
        return values
    return values_for(GROUP * (1 + max(room - least, 0) // each))


def _memory(device: DeviceCode, values: dict[str, Any]) -> int:
    return int(np.max(device.memory(values), initial=0))
