"""Plans of boxes that are kept: for calls on other data that lies alike, and for no others."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft import execute
from weft.errors import ArgumentTypeError, MemoryLimitError, ShapeError
from weft.launch import boxes

ROWS, COLUMNS = 6000, 300
LIMIT = 40 << 20


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The plans that are made."""
    made: list[Any] = []
    plan = boxes._planned

    def counted(*arguments: Any) -> Any:
        made.append(plan(*arguments))
        return made[-1]

    monkeypatch.setattr(boxes, "_planned", counted)
    monkeypatch.setattr(execute, "_computations", {})
    return made


def source(folder: Path, name: str, order: str = "C") -> tuple[np.ndarray, Path]:
    data = np.random.default_rng(len(name)).random((ROWS, COLUMNS), np.float32)
    np.save(folder / name, np.asarray(data, order=order))  # type: ignore[call-overload]
    return data, folder / name


def store(path: Path, target: Path, limit: int = LIMIT, factor: float = 3.0) -> None:
    x = wf.open(path)
    with wf.config(memory_limit=limit):
        wf.store((x - wf.mean(x, axis=0)) * factor, target, mode="w")


def expected(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(axis=0, dtype=np.float64)) * 3


def test_another_file_is_not_planned_again(planned: list[Any], tmp_path: Path) -> None:
    for name in ("a.npy", "other.npy"):
        x, path = source(tmp_path, name)
        store(path, tmp_path / f"to-{name}")
        np.testing.assert_allclose(np.load(tmp_path / f"to-{name}"), expected(x), atol=1e-4)
    assert len(planned) == 1


@pytest.mark.parametrize("change", ["limit", "order", "target", "length"])
def test_what_lies_otherwise_is_planned_anew(
    change: str, planned: list[Any], tmp_path: Path
) -> None:
    x, path = source(tmp_path, "x.npy")
    store(path, tmp_path / "y.npy")
    target, limit = tmp_path / "y.npy", LIMIT
    if change == "limit":
        limit += 1 << 20
    elif change == "order":
        x, path = source(tmp_path, "column-major.npy", "F")
    elif change == "target":
        pytest.importorskip("zarr")
        target = tmp_path / "y.zarr"
    else:
        x = x[: ROWS // 2]
        np.save(path, x)
    store(path, target, limit)
    assert len(planned) == 2
    np.testing.assert_allclose(np.asarray(wf.open(target)), expected(x), atol=1e-4)


def test_a_kept_plan_holds_no_data(planned: list[Any], tmp_path: Path) -> None:
    x, _ = source(tmp_path, "x.npy")
    held = weakref.ref(x)
    with wf.config(memory_limit=LIMIT):
        wf.store(wf.asarray(x) * 2, tmp_path / "y.npy", mode="w")
    assert len(planned) == 1
    planned.clear()
    del x
    gc.collect()
    assert held() is None


def test_without_buffers_boxes_are_few(planned: list[Any], tmp_path: Path) -> None:
    data = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (1 << 17, 256))
    x, total = wf.open(tmp_path / "x.npy"), np.empty(256, np.float32)
    with wf.config(memory_limit=LIMIT, threads=2):
        wf.store(wf.sum(x, axis=0), total)
    (plan,) = planned
    assert data.nbytes == 1 << 27
    assert plan.stages[0].boxes.count == 1
    assert not total.any()


def test_why_several_devices_refuse_is_kept_of_files_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refused, plan = list[Any](), boxes._planned

    def refusing(*arguments: Any) -> Any:
        *_, current, spread, _ = arguments
        if spread:
            refused.append(current.devices)
            raise MemoryLimitError("all there is", "less", "a larger limit")
        return plan(*arguments)

    monkeypatch.setattr(boxes, "_planned", refusing)
    x, path = source(tmp_path, "x.npy")
    for _ in range(2):
        with wf.config(devices=("cpu:0", "cpu:1")):
            store(path, tmp_path / "y.npy")
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected(x), atol=1e-4)
    assert 0 < len(refused) == len(set(refused))


