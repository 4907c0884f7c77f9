"""The CUDA device on a stand-in for cuda.core, with or without a GPU."""

from __future__ import annotations

import shutil
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from devices import pretended_cuda
from devices.test_faults import attempt
from slow import some_slow

import weft as wf
from weft.errors import CompileError, DeviceError
from weft.plan import planner
from weft.runtime.devices import cuda, kernel_texts
from weft.runtime.devices.cuda import CudaDevice


@pytest.fixture
def on(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaDevice]:
    """A pretended GPU, the only one."""
    with pretended_cuda.only_gpu(monkeypatch, tmp_path) as found:
        yield found


def test_programs(on: CudaDevice) -> None:
    a = np.linspace(-1, 1, 3000).reshape(30, 100)
    normalise = wf.jit(lambda x: (x - x.mean(axis=0)) / x.std(axis=0))
    with wf.config(devices=[on.name]):
        assert on.name in wf.devices()
        found = normalise(a)
        again = normalise(a.T.copy().T)
    np.testing.assert_allclose(found, (a - a.mean(axis=0)) / a.std(axis=0), rtol=1e-9)
    np.testing.assert_allclose(again, found, rtol=1e-14)  # sums of rows, of what lies by columns
    assert on.statistics.launches > 0
    assert on.describe().startswith("cuda:0: Pretended GPU")


def test_boxes_go_through_page_locked_memory(on: CudaDevice) -> None:
    """Elements of columns are brought there one by one: nothing is packed before."""
    x = np.random.default_rng(1).normal(size=(64, 4000))
    running = wf.jit(lambda a: wf.cumulative_sum(a, axis=0))
    with wf.config(devices=[on.name], memory_limit={on.name: "1 MiB"}):
        found = running(x)
    np.testing.assert_allclose(found, np.cumsum(x, axis=0), rtol=1e-9, atol=1e-9)
    assert on.statistics.copies_in > 2
    assert on.statistics.bytes_packed == 0


def test_boxes_under_a_cap(on: CudaDevice) -> None:
    x = np.random.default_rng(1).normal(size=40_000).astype(np.float32)
    table = np.arange(50, dtype=np.float32)
    smooth = wf.jit(
        lambda a, t: wf.stencil(lambda s: s[-1] + s[1], a, boundary="edge") + t[3]
    )
    padded = np.concatenate([x[:1], x, x[-1:]])
    for slots in (1, 3):
        with wf.config(devices=[on.name], memory_limit={on.name: "64 KiB"}, slots=slots):
            on.trim()
            on.statistics.peak_bytes = 0
            found = smooth(x, table)
        np.testing.assert_array_equal(found, padded[:-2] + padded[2:] + table[3])
        assert 0 < on.statistics.peak_bytes <= 64 << 10


