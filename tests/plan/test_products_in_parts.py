"""Products of tall matrices are added up in memory, part after part: the matrices are read once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plan.stages import InterpretedStage, ListedSource
from slow import some_slow

import weft as wf
from weft.fun.parse import parse
from weft.plan.explain import explain
from weft.plan.planner import plan_program
from weft.runtime.executor import execute

GRAM = """program gram(z: f64[n, m], y: f64[n]) sizes n, m {
  let t: f64[m, n] = permute z (1, 0)
  let g: f64[m, m] = call matmul(t, z)
  let v: f64[m] = call matmul(t, y)
  in g, v }"""


def planned(limit: int, box_bytes: int, rows: int = 5003) -> tuple[Any, ListedSource, list[Any]]:
    z = np.random.default_rng(0).standard_normal((rows, 11))
    source = ListedSource(z)
    plan = plan_program(
        parse(GRAM), {"n": rows, "m": 11}, {"z": source, "y": ListedSource(z[:, 3].copy())},
        [None, None], limit, 2, InterpretedStage, allowance=0, box_bytes=box_bytes, small=64,
    )  # fmt: skip
    return plan, source, execute(plan)


def test_both_products_read_their_matrix_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.plan.calls._BLOCK", 1 << 15)
    plan, source, (gram, vector) = planned(1 << 18, 1 << 16)
    assert source.bytes == source.array.nbytes
    assert plan.peak_bytes <= 1 << 18
    assert len(plan.stages) == 1
    assert plan.stages[0].boxes.count > 3
    assert "the sums of g, whose parts are added in memory" in str(explain(plan))
    np.testing.assert_allclose(gram, source.array.T @ source.array, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(vector, source.array.T @ source.array[:, 3], rtol=1e-12, atol=1e-9)
    np.testing.assert_array_equal(gram, gram.T)


def test_bits_do_not_depend_on_boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.plan.calls._BLOCK", 1 << 15)
    first = planned(1 << 18, 1 << 15)[2]
    for box_bytes in (1 << 16, 3 << 16, 1 << 30):
        for one, other in zip(first, planned(1 << 30, box_bytes)[2], strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_large_result_is_cut_itself() -> None:
    text = """program product(a: f64[n, k], b: f64[k, m]) sizes n, k, m {
      let c: f64[n, m] = call matmul(a, b) in c }"""
    a, b = np.ones((900, 30)), np.ones((30, 20))
    plan = plan_program(
        parse(text), {"n": 900, "k": 30, "m": 20}, {"a": ListedSource(a), "b": ListedSource(b)},
        [None], 1 << 30, 2, InterpretedStage, allowance=0, box_bytes=1 << 15, small=64,
    )  # fmt: skip
    assert not plan.stages[0].stage.carries
    np.testing.assert_array_equal(execute(plan)[0], a @ b)


PRODUCTS: dict[str, Callable[[Any], Any]] = {
    "gram": lambda z: z.T @ z,
    "sums of products": lambda z: wf.einsum("ni,nj->ij", z, z),
    "few columns": lambda z: z.T @ (z[:, :3] + 1),
    "covariances": lambda z: wf.cov(z, rowvar=False),
}
DTYPES = ["float64", "float32", "complex128", "int32"]
EXPECTED: dict[str, Callable[[Any], Any]] = {
    **PRODUCTS,
    "sums of products": lambda z: z.T @ z,
    "covariances": lambda z: np.cov(z, rowvar=False),
}


@pytest.mark.parametrize(("dtype", "name"), some_slow(
    product(DTYPES, PRODUCTS), list(product(DTYPES[1:], list(PRODUCTS)[1:])), several=True
))  # fmt: skip
def test_tall_matrices_in_files(name: str, dtype: str, tmp_path: Path) -> None:
    z = (np.random.default_rng(0).standard_normal((9001, 60)) * 4).astype(dtype)
    wf.store(wf.asarray(z), tmp_path / "z.zarr", chunks=(256, 60))
    with wf.config(memory_limit="36 MiB" if name == "covariances" else "27 MiB"):
        opened = wf.open(tmp_path / "z.zarr")
        found = PRODUCTS[name](opened)
        passes = wf.explain(found).passes.values()
        assert max(passes) <= (2.1 if name == "covariances" else 1)
        result = np.asarray(found)
    expected = EXPECTED[name](z)
    assert result.dtype == expected.dtype or dtype == "float32"
    np.testing.assert_allclose(result, expected, rtol=1e-4 if dtype == "float32" else 1e-9,
                               atol=2e-1 if dtype == "float32" else 1e-6)  # fmt: skip
