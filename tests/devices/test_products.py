"""Contractions in tiles of a group's memory: values, bits, at sizes around those of tiles."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from devices import pretended_cuda
from devices.harness import DIALECT, compiled, device, run
from lower.test_register_tiles import TRIANGLE, contraction, inputs, sizes
from printers.nvrtc import compile_text
from slow import some_slow

from weft.compiler import compile_segment
from weft.fun.contractions import BLOCK
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.lower.gpu import lane_tiles
from weft.lower.gpu import products as gpu_products
from weft.lower.registers import Registers
from weft.plan.segment import Segment
from weft.runtime.devices.kernel_texts import apart
from weft.runtime.incore import derive

SIZES = [(1, 1, 1), (16, 17, 15), (67, 31, 257), (65, 129, 16), (5, 3, 0), (7, 2, 3 * BLOCK + 1),
         (128, 64, 32), (257, 70, 41)]  # fmt: skip
EVERY_SHAPE = gpu_products.shapes


def shapes(least: int, first: int = 0) -> Any:
    """The shapes of tiles, without the first ones, of which there have to be so many items."""
    return lambda found: [replace(shape, least=least) for shape in EVERY_SHAPE(found)[first:]]


EVERY_FORM: dict[str, dict[str, Any]] = {
    "large": {"_BUSY": 1, "shapes": shapes(1)},
    "middle": {"_BUSY": 1, "shapes": shapes(1, 1)},
    "fine": {"_BUSY": 1, "shapes": shapes(1, 2)},
    "parts": {"_BUSY": 1 << 40, "shapes": shapes(1 << 40)},
    "items": {"_SHARED_BYTES": 0},
}
FLOATS = ("f32", "f64")


def forms(text: str) -> dict[str, Segment]:
    """The program compiled to choose each of the forms."""
    found = {}
    for name, constants in EVERY_FORM.items():
        with mock.patch.multiple(gpu_products, **constants):
            found[name] = compiled(parse(text))
    return found


def agree(text: str, segment: Segment, arguments: list[Any], values: dict[str, int]) -> Any:
    (expected,) = interpret(parse(text), arguments, values)
    (found,) = run(device(), parse(text), segment, arguments, values)
    tolerance = {"float32": 1e-3, "float64": 1e-9}.get(found.dtype.name, 0)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    return found


@pytest.mark.parametrize(
    ("dtype", "across"), [("f64", False), ("f32", True), ("i32", False)]
)
def test_products(dtype: str, across: bool) -> None:
    device()
    neutral = "-0.0" if dtype in FLOATS else "0"
    text = contraction(dtype, across=across, neutral=neutral)
    segment = compiled(parse(text))
    # On processors by lanes, or an element at a time; else in tiles of three sizes, of which
    # NVIDIA's GPUs load the larger ones by vectors, too.
    in_tiles = [" x " in kernel.partition(", in tiles of")[2] for kernel in segment.kernels]
    assert sum(in_tiles) == 3 + 2 * (DIALECT == "cuda")
    numpy = {"f64": np.float64, "f32": np.float32, "i32": np.int32}[dtype]
    for is_processor in (True, False):
        with mock.patch.object(device(), "is_processor", is_processor):
            for size in SIZES:
                agree(text, segment, inputs(*size, numpy, across=across), sizes(*size))


def test_every_form_gives_the_same_bits() -> None:
    on = device()
    with mock.patch.object(on, "is_processor", False):
        _compare_forms(on)


def _compare_forms(on: Any) -> None:
    text = contraction()
    every = forms(text)
    for size in SIZES:
        arguments, found, launched = inputs(*size), {}, {}
        for name, segment in every.items():
            before = on.statistics.launches
            found[name] = agree(text, segment, arguments, sizes(*size)).tobytes()
            launched[name] = on.statistics.launches - before
        assert set(found.values()) == {found["items"]}
        assert {launched[name] for name in ("large", "middle", "fine", "items")} == {1}
        assert launched["parts"] == 1 + (size[2] > 2 * BLOCK)


@pytest.mark.parametrize("dtype", FLOATS)
def test_full_tiles_and_their_neighbours_give_the_bits_of_items(dtype: str) -> None:
    on, text = device(), contraction(dtype)
    size = (140, 131, 2 * BLOCK + 41)
    arguments = inputs(*size, np.float32 if dtype == "f32" else np.float64)
    found = set()
    with mock.patch.object(on, "is_processor", False):
        for name in ("large", "items"):
            with mock.patch.multiple(gpu_products, **EVERY_FORM[name]):
                segment = compiled(parse(text))
            found.add(agree(text, segment, arguments, sizes(*size)).tobytes())
    assert len(found) == 1


FROM_MEMORY = [
    ("large", "f32", "f32", False), ("large", "f64", "f64", True), ("large", "f32", "f64", False),
    ("middle", "i32", "i32", True), ("middle", "f64", "f64", False),
]
MORE_FROM_MEMORY = [
    ("large", "f32", "f64", True), ("middle", "f32", "f32", False), ("middle", "f64", "f64", True)
]


@pytest.mark.parametrize(
    ("form", "dtype", "sums", "across"),
    some_slow(FROM_MEMORY + MORE_FROM_MEMORY, MORE_FROM_MEMORY, several=True),
)
def test_vectors_from_memory(
    form: str, dtype: str, sums: str, across: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every shape, whose items fetch as much as a slice has, by vectors that are no longer."""
    text = contraction(sums, across=across, neutral="0" if sums == "i32" else "-0.0")
    if dtype != sums:
        text = text.replace("a: f64", "a: f32").replace("b: f64", "b: f32")
        text = text.replace("p: f64", "p: f32").replace("q: f64", "q: f32")
        text = text.replace("let r: f64 = multiply(p, q)",
            "let t: f32 = multiply(p, q)\n      let r: f64 = f64(t)")  # fmt: skip
    numpy, result_type = (
        np.dtype(name.replace("f", "float").replace("i", "int")) for name in (dtype, sums)
    )
    every = {}
    for name in (form, "items"):
        with mock.patch.multiple(gpu_products, **EVERY_FORM[name]):
            every[name] = compile_segment(parse(text), {}, "", "cuda")
    assert any(", by vectors" in label for label in every[form].kernels)
    launch = pretended_cuda.launch
    with pretended_cuda.only_gpu(monkeypatch, tmp_path) as on:
        for size, vectors in (((132, 140, 2 * BLOCK + 44), True), ((130, 67, 301), False)):
            a, b, y = inputs(*size, numpy, across=across)
            arguments, found = [a, b, y.astype(result_type)], {}
            for name, segment in every.items():
                with mock.patch.object(pretended_cuda.core, "launch", wraps=launch) as launches:
                    (result,) = run(on, parse(text), segment, arguments, sizes(*size))
                assert [call.args[2].name for call in launches.call_args_list] == [
                    "product1" if name == form and not vectors else "product0"
                ]
                found[name] = result.tobytes()
            assert len(set(found.values())) == 1
            (expected,) = interpret(parse(text), arguments, sizes(*size))
            np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-3)