@pytest.mark.parametrize("rounds", [5, 301])
def test_rounds_that_come_again_are_a_graph(on: CudaDevice, rounds: int) -> None:
    x = np.random.default_rng(2).normal(size=(20, 3, 4))

    def step(k: Any, a: Any) -> Any:
        return wf.stencil(lambda s: (s[-1, 0, 0] + s[1, 0, 0]) / 2, a, boundary="edge")

    smooth = wf.jit(lambda a: wf.fori_loop(0, rounds, step, a))
    pretended_cuda.Graph.launches = 0
    with wf.config(devices=[on.name]):
        found = smooth(x)
    expected = x
    for _ in range(rounds):
        padded = np.concatenate([expected[:1], expected, expected[-1:]])
        expected = (padded[:-2] + padded[2:]) / 2
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert pretended_cuda.Graph.launches == (0 if rounds == 5 else rounds // 64)


def test_loops_that_read_what_decides(on: CudaDevice) -> None:
    halve = wf.jit(
        lambda x: wf.while_loop(lambda y: (y**2).sum() > 1, lambda y: y / 2, x)
    )
    a = np.full(300, 9.0)
    with wf.config(devices=[on.name]):
        found = halve(a)
    expected = a
    while (expected**2).sum() > 1:
        expected = expected / 2
    np.testing.assert_allclose(found, expected)


def test_an_index_outside(on: CudaDevice) -> None:
    take = wf.jit(lambda t, i: wf.take(t, i))
    with wf.config(devices=[on.name]):
        for _ in range(2):
            with pytest.raises(IndexError, match="index 11 is outside"):
                take(np.arange(10.0), np.array([3, 11]))
            np.testing.assert_array_equal(take(np.arange(10.0), np.array([3, 9])), [3, 9])


def test_groups_do_nothing_after_a_failure(on: CudaDevice) -> None:
    """A scan whose tiles look back has no states then, which what failed would have prepared."""
    count = 20_000
    running = wf.jit(
        lambda i, v: wf.cumulative_sum(wf.scatter(wf.zeros(count, dtype=wf.int64), i, v, "add"))
    )
    where, values = np.arange(count)[::-1].copy(), np.arange(count)
    where[77] = 50_000
    with wf.config(devices=[on.name]):
        with pytest.raises(IndexError, match="index 50000 is outside"):
            running(where, values)
        where[77] = count - 78
        np.testing.assert_array_equal(running(where, values), np.cumsum(values[::-1]))


def test_what_fails_is_named(on: CudaDevice) -> None:
    x = np.arange(5000.0)
    double = wf.jit(lambda a: a * 2)
    with wf.config(devices=[on.name]):
        on.pool.fails = True
        with pytest.raises(MemoryError, match="cuda:0"):
            double(x)
        on.pool.fails = False
        np.testing.assert_array_equal(double(x), 2 * x)
        with (
            mock.patch.object(pretended_cuda.Program, "compile", side_effect=ValueError("no")),
            pytest.raises(CompileError, match="cuda:0 refuses generated code: no"),
        ):
            wf.jit(lambda a: a * 3 - 1)(x)


@contextmanager
def compiled_by(threads: int) -> Iterator[list[str]]:
    """The names of kernels that are compiled: so many at once, each by itself."""
    names: list[str] = []
    compile_, together = pretended_cuda.Program.compile, threading.Barrier(threads)

    def noted(self: Any, target: str) -> Any:
        (name,) = kernel_texts.apart(self.text)
        names.append(name)
        together.wait(60)
        return compile_(self, target)

    with (
        mock.patch.object(pretended_cuda.Program, "compile", noted),
        mock.patch("weft.runtime.threads.threads", return_value=threads),
    ):
        yield names


def test_what_is_launched_is_compiled_once(on: CudaDevice) -> None:
    """One kernel of a dozen for rows of some length; not those of a plan that is not run."""

    @wf.jit
    def softmax(x: Any) -> Any:
        e = wf.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    x = np.random.default_rng(2).random((70, 1100), np.float32)
    with wf.config(devices=[on.name]), compiled_by(1) as names:
        found = softmax(x)
        assert names == ["whole0"]
        softmax(x[:61].copy())
        assert names == ["whole0"]
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)


def test_no_stage_is_lowered_where_there_are_several(on: CudaDevice) -> None:
    """What fits is run in core then: that there are is found out once."""
    x = np.random.default_rng(2).random(1 << 19)
    total = wf.jit(lambda a: (a * a).sum())
    with (
        wf.config(devices=[on.name]),
        mock.patch("weft.launch.stage.stage_code", side_effect=AssertionError),
        mock.patch.object(planner, "plan_program", wraps=planner.plan_program) as planned,
    ):
        assert total(x) == total(x) == pytest.approx((x * x).sum())
    assert planned.call_count == 1
    with wf.config(devices=[on.name], memory_limit={on.name: "1 MiB"}):
        assert total(x) == pytest.approx((x * x).sum())
    assert on.statistics.copies_in > 4


