"""Contractions in registers, on a device that is a processor: the bits of other forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest
from agreement.ways import assert_equal_bits
from devices.harness import compiled, device, launched, processors_only
from lower.test_register_tiles import TRIANGLE, contraction, inputs, sizes

import weft as wf
from weft.compiler import compile_segment
from weft.fun.contractions import BLOCK
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.imp import interpret as interpreter
from weft.imp import nodes as imp
from weft.lower.gpu import lane_tiles
from weft.lower.gpu.lane_tiles import ROWS, width
from weft.lower.registers import Registers
from weft.plan import launches
from weft.printers import opencl
from weft.runtime.incore import derive

pytestmark = processors_only

NUMPY = {"f64": np.float64, "f32": np.float32, "i32": np.int32}
SIZES = [(1, 32, 5), (ROWS, 33, BLOCK), (32 * ROWS + 1, 65, BLOCK + 1), (7, 129, 2 * BLOCK + 3),
         (40, 5, 3), (0, 40, 3), (3, 0, 3), (3, 40, 0)]  # fmt: skip


@pytest.mark.parametrize(("dtype", "across"), [("f32", False), ("f64", True), ("i32", False)])
def test_lanes_and_groups_give_the_same_bits(dtype: str, across: bool) -> None:
    on = device()
    program = parse(contraction(dtype, across=across, neutral="0" if dtype == "i32" else "-0.0"))
    segment = compiled(program)
    for size in SIZES:
        arguments = inputs(*size, NUMPY[dtype], across=across)
        by_lanes, found = launched(on, program, segment, arguments, sizes(*size))
        enough = size[1] >= width(np.dtype(NUMPY[dtype]).itemsize)
        assert by_lanes <= ({"lanes"} if enough else {"product"})
        with mock.patch.object(on, "is_processor", False):
            in_groups, expected = launched(on, program, segment, arguments, sizes(*size))
        assert "lanes" not in in_groups
        assert_equal_bits(found, expected)


def test_several_values_of_a_side_batches_and_what_follows() -> None:
    on = device()
    text = contraction(joint="subtract(p, q)").replace("[n, l]", "[l, h, n]")
    text = text.replace("[l, m]", "[h, l, m]").replace("[n, m]", "[h, n, m]")
    text = text.replace("(i < n", "(g < h, i < n").replace("a[i, k]", "a[k, g, i]")
    text = text.replace("b[k, j]", "b[g, k, j]").replace("y[i, j]", "y[g, i, j]")
    program = parse(text.replace("sizes n", "sizes h, n"))
    random = np.random.default_rng(4).random
    arguments = [random(shape) for shape in ((270, 3, 33), (3, 270, 29), (3, 33, 29))]
    known = {"h": 3, "n": 33, "m": 29, "l": 270}
    kinds, found = launched(on, program, compiled(program), arguments, known)
    assert kinds == {"lanes"}
    np.testing.assert_allclose(found[0], interpret(program, arguments, known)[0], rtol=1e-9)


@pytest.mark.parametrize(
    "text", [
        TRIANGLE.replace("FIRST", "i").replace("COMPARISON", "greater"),  # half of a plane
        contraction().replace("a: f64", "at: i64[n], a: f64").replace(
            "let p: f64 = a[i, k]", "let o: i64 = at[i] let p: f64 = a[o, k]"
        ),  # a read that may fail
        contraction().replace("m]", "15]").replace("j < m", "j < 15"),  # few columns
    ],
)  # fmt: skip
def test_what_is_left_to_other_forms(text: str) -> None:
    with mock.patch.object(lane_tiles, "registers", return_value=Registers(32, 64)):
        assert "kernel void lanes" not in compiled(parse(text)).source
        assert "kernel void lanes" in compiled(parse(contraction())).source
        assert "lanes" not in compile_segment(parse(contraction()), {}, "", "cuda").source


@pytest.mark.parametrize(
    ("registers", "lanes"), [((32, 64), 32), ((16, 32), 16), ((16, 16), 8), ((32, 16), 16)]
)
def test_sums_of_a_tile_fit_registers(registers: tuple[int, int], lanes: int) -> None:
    count, size = registers
    with mock.patch.object(lane_tiles, "registers", return_value=Registers(count, size)):
        assert width(4) == lanes
        assert width(8) == lanes // 2
    vectors = lanes * 4 // min(size, 32)
    assert ROWS * vectors + vectors + 1 <= count


def test_results_do_not_depend_on_the_registers_there_are() -> None:
    on = device()
    program, found = parse(contraction("f32", neutral="-0.0")), []
    arguments: list[Any] = inputs(50, 70, 300, np.float32)
    for registers in (Registers(32, 64), Registers(16, 16)):
        with mock.patch.object(lane_tiles, "registers", return_value=registers):
            segment = compiled(program)
        kinds, results = launched(on, program, segment, arguments, sizes(50, 70, 300))
        assert kinds == {"lanes"}
        found.append(results)
    assert_equal_bits(*found)


def test_regions_behind_that_of_another_form() -> None:
    """What other devices would need comes first in the workspace, and takes nothing."""
    on = device()
    random = np.random.default_rng(5)
    a, b = random.random((96, 300)), random.random((300, 40))

    def both(a: Any, b: Any) -> Any:
        large = (a[:, :, None] + b[None]).max(axis=1)
        sums = (a[:, :, None] * b[None]).sum(axis=1) * large
        return sums, sums.sum()

    for is_processor in (True, False):
        with mock.patch.object(on, "is_processor", is_processor), wf.config(devices=[on.name]):
            sums, total = wf.jit(both)(a, b)
        expected = a @ b * (a[:, :, None] + b).max(axis=1)
        np.testing.assert_allclose(sums, expected)
        np.testing.assert_allclose(total, expected.sum())


@pytest.mark.parametrize("rows", [1, 2 * ROWS - 1, 2 * ROWS, 2 * ROWS + 1])
def test_an_item_keeps_to_its_own_memory(rows: int) -> None:
    """Interpreted, where an access outside is refused: as many rows as an item has at most."""
    program, columns = parse(contraction()), width(8) + 1
    kernels: list[imp.Kernel] = []
    show = opencl.print_kernels

    def noted(found: Sequence[imp.Kernel]) -> str:
        kernels.extend(found)
        return show(found)

    with (
        mock.patch.object(lane_tiles, "_MOST", 2 * ROWS),
        mock.patch.object(opencl, "print_kernels", noted),
    ):
        segment = compile_segment(program, {}, "", "opencl")
    arguments, size = inputs(rows, columns, 3), sizes(rows, columns, 3)
    known = derive({**size, "threads": 2}, segment.derived)
    listed = launches.listed(segment.steps, {**known, launches.PROCESSOR: 1}, 9)
    assert listed is not None
    ((step, items, integers),) = listed
    (kernel,) = (kernel for kernel in kernels if kernel.name == step.kernel)
    assert kernel.name.startswith("lanes")
    result = np.zeros((rows, columns))
    run = interpreter._Run([a.reshape(-1).view(np.uint8) for a in (*arguments, result)])
    for var, value in zip(kernel.integers, integers, strict=True):
        run.scalars[var.name] = np.int64(value)
    for item in range(items):
        run.scalars[kernel.item.name] = np.int64(item)
        run.block(kernel.body)
    np.testing.assert_allclose(result, arguments[0] @ arguments[1] + arguments[2], rtol=1e-12)
