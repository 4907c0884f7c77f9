"""The application programs on an OpenCL device agree with plain NumPy."""

from __future__ import annotations

import pytest
from applications.case import Case
from applications.test_applications import CASES, assert_as_reference, computed
from devices.harness import device

QUICK = ("option_pricing-european", "pathfinder-one_row")


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=() if name in QUICK else pytest.mark.slow)
        for name, case in CASES.items()
    ],
)
def test_on_a_device(case: Case) -> None:
    assert_as_reference(case, computed(case, interpret_below=0, devices=[device().name]))