def test_what_is_launched_together_is_compiled_side_by_side(on: CudaDevice) -> None:
    x = np.random.default_rng(2).random((3000, 40))
    with wf.config(devices=[on.name]), compiled_by(3) as names:
        found = wf.jit(lambda a: a.sum(axis=0) / a[1])(x)
    assert {name.rstrip("0123456789") for name in names} == {"columns", "map"}
    assert len(names) == 3
    np.testing.assert_allclose(found, x.sum(axis=0) / x[1])


@pytest.mark.parametrize("limit", ["1 GiB", "1 MiB"], ids=["in core", "in boxes"])
@pytest.mark.parametrize("at", some_slow([1, 2, 5], [2]))
def test_after_a_wrong_address_all_calls_fail(on: CudaDevice, at: int, limit: str) -> None:
    """The error says what to do about it, again and again; beside the CPU, that does the rest."""
    x = np.linspace(0, 9, 400_000)
    function = wf.jit(lambda a: wf.sqrt(wf.sin(a) ** 2 + 1))
    expected = np.sqrt(np.sin(x) ** 2 + 1)
    launch, calls = pretended_cuda.core.launch, 0

    def wrong(stream: Any, *arguments: Any) -> None:
        nonlocal calls
        calls += 1
        launch(stream, *arguments)
        if calls == at:
            stream.queue(pretended_cuda.Context.lose)

    said = "cuda:0 failed at .*MISALIGNED"
    with (
        wf.config(devices=[on.name], memory_limit={on.name: limit}),
        mock.patch.object(pretended_cuda.core, "launch", wrong),
    ):
        refusal = attempt(lambda: [function(x)], [expected])
    assert (refusal is None) == (calls < at)
    if refusal is None:
        return
    assert "start Python anew" in str(refusal)
    with wf.config(devices=[on.name], memory_limit={on.name: limit}):
        for again in (function, function, wf.jit(lambda a: a * 3 - at)):
            with pytest.raises(DeviceError, match=said):
                again(x)
    devices = ["cpu:0", on.name]
    with (
        wf.config(devices=devices, memory_limit={on.name: limit}),
        warnings.catch_warnings(record=True) as told,
    ):
        warnings.simplefilter("always")
        for again in (function, function, wf.jit(lambda a: wf.sqrt(wf.sin(a) ** 2 + 1))):
            np.testing.assert_allclose(again(x), expected, rtol=1e-12)
    assert all("cuda:0 was left out" in str(warning.message) for warning in told)
    assert all("MISALIGNED" in str(warning.message) for warning in told)
    with wf.config(devices=["cpu"]):
        np.testing.assert_allclose(function(x), expected, rtol=1e-12)


@pytest.mark.parametrize("count", some_slow([1, 2, 13, 4099], [1, 2, 4099]))
def test_what_kernels_load_and_store_is_aligned(on: CudaDevice, count: int) -> None:
    """Scalars of eight bytes lie behind arrays of so many single bytes."""
    x = np.arange(count, dtype=np.uint8)

    @wf.jit
    def program(x: Any) -> Any:
        near = wf.stencil(lambda s: s[-1] ^ s[0], x, boundary="wrap")
        some = wf.cumulative_sum(near, dtype=wf.uint8)[::-1]
        return (some * wf.mean(wf.astype(near, wf.float64)), wf.sum(some), wf.flip(near))

    with wf.config(devices=[on.name], interpret_below=0):
        found = program(x)
    near = np.roll(x, 1) ^ x
    some = np.cumsum(near, dtype=np.uint8)[::-1]
    np.testing.assert_allclose(found[0], some * near.mean())
    assert found[1] == some.sum()
    np.testing.assert_array_equal(found[2], near[::-1])


def test_no_gpu_no_device() -> None:
    assert all(device.name.startswith("cuda:") for device in cuda.find())


TURN = """
extern "C" __global__ void turn(long long *failed, char *block) {
    __shared__ long long near[64];
    near[threadIdx.x + AHEAD] = threadIdx.x;
    BARRIER;
    ((long long *)block)[threadIdx.x] = near[63 - threadIdx.x];
}
"""


