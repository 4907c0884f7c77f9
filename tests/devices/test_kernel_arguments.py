"""A slot's kernels keep their arguments: only those that change are given again."""

from __future__ import annotations

from typing import Any

import pytest

from weft.runtime.devices.opencl_runs import Kernel


class Driver:
    """A kernel of a driver that notes what it is given, and refuses one number."""

    def __init__(self) -> None:
        self.given: list[tuple[int, Any]] = []

    def set_arg(self, number: int, value: Any) -> None:
        if value == 13:
            raise RuntimeError("refused")
        self.given.append((number, value))

    def take(self) -> list[tuple[int, Any]]:
        found, self.given = self.given, []
        return found


def test_only_arguments_that_change_are_given() -> None:
    driver, first, second = Driver(), bytearray(), bytearray()  # equal, and not the same
    kernel = Kernel(driver)
    assert kernel.given([first, 1, 2]) is driver
    assert driver.take() == [(0, first), (1, 1), (2, 2)]
    kernel.given([first, 1, 3])
    assert driver.take() == [(2, 3)]
    kernel.given([second, 1, 3])
    ((number, buffer),) = driver.take()
    assert number == 0
    assert buffer is second
    kernel.given([second, 1, 3])
    assert driver.take() == []


def test_all_are_given_again_after_one_that_was_refused() -> None:
    driver, buffer = Driver(), bytearray()
    kernel = Kernel(driver)
    kernel.given([buffer, 1, 2])
    driver.take()
    with pytest.raises(RuntimeError):
        kernel.given([buffer, 5, 13])
    driver.take()
    kernel.given([buffer, 1, 2])
    assert driver.take() == [(0, buffer), (1, 1), (2, 2)]
