"""`wf.explain(wf.store, ...)`: the plan that the store follows, and nothing written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import ArgumentTypeError, ShapeError
from weft.runtime import executor


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The plans that run."""
    plans: list[Any] = []
    computed = executor.computed

    def kept(plan: Any, **named: Any) -> Any:
        plans.append(plan)
        return computed(plan, **named)

    monkeypatch.setattr(executor, "computed", kept)
    return plans


@pytest.fixture
def x(tmp_path: Path) -> wf.Array:
    np.save(tmp_path / "x.npy", np.random.default_rng(2).random((20_000, 500), np.float32))
    return wf.open(tmp_path / "x.npy")


@pytest.mark.parametrize("suffix", [".npy", ".zarr", ".h5"])
@pytest.mark.parametrize("chunks", [None, (3000, 100)])
def test_the_plan_is_that_of_the_store(
    suffix: str, chunks: Any, run: list[Any], x: wf.Array, tmp_path: Path
) -> None:
    pytest.importorskip({".npy": "numpy", ".zarr": "zarr", ".h5": "h5py"}[suffix])
    target = tmp_path / f"y{suffix}"
    with wf.config(memory_limit="60 MiB", threads=2):
        told = wf.explain(wf.store, x * 2 - wf.mean(x, axis=0), target, chunks=chunks)
        assert not target.exists()
        assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]
        wf.store(x * 2 - wf.mean(x, axis=0), target, chunks=chunks)
    (plan,) = run
    assert str(target) in str(told)
    assert told.peak_bytes == plan.peak_bytes
    assert told.bytes_moved == plan.bytes_moved
    assert [s.abreast for s in told.plan.stages] == [s.abreast for s in plan.stages]
    is_plain = suffix == ".npy" or (suffix == ".h5" and chunks is None)
    assert any(stage.abreast for stage in plan.stages) == is_plain


def test_a_result_too_large_for_memory_is_planned_for_a_plain_file(
    run: list[Any], x: wf.Array, tmp_path: Path
) -> None:
    with wf.config(memory_limit="60 MiB", threads=2):
        told = wf.explain(lambda x: wf.concat([x, x]) * 2, x)
        wf.store(wf.concat([x, x]) * 2, tmp_path / "y.npy")
    assert told.peak_bytes == run[0].peak_bytes


def test_what_is_there_stays_as_it_is(x: wf.Array, tmp_path: Path) -> None:
    there = tmp_path / "there.npy"
    np.save(there, np.zeros((30_000, 500), np.float32))
    array, before = np.zeros((20_000, 500), np.float32), there.read_bytes()
    region = (slice(5_000, 25_000), slice(0, 500))
    with wf.config(memory_limit="70 MiB"):
        told = wf.explain(
            wf.store, [x + 1, x + 2], [there, array], regions=[region, None], mode="r+"
        )
    assert "there.npy[5000:25000, 0:500]" in str(told)
    assert there.read_bytes() == before
    assert not array.any()


def test_what_cannot_be_stored_is_refused(x: wf.Array) -> None:
    with pytest.raises(ShapeError):
        wf.explain(wf.store, x, np.zeros(3))
    with pytest.raises(TypeError):
        wf.explain(wf.store, x)


@pytest.mark.parametrize("source", ["x.npy", Path("x.npy")])
@pytest.mark.parametrize("store", [wf.store, lambda *given: wf.explain(wf.store, *given)])
def test_a_path_is_not_what_is_stored(source: Any, store: Any) -> None:
    """Arguments the other way round."""
    with pytest.raises(ArgumentTypeError, match="as what is stored") as refused:
        store(source, np.ones(3))
    assert "wf.store(array, path)" in str(refused.value)