@pytest.mark.parametrize(("barrier", "ahead", "wrong"), [
    ("__syncthreads()", 0, None),
    ("", 0, "other values"),
    ("__syncthreads()", 1, "outside of an array"),
    ("if (threadIdx.x < 32) __syncthreads()", 0, "some threads of turn ended"),
])  # fmt: skip
def test_the_stand_in_finds_what_groups_do_wrong(
    barrier: str, ahead: int, wrong: str | None
) -> None:
    """Barriers that are missing, or that some threads do not reach; places outside of arrays."""
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    text = TURN.replace("BARRIER", barrier).replace("AHEAD", str(ahead))
    kernel = pretended_cuda.ObjectCode(text.encode()).get_kernel("turn")
    device = pretended_cuda.Device()
    device.set_current()
    stream, memory = device.create_stream(), pretended_cuda.Resource(device.device_id)
    failed, block = memory.allocate(24), memory.allocate(64 * 8)
    pretended_cuda.launch(stream, SimpleNamespace(grid=1, block=64), kernel, failed, block)
    if wrong is not None and wrong != "other values":
        with pytest.raises(AssertionError, match=wrong):
            stream.sync()
        return
    stream.sync()
    right = np.array_equal(block.owner.view(np.int64), np.arange(64)[::-1])
    assert right == (wrong is None)


def test_groups_of_threads(on: CudaDevice) -> None:
    """Products in tiles, a histogram in copies of groups, a scan whose groups look back."""
    rng = np.random.default_rng(4)
    a, b = rng.integers(-9, 9, (19, 70)), rng.integers(-9, 9, (70, 21))
    x = rng.integers(0, 50, 5003)

    @wf.kernel
    def product(left: Any, right: Any, out: Any) -> None:
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                total = 0
                for k in range(left.shape[1]):
                    total += left[i, k] * right[k, j]
                out[i, j] = total

    count = wf.jit(lambda v: wf.scatter(wf.zeros(50, dtype=wf.int64), v, v * 0 + 1, "add"))
    running = wf.jit(lambda v: wf.cumulative_sum(v))
    out = np.zeros((19, 21), np.int64)
    with wf.config(devices=[on.name]):
        product(a, b, out)
        np.testing.assert_array_equal(out, a @ b)
        np.testing.assert_array_equal(count(x), np.bincount(x, minlength=50))
        np.testing.assert_array_equal(running(x), np.cumsum(x))


def test_what_no_library_is_called_for(on: CudaDevice) -> None:
    """Order, places in it, medians, solutions and windows, and what a mask selects."""
    rng = np.random.default_rng(5)
    x, weights = rng.normal(size=(33, 9)), rng.normal(size=5)
    x[3, 4] = np.nan
    systems = rng.normal(size=(33, 3, 3))

    @wf.jit
    def program(x: Any, weights: Any, systems: Any) -> Any:
        flat = wf.reshape(x, (-1,))
        flat[flat > 1] *= 2
        ends = wf.map(wf.sort, wf.reshape(flat[:280], (14, 20)))
        medians = wf.map(wf.median, x)
        solved = wf.map(wf.linalg.solve, systems, x[:, :3])
        places = wf.searchsorted(wf.arange(-2.0, 2.0, 0.25), x, side="right")
        return ends, medians, solved, places, wf.convolve(flat, weights, "valid")

    with wf.config(devices=[on.name]):
        found = program(x, weights, systems)
    flat = np.where(x > 1, 2 * x, x).ravel()
    expected = (
        np.sort(flat[:280].reshape(14, 20), axis=1), np.median(x, axis=1),
        np.linalg.solve(systems, x[:, :3, None])[..., 0],
        np.searchsorted(np.arange(-2.0, 2.0, 0.25), x, "right"),
        np.convolve(flat, weights, "valid"),
    )  # fmt: skip
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    assert on.statistics.launches >= 5
