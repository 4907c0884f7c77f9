"""xarray over lazy arrays: nothing is computed until it is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf

xarray = pytest.importorskip("xarray")

OPERATIONS: dict[str, Any] = {
    "arithmetic": lambda d: (d - d.mean("t")) / d.std("t"),
    "reductions": lambda d: d.sum("x") + d.max("x") - d.min("x"),
    "where": lambda d: d.where(d > 0.5),
    "selection": lambda d: d.isel(t=slice(1, 4), x=-1),
    "ufunc": lambda d: np.sin(d),
    "shift": lambda d: d.shift(t=1) + d.roll(t=1),
    "cumsum": lambda d: d.cumsum("t"),
    "concat": lambda d: xarray.concat([d, d], "t"),
    "transpose": lambda d: d.T.astype("float32"),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_xarray_stays_lazy(name: str) -> None:
    values = np.random.default_rng(0).random((6, 5))
    values[0, 0] = np.nan
    with wf.config(implicit_compute="raise"):
        lazy = OPERATIONS[name](xarray.DataArray(wf.asarray(values), dims=("t", "x")))
        assert isinstance(lazy.data, wf.Array)
        assert "weft.Array" in repr(lazy)
    expected = OPERATIONS[name](xarray.DataArray(values, dims=("t", "x")))
    np.testing.assert_allclose(lazy.data.numpy(), expected.data, rtol=1e-6)