def test_bits_do_not_depend_on_the_part_that_is_computed() -> None:
    on = device()
    text = contraction()
    segment = compiled(parse(text))
    a, b, y = inputs(81, 77, 2 * BLOCK + 3)
    (whole,) = run(on, parse(text), segment, [a, b, y], sizes(81, 77, 2 * BLOCK + 3))
    for rows, columns in ((slice(3, 4), slice(0, 77)), (slice(10, 61), slice(40, 49))):
        part = [np.ascontiguousarray(x) for x in (a[rows], b[:, columns], y[rows, columns])]
        size = sizes(*part[2].shape, 2 * BLOCK + 3)
        (one,) = run(on, parse(text), segment, part, size)
        assert one.tobytes() == whole[rows, columns].tobytes()


@pytest.mark.parametrize(
    ("first", "comparison"), [("i + 1", "greater"), ("3", "less")]
)
def test_triangles(first: str, comparison: str) -> None:
    device()
    text = TRIANGLE.replace("FIRST", first).replace("COMPARISON", comparison)
    for segment in forms(text).values():
        for size in ((1, 1, 1), (67, 31, 30), (3, 40, 3 * BLOCK)):
            agree(text, segment, inputs(*size, across=True), sizes(*size))


def test_rows_that_no_element_wants_are_not_read() -> None:
    device()
    text = TRIANGLE.replace("FIRST", "i").replace("COMPARISON", "greater")
    text = text.replace("b: f64[m, l]", "b: f64[o, l]").replace("sizes n, m", "sizes n, m, o")
    random = np.random.default_rng(3).random
    arguments = [random((40, 9)), random((39, 9)), random((40, 40))]
    agree(text, compiled(parse(text)), arguments, {"n": 40, "m": 40, "o": 39, "l": 9})


