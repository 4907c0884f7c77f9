"""Rows longer than the memory limit are sorted in runs, and merged: as NumPy sorts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plan.stages import InterpretedStage, ListedSink, ListedSource

import weft as wf
from weft.errors import MemoryLimitError
from weft.fun.parse import parse
from weft.ops.routines import routine
from weft.ops.runs import split
from weft.plan.explain import explain
from weft.plan.planner import plan_program
from weft.runtime.executor import execute

NUMBERS = ["bool", "int8", "uint16", "int32", "int64", "uint64", "float32", "float64"]


def numbers(dtype: str, shape: int | tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Many of them equal; NaN and zeros of two signs among floats."""
    found = (np.random.default_rng(seed).standard_normal(shape) * 30).astype(dtype)
    if dtype.startswith("float"):
        found[..., ::11] = np.nan
        found[..., 1::7], found[..., 2::9] = -0.0, 0.0
    return found


def program(kind: str, dtype: str, result: str, shape: str = "n") -> Any:
    return parse(f"""program sorted(x: {dtype}[{shape}]) sizes {shape} {{
      let y: {result}[{shape}] = call {kind}
      in y }}""")


def kind_of(dtype: str) -> str:
    letter = {"b": "bool", "i": "i", "u": "u", "f": "f"}[np.dtype(dtype).kind]
    return letter if letter == "bool" else f"{letter}{8 * np.dtype(dtype).itemsize}"


def expected_of(x: np.ndarray, keyed: bool, descending: bool) -> np.ndarray:
    if not keyed:
        found = np.sort(x, axis=-1, kind="stable")
        return found[..., ::-1] if descending else found
    if not descending:
        return np.argsort(x, axis=-1, kind="stable")
    return x.shape[-1] - 1 - np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("keyed", [False, True], ids=["sort", "argsort"])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_a_vector_larger_than_the_limit(
    dtype: str, keyed: bool, descending: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.plan.maker._SPILLED", 1 << 10)
    for count in (20011, 16384, 16385):
        x, name = numbers(dtype, count), kind_of(dtype)
        limit = 12 * 4096
        call = f"{'argsort' if keyed else 'sort'}(x, axis = 0, descending = {descending})"
        source = ListedSource(x)
        sink = ListedSink(x.shape, np.int64 if keyed else x.dtype)
        plan = plan_program(
            program(call, name, "i64" if keyed else name), {"n": count}, {"x": source}, [sink],
            limit, 1, InterpretedStage, allowance=0, small=0, box_bytes=1 << 12,
        )  # fmt: skip
        assert plan.peak_bytes <= limit
        execute(plan)
        expected = expected_of(x, keyed, descending)
        assert source.bytes == x.nbytes
        if 3 * x.nbytes > limit:
            assert "in runs of" in str(explain(plan))
            assert "merged from runs" in str(explain(plan))
        np.testing.assert_array_equal(sink.array, expected)
        assert sink.array.tobytes() == expected.tobytes()


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 9, 37])
@pytest.mark.parametrize("run", [1, 4, 8, 1000])
@pytest.mark.parametrize("descending", [False, True])
def test_any_part_is_merged_by_itself(count: int, run: int, descending: bool) -> None:
    x = numbers("float64", (2, count))
    way: dict[str, Any] = {"run": run, "descending": descending}
    (runs,) = routine("sort_runs").run(x, run=run)
    (order,) = routine("argsort_runs").run(x, **way)
    for width in (1, 3, 50):
        for at in range(0, count, width):
            wide = min(width, count - at)
            first = np.int64(at)
            part = slice(at, at + wide)
            (values,) = routine("merge_runs").run(runs, first, extents=(wide,), **way)
            (places,) = routine("merge_order").run(runs, order, first, extents=(wide,), **way)
            expected = expected_of(x, False, descending)[..., part]
            assert values.tobytes() == expected.tobytes()
            np.testing.assert_array_equal(places, expected_of(x, True, descending)[..., part])


def test_splits_are_of_the_least() -> None:
    runs = [np.sort(np.random.default_rng(k).integers(0, 5, k * 7)) for k in range(6)]
    merged = np.sort(np.concatenate(runs))
    for rank in range(len(merged) + 1):
        counts = split(runs, rank)
        assert sum(counts) == rank
        least = np.sort(np.concatenate([r[:c] for r, c in zip(runs, counts, strict=True)]))
        np.testing.assert_array_equal(least, merged[:rank])


def test_rows_larger_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.plan.maker._SPILLED", 1 << 10)
    x = numbers("float64", (3, 5000))
    sink = ListedSink(x.shape, x.dtype)
    plan = plan_program(
        program("sort(x, axis = 1)", "f64", "f64", "m, n"), {"m": 3, "n": 5000},
        {"x": ListedSource(x)}, [sink], 60_000, 1, InterpretedStage, allowance=0, small=0,
        box_bytes=1 << 12,
    )  # fmt: skip
    assert plan.peak_bytes <= 60_000
    execute(plan)
    np.testing.assert_array_equal(sink.array, np.sort(x))


@pytest.mark.parametrize("target", ["y.npy", "y.zarr"])
def test_files(target: str, tmp_path: Path) -> None:
    x = numbers("float64", 1_000_003)
    np.save(tmp_path / "x.npy", x)
    with wf.config(memory_limit="28 MiB"):
        opened = wf.open(tmp_path / "x.npy")
        chunks = (50_000,) if target == "y.zarr" else None
        wf.store(wf.sort(opened, descending=True) * 2, tmp_path / target, chunks=chunks)
        clean = wf.nan_to_num(opened)
        middle, tenths = wf.median(clean), wf.quantile(clean, [0.1, 0.9])
        least = wf.partition(clean, 17)[17]
        found = [np.asarray(each) for each in (middle, tenths, least)]
    np.testing.assert_array_equal(np.asarray(wf.open(tmp_path / target)), np.sort(x)[::-1] * 2)
    x = np.nan_to_num(x)
    for one, other in zip(
        found, (np.median(x), np.quantile(x, [0.1, 0.9]), np.partition(x, 17)[17]), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-15)


@pytest.mark.parametrize("dtype", ["bool", "int32", "float64"])
def test_distinct_values_of_what_does_not_fit(dtype: str, tmp_path: Path) -> None:
    x = np.round(numbers("float64", (1000, 1500)))
    x = x if dtype == "float64" else np.nan_to_num(x).astype(dtype)
    np.save(tmp_path / "x.npy", x)
    limit = 26 * 2**20 + x.nbytes // 4
    with wf.config(memory_limit=limit):
        opened = wf.open(tmp_path / "x.npy")
        values = np.asarray(wf.unique(opened))
        pairs = [wf.unique(opened, return_counts=True), wf.unique_counts(opened)]
        pairs = [tuple(map(np.asarray, pair)) for pair in pairs]
    np.testing.assert_array_equal(values, np.unique(x))
    for pair, alike in zip(pairs, (True, False), strict=True):
        for one, other in zip(
            pair, np.unique(x, return_counts=True, equal_nan=alike), strict=True
        ):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)


def test_many_distinct_values_are_refused_by_name(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(4_000_000.0))
    with (
        wf.config(memory_limit="30 MiB"),
        pytest.raises(MemoryLimitError, match=r"more than 16 MiB of distinct values"),
    ):
        wf.unique(wf.open(tmp_path / "x.npy"))