@pytest.mark.parametrize("call", [
    lambda f, x: (f, (x, 3), {}),
    lambda f, x: (f, (x,), {"factor": 3}),
    lambda f, x: (wf.jit(f.function, static_argnames="factor"), (x, 3), {}),
])  # fmt: skip
def test_a_call_follows_the_plan_that_was_explained(call: Any, planned: list[Any]) -> None:
    def centred(x: Any, factor: Any) -> Any:
        return (x - wf.mean(x, axis=0)) * factor

    x = np.random.default_rng(1).random((ROWS, COLUMNS), np.float32)
    function, given, named = call(wf.jit(centred), x)
    with wf.config(memory_limit=LIMIT):
        told = wf.explain(function, *given, **named)
        assert len(planned) == 1
        found = function(*given, **named)
        assert len(planned) == 1
        assert str(function.explain(*given, **named)) == str(told)
        assert len(planned) == 1
    assert str(told).startswith("centred: ")
    np.testing.assert_allclose(found, expected(x), atol=1e-4)


def test_what_no_call_could_give_is_explained_as_it_would_be_stored() -> None:
    x = np.ones((ROWS, 6 * COLUMNS), np.float32)
    scaled = wf.jit(lambda x: x * 2)
    with wf.config(memory_limit=x.nbytes - 1):
        with pytest.raises(MemoryLimitError):
            scaled(x)
        lazily = wf.explain(lambda x: x * 2, x)
        assert str(wf.explain(scaled, x)) == str(lazily)
        assert str(wf.explain(scaled, wf.asarray(x))) == str(lazily)


def test_arrays_of_another_byte_order_are_traced_once(planned: list[Any]) -> None:
    x = np.random.default_rng(1).random((ROWS, COLUMNS)).astype(">f4")
    centred = wf.jit(lambda x: (x - wf.mean(x, axis=0)) * 3)
    with wf.config(memory_limit=LIMIT):
        centred.explain(x)
        found = centred(x)
    assert len(planned) == 1
    np.testing.assert_allclose(found, expected(x), atol=1e-4)


def test_in_containers_too_it_is_explained_as_it_would_be_stored() -> None:
    x = np.ones((ROWS, 6 * COLUMNS), np.float32)
    with wf.config(memory_limit=x.nbytes - 1):
        wanted = str(wf.explain(lambda x: x * 2, x))
        assert str(wf.explain(wf.jit(lambda x: x["x"] * 2), {"x": x})) == wanted
        made = wf.jit(lambda n: wf.zeros((n, 6 * COLUMNS), "f4"), static_argnames="n")
        assert "written behind" in str(wf.explain(made, ROWS))


def test_arrays_for_results_are_explained() -> None:
    x, out = np.ones((ROWS, COLUMNS)), np.empty((ROWS, COLUMNS))
    scaled = wf.jit(lambda x: x * 2)
    assert "at once" in str(scaled.explain(x, out=out))
    with pytest.raises(ShapeError, match=r"out= of shape \(3,\)"):
        wf.explain(scaled, x, out=np.empty(3))


def test_a_function_without_results_is_not_explained() -> None:
    with pytest.raises(ArgumentTypeError, match="gives no array"):
        wf.explain(wf.jit(lambda x: (3,)), np.ones(3))


def test_what_runs_at_once_without_memory_for_boxes_is_explained() -> None:
    """Boxes need memory for more than arrays."""
    x = np.random.default_rng(1).random(100_003)
    scaled = wf.jit(lambda x: x * 2 + 1)
    with wf.config(memory_limit="1 MiB", interpret_below=0):
        for told in (scaled.explain(x), wf.explain(wf.asarray(x) * 2 + 1)):
            assert "in core, at once" in str(told)
            assert told.peak_bytes <= 1 << 20
        np.testing.assert_array_equal(scaled(x), x * 2 + 1)
    with wf.config(memory_limit="100 KiB", interpret_below=0):
        with pytest.raises(MemoryLimitError):
            scaled.explain(x)
        with pytest.raises(MemoryLimitError):
            scaled(x)
