"""Statements over the same rows, by groups that hold them: one launch, with the bits of many."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest
from agreement.ways import assert_equal_bits
from devices import pretended_cuda
from devices.harness import AS_PROCESSOR, compiled, device, launched, run
from printers.nvrtc import compile_text
from slow import some_slow

import weft as wf
from weft.lower.gpu import whole_rows
from weft.plan.launch_counts import count
from weft.plan.launches import PROCESSOR
from weft.runtime.devices.cuda import CudaDevice
from weft.runtime.incore import derive


def softmax(x: Any) -> Any:
    e = wf.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def log_softmax(x: Any) -> Any:
    shifted = x - x.max(axis=1, keepdims=True)
    return shifted - wf.log(wf.exp(shifted).sum(axis=1, keepdims=True))


def log_sum_exp(x: Any) -> Any:
    most = x.max(axis=1, keepdims=True)
    return wf.log(wf.exp(x - most).sum(axis=1)) + most[:, 0]


def layer_norm(x: Any) -> Any:
    apart = x - x.mean(axis=1, keepdims=True)
    scaled = apart / wf.sqrt((apart * apart).mean(axis=1, keepdims=True) + 1e-5)
    return scaled * (x[0] + 1) - x[1]  # by weights of columns


def standardised(x: Any) -> Any:
    return (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)


def of_length_one(x: Any) -> Any:
    return x / wf.sqrt((x * x).sum(axis=1, keepdims=True))


def statistics(x: Any) -> Any:
    """Results of rows beside one of elements, two at once among them."""
    mean = x.mean(axis=1)
    place = wf.argmax(x, axis=1)
    return mean, place, wf.tanh(x - mean[:, None]), ((x - mean[:, None]) ** 2).max(axis=1)


def of_scores(x: Any) -> Any:
    """What the rows begin with is made before anything is reduced, and is kept."""
    score = wf.sin(x * x[:, :1])
    e = wf.exp(score - score.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True), score


def mirrored(x: Any) -> Any:
    """Elements that are read from the other end of the row, too."""
    back = x[:, ::-1]
    return (x - back.max(axis=1, keepdims=True)) / (back * x).sum(axis=1, keepdims=True)


PROGRAMS: dict[str, Any] = {
    f.__name__: f
    for f in (
        softmax, log_softmax, log_sum_exp, layer_norm, standardised, of_length_one, statistics,
        of_scores, mirrored,
    )
}  # fmt: skip

TYPES = [np.float32, np.float64]
IN_TYPES = [("softmax", np.float64), *((name, TYPES[k % 2]) for k, name in enumerate(PROGRAMS))]


def pieces(function: Any, x: Any) -> tuple[Any, Any, Any]:
    """The program, as one launch, and as one for each statement."""
    (program,) = wf.jit(function).lower(x)._pieces()
    made = compiled(program)
    with mock.patch.object(whole_rows, "find", return_value=None):
        return program, made, compiled(program)


@pytest.mark.parametrize(("name", "dtype"), some_slow(IN_TYPES, IN_TYPES[1::2], several=True))
def test_one_launch_gives_the_bits_of_many(name: str, dtype: Any) -> None:
    on = device()
    rng = np.random.default_rng(4)
    program, made, alone = pieces(PROGRAMS[name], rng.normal(size=(5, 50)).astype(dtype))
    for rows, extent in ((5, 1), (7, 31), (601, 32), (67, 33), (1031, 3), (2, 1000), (13, 255)):
        x = rng.normal(size=(rows, extent)).astype(dtype)
        with mock.patch.object(on, "is_processor", False):
            kinds, expected = launched(on, program, alone, [x], {})
            assert "whole" not in kinds
            before = on.statistics.launches
            kinds, found = launched(on, program, made, [x], {})
        assert kinds == {"whole"}
        assert on.statistics.launches == before + 1
        assert_equal_bits(found, expected)


@pytest.mark.parametrize("dtype", TYPES)
def test_rows_that_fit_no_group_are_launched_as_before(dtype: Any) -> None:
    on = device()
    most = 8192 if dtype is np.float32 else 4096
    rng = np.random.default_rng(4)
    program, made, alone = pieces(softmax, rng.normal(size=(5, 50)).astype(dtype))
    for rows, extent in ((3, most), (3, most + 1), (4, 0), (0, 40)):
        x = rng.normal(size=(rows, extent)).astype(dtype)
        with mock.patch.object(on, "is_processor", False):
            _, expected = launched(on, program, alone, [x], {})
            kinds, found = launched(on, program, made, [x], {})
        assert kinds == ({"whole"} if extent == most else kinds - {"whole"})
        assert_equal_bits(found, expected)


@pytest.mark.parametrize("name", ["layer_norm"])
def test_the_planner_counts_one_launch(name: str) -> None:
    on = device()
    program, made, _ = pieces(PROGRAMS[name], np.zeros((5, 50)))
    counts = []
    for extent in (50, 9000):
        known = derive({"n0": 5, "n1": extent, "threads": on.items}, made.derived)
        for is_processor in AS_PROCESSOR:
            with mock.patch.object(on, "is_processor", is_processor):
                before = on.statistics.launches
                run(on, program, made, [np.ones((5, extent))], {})
                launches = on.statistics.launches - before
            assert count(made.steps, {**known, PROCESSOR: is_processor}) == launches
            if not is_processor:
                counts.append(launches)
    assert counts[0] == 1 < counts[1]


@pytest.mark.parametrize(("name", "dtype"), some_slow(IN_TYPES, IN_TYPES[1::2], several=True))
def test_as_cuda(name: str, dtype: Any) -> None:
    text = wf.jit(PROGRAMS[name]).lower(np.zeros((40, 50), dtype)).source("cuda")
    assert "void whole0(" in text
    assert compile_text(text).startswith(b"\x7fELF")


@pytest.fixture
def gpu(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaDevice]:
    """A pretended GPU, whose items come in another order between barriers."""
    with pretended_cuda.only_gpu(monkeypatch, tmp_path) as made:
        yield made


def on_gpu(function: Any, *arguments: Any) -> tuple[list[str], Any]:
    """The kernels that a call launches, and its results."""
    with wf.config(devices=["cuda:0"]), wf.profile() as profile:
        found = function(*arguments)
        found = [np.asarray(one) for one in (found if isinstance(found, tuple) else (found,))]
    return [event.name.rstrip("0123456789") for event in profile.events], found


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "statistics"])
def test_on_a_gpu(gpu: CudaDevice, name: str) -> None:
    rng = np.random.default_rng(7)
    function, alone = (wf.jit(PROGRAMS[name]) for _ in range(2))
    for rows, extent in ((7, 33), (201, 31), (2, 1024), (5, 1000)):
        x = rng.normal(size=(rows, extent)).astype(np.float32)
        kinds, found = on_gpu(function, x)
        assert "whole" in kinds
        assert not {"map", "several", "group"} & set(kinds)
        with (
            mock.patch.object(whole_rows, "find", return_value=None),
            wf.config(optimise="no-merge"),  # another program, which is compiled anew
        ):
            kinds, expected = on_gpu(alone, x)
        assert "whole" not in kinds
        assert_equal_bits(found, expected)


def test_in_boxes(gpu: CudaDevice) -> None:
    """Each statement has a window of its own, which the launch finds to be the others'."""
    x = np.random.default_rng(7).normal(size=(601, 100)).astype(np.float32)
    _, expected = on_gpu(wf.jit(softmax), x)
    with wf.config(memory_limit={"cuda:0": "200 KiB"}):
        kinds, found = on_gpu(wf.jit(softmax), x)
    assert kinds.count("whole") > 1
    assert not {"map", "several"} & set(kinds)
    assert_equal_bits(found, expected)


