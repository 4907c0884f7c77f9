"""Long scans on a device: exact ones in one pass, others in their fixed tree."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from agreement.ways import assert_equal_bits
from devices.harness import AS_PROCESSOR, COMPOSED, compiled, device, launched, run
from printers.nvrtc import compile_text

import weft as wf
from weft.compiler import compile_segment
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower.gpu import lookback
from weft.lower.scans import SHORT, STREAMS, TILE
from weft.plan.launches import Launch

TEXT = """program scanned(x: DT[n], s: DT) sizes n {
  let y: DT[n] = FORM (i < n) from s {
    let v: DT = x[i]
    in v
  } with (l: DT, r: DT) { let t: DT = OP(l, r) in t }
  in y
}"""
RECURRENCE = f"""program recurrence(a: DT[n], b: DT[n]) sizes n {{
  let y: DT[n], z: DT[n] = scan (i < n) from 1_DT, 0_DT {{
    let u: DT = a[i]
    let v: DT = b[i]
    in u, v
  }} {COMPOSED}
  in y, z
}}"""
SIZES = [0, 1, 7, 8, 9, 257, 2047, 2048, 2049, 4099, 65537]
EXACT = [("add", "i64"), ("add", "u8"), ("maximum", "f64"), ("minimum", "i16"),
         ("multiply", "u32"), ("bitwise_xor", "i32"), ("logical_and", "bool")]  # fmt: skip


def text_of(operation: str, dtype: str, form: str = "scan") -> str:
    return TEXT.replace("DT", dtype).replace("OP", operation).replace("FORM", form)


def text_of_recurrence(dtype: str) -> str:
    return RECURRENCE.replace("DT", dtype)


def kernels_of(segment: Any) -> list[str]:
    return [step.kernel[:5] for step in segment.steps if isinstance(step, Launch)]


@pytest.mark.parametrize(("operation", "dtype"), [EXACT[k] for k in (0, 2, 6)])
def test_exact_scans_take_one_pass(operation: str, dtype: str) -> None:
    on = device()
    form = "scan exclusive" if dtype in ("u32", "f64") else "scan"
    program = parse(text_of(operation, dtype, form))
    segment = compiled(program)
    assert "clear" in kernels_of(segment)
    assert "total" not in kernels_of(segment)
    assert any(kernel.endswith("in one pass") for kernel in segment.kernels)
    kind = program.params[0].type.dtype.numpy
    random = np.random.default_rng(7)
    for n in SIZES:
        x = random.integers(0, 2 if dtype == "bool" else 100, n).astype(kind)
        if dtype == "f64" and n > 8:
            x[n // 2], x[n // 3] = np.nan, -0.0
        arguments = [x, np.asarray(1, kind)]
        (expected,) = interpret(program, arguments, {"n": n})
        for is_processor in AS_PROCESSOR:
            with mock.patch.object(on, "is_processor", is_processor):
                (found,) = run(on, program, segment, arguments, {"n": n})
            np.testing.assert_array_equal(found, expected)


def test_an_operator_that_does_not_commute() -> None:
    """Affine maps of int64, composed: the order of elements shows, their grouping does not."""
    on = device()
    program = parse(text_of_recurrence("i64"))
    segment = compiled(program)
    assert "clear" in kernels_of(segment)
    random = np.random.default_rng(8)
    for n in (5, 2049, 20011):
        arguments = [random.integers(-3, 4, n) * 2 + 1, random.integers(-9, 9, n)]
        results = interpret(program, arguments, {"n": n})
        for is_processor in AS_PROCESSOR:
            with mock.patch.object(on, "is_processor", is_processor):
                found = run(on, program, segment, arguments, {"n": n})
            for expected, values in zip(results, found, strict=True):
                np.testing.assert_array_equal(values, expected)


def test_groups_look_back_as_far_as_they_have_to() -> None:
    """Tiles of which few publish prefixes, so that several windows are looked through."""
    on = device()
    publish = lookback._Tile.publish

    def seldom(self: Any, number: Any, state: Any, kind: Any, *rest: Any) -> None:
        if kind == lookback._PREFIX:
            turn = machine("%", number, imp.integer(150))
            with self.k.branch(machine("==", turn, imp.ZERO)):
                publish(self, number, state, kind, *rest)
        else:
            publish(self, number, state, kind, *rest)

    program = parse(text_of_recurrence("i64"))
    with mock.patch.object(lookback._LargeTile, "publish", seldom):
        segment = compiled(program)
    n = 170 * 2048 + 77
    random = np.random.default_rng(13)
    arguments = [random.integers(-3, 4, n) * 2 + 1, random.integers(-9, 9, n)]
    (y, z) = interpret(program, arguments, {"n": n})
    with mock.patch.object(on, "is_processor", False):
        found = run(on, program, segment, arguments, {"n": n})
    np.testing.assert_array_equal(found[0], y)
    np.testing.assert_array_equal(found[1], z)


@pytest.mark.parametrize("is_processor", AS_PROCESSOR)
def test_many_groups_do_not_hang(is_processor: bool) -> None:
    """Thousands of groups, each of which waits for those before, on a few threads."""
    on = device()
    running = wf.jit(lambda x: wf.cumulative_sum(x))
    x = np.random.default_rng(9).integers(-(2**40), 2**40, (1 << 22) + 5)
    expected = np.cumsum(x)
    with wf.config(devices=[on.name]), mock.patch.object(on, "is_processor", is_processor):
        for _ in range(2):
            np.testing.assert_array_equal(running(x), expected)


@pytest.mark.parametrize("form", ["scan", "scan exclusive"])
@pytest.mark.parametrize(("operation", "dtype"), [("add", "f32"), ("multiply", "f64")])
@pytest.mark.parametrize("is_processor", AS_PROCESSOR)
def test_what_depends_on_the_tree_keeps_it(
    operation: str, dtype: str, form: str, is_processor: bool
) -> None:
    """Every form gives the bits of the tree, which is written in NumPy here."""
    on = device()
    program = parse(text_of(operation, dtype, form))
    segment = compiled(program)
    combine = {"add": np.add, "multiply": np.multiply}[operation]
    random = np.random.default_rng(10)
    for n in (0, 1, 255, 257, 4095, 4096, 4097, 65_535, 65_536, 65_537, 200_003):
        x = random.uniform(0.9, 1.1, n).astype(program.params[0].type.dtype.numpy)
        arguments, sizes = [x, x.dtype.type(1.5)], {"n": n}
        with mock.patch.object(on, "is_processor", is_processor):
            kinds, (found,) = launched(on, program, segment, arguments, sizes)
        if n:
            assert kinds == (
                {"totals", "task", "scan"} if is_processor else {"totals", "carries", "streams"}
            )
        assert_equal_bits([found], [in_streams(combine, x, arguments[1], "exclusive" in form)])


def in_streams(combine: np.ufunc, x: Any, initial: Any, exclusive: bool) -> Any:
    """A scan in the tree of devices: streams begin with a left fold of the totals before them."""
    results, carry = np.empty_like(x), initial
    for start in range(0, len(x), TILE):
        size = min(TILE, len(x) - start)
        length = (-(-size // STREAMS) + 15) & -32 | 16 if size >= SHORT else size
        for begin in range(start, start + size, length):
            stream = x[begin : min(begin + length, start + size)]
            chain = combine.accumulate(np.append(carry, stream))
            results[begin : begin + len(stream)] = chain[:-1] if exclusive else chain[1:]
            folds = [
                combine.accumulate(stream[at : at + 32])[-1] for at in range(0, len(stream), 32)
            ]
            carry = combine(carry, tree(combine, folds))
    return results


def tree(combine: np.ufunc, values: list[Any]) -> Any:
    """Neighbours combined level by level, which is what a binary counter makes of them."""
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        rest = values[-1:] if len(values) % 2 else []
        values = [combine(left, right) for left, right in pairs] + rest
    return values[0]


@pytest.mark.parametrize("is_processor", AS_PROCESSOR)
def test_boxes_have_the_bits_of_one_run(is_processor: bool) -> None:
    """Boxes of whole tiles fold the same totals (`weft.plan.carry`), however those are found."""
    on = device()
    running = wf.jit(lambda x: wf.cumulative_sum(x))
    x = np.random.default_rng(12).random(5 * TILE + 17, np.float32)
    with mock.patch.object(on, "is_processor", is_processor):
        with wf.config(devices=[on.name]):
            whole = np.asarray(running(x))
        with wf.config(devices=[on.name], memory_limit={on.name: "1 MiB"}):
            assert "6 boxes of 65536" in str(wf.explain(running, x))
            in_boxes = np.asarray(running(x))
    assert_equal_bits([in_boxes], [whole])
    assert_equal_bits([whole], [in_streams(np.add, x, np.float32(0), False)])


def test_long_scans_of_several_components() -> None:
    """Affine maps, composed: the order of elements shows, and neither is alone."""
    on = device()
    program = parse(text_of_recurrence("f64"))
    segment = compiled(program)
    random = np.random.default_rng(11)
    for n in (5, 70_001):
        arguments = [random.uniform(-0.9, 0.9, n), random.normal(size=n)]
        for is_processor in AS_PROCESSOR:
            with mock.patch.object(on, "is_processor", is_processor):
                found = run(on, program, segment, arguments, {"n": n})
            y = np.multiply.accumulate(arguments[0])
            np.testing.assert_allclose(found[0], y, rtol=1e-9, atol=1e-300)
            (_, expected) = interpret(program, arguments, {"n": n})
            np.testing.assert_allclose(found[1], expected, rtol=1e-9, atol=1e-12)


def test_kernels_as_opencl(golden: Any) -> None:
    golden(compile_segment(parse(text_of("add", "i32")), {}, "", "opencl").source)


@pytest.mark.parametrize(("operation", "dtype"), EXACT)
def test_kernels_as_cuda(operation: str, dtype: str) -> None:
    segment = compile_segment(parse(text_of(operation, dtype)), {}, "", "cuda")
    assert "__threadfence" in segment.source
    assert compile_text(segment.source).startswith(b"\x7fELF")
