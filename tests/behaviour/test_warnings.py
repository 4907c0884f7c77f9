"""Warnings are about a line of the user's, not about one of Weft's."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest

import weft as wf
from weft.launch import device
from weft.runtime.devices import others


def test_that_there_is_no_compiler_is_said_at_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device.CpuDevice, "available", lambda: False)
    monkeypatch.setattr(device, "_found", False)
    monkeypatch.setattr(others, "others", lambda: ())
    monkeypatch.setattr(device, "_warned", False)
    x = np.arange(100_000.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        line = inspect.currentframe().f_lineno + 1
        y = np.asarray(wf.asarray(x) * 2 + 1)
    assert [(w.filename, w.lineno) for w in caught] == [(__file__, line)]
    assert "no C compiler" in str(caught[0].message)
    np.testing.assert_array_equal(y, x * 2 + 1)


def test_one_place_warns_once_by_default() -> None:
    with warnings.catch_warnings(record=True) as caught, wf.config(implicit_compute="warn"):
        warnings.simplefilter("default")
        for number in range(3):
            float(wf.asarray(np.float64(number)) + 1)
    assert [w.filename for w in caught] == [__file__]
