"""How many items of a device have memory of their own, under limits that leave little."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from weft.plan.device_items import GROUP, with_items


@pytest.mark.parametrize("items", [1, GROUP, GROUP + 1, 1000, 132 * 1024])
@pytest.mark.parametrize("limit", [0, 70_000, 1 << 20, 1 << 40])
@pytest.mark.parametrize("each", [0, 1, 3272])
def test_as_many_as_fit_but_a_group(items: int, limit: int, each: int) -> None:
    def memory(values: dict[str, Any]) -> Any:
        return 1000 + values["n"] * values["threads"] * each

    device: Any = SimpleNamespace(items=items, limit=limit, memory=memory)
    for n in (1, np.array([1, 0, 1]), np.zeros(0, np.int64)):
        values = with_items(device, lambda count, n=n: {"n": n, "threads": count})
        found = values["threads"]
        assert found == items or (found < items and found % GROUP == 0)
        assert found >= min(items, GROUP)
        room = limit // 4
        if found < items:
            assert np.max(memory({"n": n, "threads": items}), initial=0) > room
            larger = np.max(memory({"n": n, "threads": found + 2 * GROUP}), initial=0)
            assert larger > room  # nearly as many as fit
        if found > GROUP:
            assert np.max(memory(values), initial=0) <= room or each == 0
