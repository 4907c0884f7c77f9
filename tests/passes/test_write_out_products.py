"""Matrix products that no library is better at are the sums that they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from agreement.ways import saved
from devices.harness import device
from passes.programs import agree, before_after

import weft as wf
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.check import check
from weft.fun.contractions import INTEGERS, NUMBERS
from weft.fun.parse import parse
from weft.launch import is_gpu
from weft.passes.raise_contractions import raised
from weft.passes.write_out_products import has_products, write_out_products

PRODUCT = """program p(a: f32[n, l], b: f32[l, m]) sizes n, m, l {
  let c: f32[n, m] = call matmul(a, b)
  in c
}"""
SHAPES = [
    ((3, 4), (4, 5)), ((1, 4), (4, 1)), ((0, 4), (4, 5)), ((3, 0), (0, 5)), ((65, 300), (300, 70)),
    ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (6, 4, 5)), ((1, 3, 4), (7, 4, 2)),
    ((7, 3, 4), (1, 4, 2)), ((1, 3, 4), (1, 4, 2)),
]  # fmt: skip


def calls(program: fun.Program) -> int:
    return sum(isinstance(let.expr, fun.Call) for let in walk.statements(program.body))


def operands(shapes: tuple[tuple[int, ...], ...], dtype: str) -> list[np.ndarray]:
    random = np.random.default_rng(5)
    return [random.integers(-(2**30), 2**30, shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8", "f4", "f8"])
@pytest.mark.parametrize("shapes", SHAPES)
def test_they_are_written_out(shapes: tuple[tuple[int, ...], ...], dtype: str) -> None:
    a, b = operands(shapes, dtype)
    if dtype[0] == "f":
        a, b = abs(a), abs(b)  # nothing is cancelled
    program = wf.jit(lambda x, y: wf.matmul(x, y) + 1).trace(a, b)
    assert calls(program) == 1
    after = write_out_products(program, NUMBERS)
    check(after)
    assert calls(after) == 0
    sizes = dict(zip(program.sizes, _sizes(program, [a, b]), strict=True))
    agree(program, after, [a, b], 1e-5 if dtype == "f4" else 1e-12, **sizes)


def _sizes(program: fun.Program, arrays: list[np.ndarray]) -> list[int]:
    known = {}
    for param, array in zip(program.params, arrays, strict=True):
        assert isinstance(param.type, fun.Array)
        for extent, length in zip(param.type.shape, array.shape, strict=True):
            if not extent.is_constant:
                known.update(dict.fromkeys(extent.variables(), length))
    return [known[name] for name in program.sizes]


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "i2"])
def test_what_is_left(dtype: str) -> None:
    """Floats on processors, what no tiles take, and calls of anything else."""
    a, b = operands(((3, 4), (4, 5)), dtype)
    program = wf.jit(lambda x, y: x @ y).trace(a, b)
    assert not has_products(program, INTEGERS)
    assert write_out_products(program, INTEGERS) is program
    sorts = wf.jit(lambda x: wf.sort(x)).trace(operands(((3, 4),), "i4")[0])
    assert calls(sorts) == 1
    assert write_out_products(sorts, NUMBERS) is sorts


def test_text(golden: Callable[[str], None]) -> None:
    golden(before_after(PRODUCT, lambda program: write_out_products(program, NUMBERS)))


def test_it_is_a_contraction() -> None:
    written_out = write_out_products(parse(PRODUCT), NUMBERS)
    assert len(raised(written_out)) == 1


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda x, y: x @ y,
    "what follows": lambda x, y: abs(x @ y - 1).max(axis=1),
    "of a product": lambda x, y: (x @ y).T @ x,
    "in a loop": lambda x, y: wf.fori_loop(0, 3, lambda _, z: (z @ y)[:, : z.shape[1]] + 1, x),
}


@pytest.mark.parametrize("dtype", ["i4", "u8"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_integers(name: str, dtype: str, tmp_path: Path) -> None:
    """They wrap as NumPy's do, in core and in boxes."""
    a, b = operands(((307, 70), (70, 131)), dtype)
    program = PROGRAMS[name]
    expected = _by_numpy(name, a, b)
    with wf.config(interpret_below=0):
        np.testing.assert_array_equal(wf.jit(program)(a, b), expected)
    files = [wf.open(path) for path in saved(tmp_path, a, b)]
    with wf.config(memory_limit="48 MiB"):
        np.testing.assert_array_equal(program(*files).numpy(), expected)


def _by_numpy(name: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if name != "in a loop":
        return np.asarray(PROGRAMS[name](a, b))
    z = a
    for _ in range(3):
        z = (z @ b)[:, : z.shape[1]] + a.dtype.type(1)
    return z


@contextmanager
def gpu() -> Iterator[str]:
    """The OpenCL device as if it were none of the host's processors."""
    on = device()
    with mock.patch.object(on, "is_processor", False), wf.config(devices=[on.name]):
        assert is_gpu(on.name)
        yield on.name


def launches(profile: Any) -> list[str]:
    return [event.name for event in profile.events if event.queue.endswith("compute")]


def test_on_a_gpu_nothing_goes_to_the_host() -> None:
    """In core and in boxes, of a program and of a nest."""
    random = np.random.default_rng(6).random
    a, b = random((129, 70)), random((70, 65))
    layer = wf.jit(lambda x, y: wf.maximum(x @ y - 15, 0))
    nest = wf.kernel(_product)
    for function in (layer, nest):
        c = np.empty((129, 65))
        arguments = (a, b) if function is layer else (a, b, c)
        expected = np.maximum(a @ b - 15, 0) if function is layer else a @ b
        on_host = layer(a, b) if function is layer else nest(*arguments)
        with gpu() as name:
            for limit in ({}, {name: 70_000}):
                with wf.config(memory_limit=limit), wf.profile() as profile:
                    found = function(*arguments)
                np.testing.assert_allclose(c if found is None else found, expected)
                assert (len(launches(profile)) > 1) == bool(limit)
        again = function(*arguments)
        if function is layer:
            np.testing.assert_array_equal(again, on_host)


def _product(a, b, c):
    for i in wf.prange(c.shape[0]):
        for j in range(c.shape[1]):
            total = 0.0
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            c[i, j] = total


def test_on_a_processor_the_library_is_used() -> None:
    random = np.random.default_rng(6).random
    a, b = random((129, 70)), random((70, 65))
    on = device()
    assert not is_gpu(on.name)
    assert not is_gpu("cpu")
    assert is_gpu("cuda:0")
    with wf.config(devices=[on.name]), wf.profile() as profile:
        np.testing.assert_array_equal(wf.jit(lambda x, y: x @ y)(a, b), a @ b)
    assert not launches(profile)