def test_rounds_of_a_loop(gpu: CudaDevice) -> None:
    """Each round's result may lie over what it reads."""

    def rounds(x: Any) -> Any:
        return wf.fori_loop(0, 3, lambda _, v: softmax(v * 2), x)

    x = np.random.default_rng(7).normal(size=(11, 65))
    _, (found,) = on_gpu(wf.jit(rounds), x)
    for _ in range(3):
        x = np.exp(2 * x - 2 * x.max(axis=1, keepdims=True))
        x /= x.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, x, rtol=1e-12)


def test_rows_of_several_dimensions(gpu: CudaDevice) -> None:
    """Attention: scores of each head and query."""

    def attention(scores: Any) -> Any:
        e = wf.exp(scores - scores.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    x = np.random.default_rng(7).normal(size=(3, 2, 17, 40)).astype(np.float32)
    kinds, (found,) = on_gpu(wf.jit(attention), x)
    assert kinds.count("whole") == 1
    assert "map" not in kinds
    expected = np.exp(x - x.max(axis=-1, keepdims=True))
    np.testing.assert_allclose(found, expected / expected.sum(axis=-1, keepdims=True), rtol=2e-6)


def test_columns_are_no_rows(gpu: CudaDevice) -> None:
    """Neighbours of a column lie apart: its reductions are by columns."""

    def of_columns(x: Any) -> Any:
        e = wf.exp(x - x.max(axis=0))
        return e / e.sum(axis=0)

    x = np.random.default_rng(7).normal(size=(40, 30))
    kinds, (found,) = on_gpu(wf.jit(of_columns), x)
    assert "whole" not in kinds
    expected = np.exp(x - x.max(axis=0))
    np.testing.assert_allclose(found, expected / expected.sum(axis=0), rtol=1e-12)


def test_what_may_fail_is_left_to_items(gpu: CudaDevice) -> None:
    def chosen(table: Any, x: Any) -> Any:
        values = wf.take(table, x.reshape(-1)).reshape(x.shape)
        return values - values.mean(axis=1, keepdims=True)

    table, x = np.arange(9.0), np.random.default_rng(1).integers(0, 9, (4, 30))
    _, (found,) = on_gpu(wf.jit(chosen), table, x)
    expected = table[x]
    np.testing.assert_allclose(found, expected - expected.mean(axis=1, keepdims=True))
    x[2, 20] = 9
    with pytest.raises(IndexError):
        on_gpu(wf.jit(chosen), table, x)
