"""Addresses of arrays and of small workspaces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weft.runtime import address
from weft.runtime.address import SMALL, SmallWorkspace, address_of

WHOLE = np.arange(24.0).reshape(4, 6)


@pytest.mark.parametrize(
    "array", [WHOLE, WHOLE[1:, ::-2], WHOLE.T, np.array(3), np.empty(0), np.ma.masked_array([1])],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("way", [address_of, address._by_interface, address._by_layout])
def test_the_address_is_numpys(array: Any, way: Any) -> None:
    assert way(array) == array.__array_interface__["data"][0]


def test_a_scalar_is_no_array() -> None:
    """Behind a scalar's head stands its value."""
    assert address_of(np.float64(1.0)) != np.float64(1.0).view(np.int64)


def test_workspaces_in_use_at_once_are_apart() -> None:
    with SmallWorkspace() as one:
        with SmallWorkspace() as two:
            assert abs(one - two) >= SMALL
        with SmallWorkspace() as three:
            assert three == two
    assert one % 64 == two % 64 == 0