@pytest.mark.parametrize(("rows", "in_tiles"), [(40, True), (41, True), (39, False)])
def test_rows_that_may_be_missing(
    rows: int, in_tiles: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launch finds out whether an item could fail, which others of its tile would wait for."""
    text = TRIANGLE.replace("FIRST", "i").replace("COMPARISON", "greater")
    text = text.replace("b: f64[m, l]", "b: f64[o, l]").replace("sizes n, m", "sizes n, m, o")
    with mock.patch.multiple(gpu_products, **EVERY_FORM["large"]):
        segment = compile_segment(parse(text), {}, "", "cuda")
    random, values = np.random.default_rng(3).random, {"n": 40, "m": 40, "o": rows, "l": 9}
    arguments = [random((40, 9)), random((rows, 9)), random((40, 40))]
    launch = pretended_cuda.launch
    with (
        pretended_cuda.only_gpu(monkeypatch, tmp_path) as on,
        mock.patch.object(pretended_cuda.core, "launch", wraps=launch) as launches,
    ):
        (found,) = run(on, parse(text), segment, arguments, values)
    (launched,) = launches.call_args_list
    shared = "__shared__" in apart(segment.source)[launched.args[2].name]
    assert shared == in_tiles
    (expected,) = interpret(parse(text), arguments, values)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_memory_of_tiles_that_may_not_be_launched() -> None:
    """Folds of blocks have theirs once, and none where no tile is launched."""
    text = TRIANGLE.replace("FIRST", "i").replace("COMPARISON", "greater")
    values = {"n": 40, "m": 40, "l": 40 * BLOCK, "threads": 256}
    surely = compile_segment(parse(text), {}, "", "cuda")
    text = text.replace("b: f64[m, l]", "b: f64[o, l]").replace("sizes n, m", "sizes n, m, o")
    maybe = compile_segment(parse(text), {}, "", "cuda")
    expected, found, none = (
        segment.workspace.evaluate(derive({**values, "o": rows}, segment.derived))
        for segment, rows in ((surely, 40), (maybe, 40), (maybe, 39))
    )
    assert expected == found > 40 * 40 * 40 * 8 > none


@pytest.mark.parametrize(
    ("operator", "neutral", "joint"),
    [("minimum", "+inf_f64", "add(p, q)"), ("add", "-0.0", "divide(p, q)")],
)
def test_other_elements_and_operators(operator: str, neutral: str, joint: str) -> None:
    device()
    text = contraction(operator=operator, neutral=neutral, joint=joint)
    for size in SIZES[1:4]:
        agree(text, compiled(parse(text)), inputs(*size), sizes(*size))


def test_batches_and_transposed_operands() -> None:
    device()
    text = contraction().replace("[n, l]", "[l, h, n]").replace("[l, m]", "[h, l, m]")
    text = text.replace("[n, m]", "[h, n, m]").replace("(i < n", "(g < h, i < n")
    text = text.replace("a[i, k]", "a[k, g, i]").replace("b[k, j]", "b[g, k, j]")
    text = text.replace("y[i, j]", "y[g, i, j]").replace("sizes n", "sizes h, n")
    random = np.random.default_rng(4).random
    for segment in forms(text).values():
        arguments = [random(s) for s in ((270, 3, 33), (3, 270, 29), (3, 33, 29))]
        agree(text, segment, arguments, {"h": 3, "n": 33, "m": 29, "l": 270})


def test_a_read_that_data_decides_is_left_to_items() -> None:
    device()
    text = contraction().replace("a: f64", "at: i64[n], a: f64").replace(
        "let p: f64 = a[i, k]", "let o: i64 = at[i]\n      let p: f64 = a[o, k]"
    )  # fmt: skip
    segment = compiled(parse(text))
    assert "barrier" not in segment.source
    assert "lanes" not in segment.source
    at = np.random.default_rng(4).integers(0, 9, 9)
    agree(text, segment, [at, *inputs(9, 20, 300)], sizes(9, 20, 300))


def test_kernels_as_opencl(golden: Any) -> None:
    with mock.patch.object(lane_tiles, "registers", return_value=Registers(32, 64)):
        segment = compile_segment(parse(contraction("f32", neutral="-0.0")), {}, "", "opencl")
    golden(segment.source)


@pytest.mark.parametrize("dtype", some_slow(["f32", "f64", "i64"], ["f64", "i64"]))
def test_kernels_as_cuda(dtype: str) -> None:
    neutral = "-0.0" if dtype in FLOATS else "0"
    for text in (contraction(dtype, neutral=neutral), TRIANGLE.replace("FIRST", "i").replace(
        "COMPARISON", "less"
    )):  # fmt: skip
        segment = compile_segment(parse(text), {}, "", "cuda")
        assert "__shared__" in segment.source
        # Two groups have registers at once, since sums of blocks do not.
        assert re.search(r"__launch_bounds__\((128|256), 2\)", segment.source)
        assert "volatile" in segment.source
        assert compile_text(segment.source).startswith(b"\x7fELF")


@pytest.mark.parametrize(("dtype", "step"), [("f32", 16), ("f64", 8)])
def test_what_is_written_out_of_large_tiles(dtype: str, step: int) -> None:
    """Whole slices, as most are, by all their indices; those at ends by few; results by rows.

    A compiler takes as long for a slice at an end as for a whole one, and for each result.
    """
    text = contraction(dtype, neutral="-0.0")
    kernel = apart(compile_segment(parse(text), {}, "", "cuda").source)["product0"]
    folded = re.findall(r"#pragma unroll (\d+)\n +for \(long long k\d+", kernel)
    assert sorted(map(int, folded)) == [2, step]
    *_, results = re.findall(r"#pragma unroll (\d+)\n +for \(long long r\d+", kernel)
    assert results == "1"
