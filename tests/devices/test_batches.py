"""Kernels whose items do several elements at once: the bits of an item for each element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from agreement.ways import assert_equal_bits
from devices.harness import compiled, device, dialect_of, launched, opencl_device
from devices.test_vectors import inputs
from printers.nvrtc import compile_text, ptx_of
from slow import some_slow

import weft as wf
from weft.compiler import compile_segment
from weft.errors import OutOfBoundsError
from weft.fun import nodes as fun
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.lower import masks
from weft.lower.gpu import batches
from weft.lower.registers import Registers

RULES = {
    "edge": "edge(0, EXTENT)", "wrap": "wrap(0, EXTENT)", "symmetric": "symmetric(0, EXTENT)",
    "reflect": "reflect(0, EXTENT)", "constant": "constant(0, EXTENT, 2.0_f32)",
}  # fmt: skip
ROW = """program row(x: f32[m]) sizes m {
  let z: f32[m] = kernel (j < m) {
    let a: f32 = x[j - 1 : RULE]
    let b: f32 = x[j]
    let c: f32 = x[j + 1 : RULE]
    let d: f32 = add(a, b)
    let e: f32 = multiply(d, c)
    in e
  }
  in z
}"""
ROWS = """program rows(x: DT[n, m]) sizes n, m {
  let z: DT[n, m] = kernel (i < n, j < m) {
    let a: DT = x[i - 1 : ROW, j]
    let b: DT = x[i, j - 1 : COLUMN]
    let c: DT = x[i, j]
    let d: DT = x[i, j + 1 : COLUMN]
    let e: DT = x[i + 2 : ROW, j]
    let f: DT = add(a, b)
    let g: DT = multiply(c, f)
    let h: DT = subtract(g, d)
    let k: DT = add(h, e)
    in k
  }
  in z
}"""


def row(rule: str) -> fun.Program:
    return parse(ROW.replace("RULE", RULES[rule].replace("EXTENT", "m")))


def rows(along: str, across: str, dtype: str = "f32") -> fun.Program:
    text = ROWS.replace("ROW", RULES[across].replace("EXTENT", "n"))
    return parse(text.replace("COLUMN", RULES[along].replace("EXTENT", "m")).replace("DT", dtype))


def whole(body: str, type_: str = "f32", extents: str = "n, m") -> fun.Program:
    """A kernel of two dimensions over what it reads of x."""
    return parse(f"""program whole(x: f32[{extents}]) sizes n, m {{
      let z: {type_}[n, m] = kernel (i < n, j < m) {{ {body} }}
      in z
    }}""")


SUITED = {
    **{f"a row, {rule}": row(rule) for rule in RULES},
    **{f"rows, {rule}": rows("edge", rule) for rule in RULES},
    "rows, wrapped around": rows("wrap", "constant"),
    "doubles": rows("edge", "wrap", "f64"),
    "columns": whole("let a: f32 = x[j, i] let b: f32 = add(a, 1.0_f32) in b", "f32", "m, n"),
    "backwards": whole("let a: f32 = x[n - 1 - i, m - 1 - j] in a"),
    "indices": whole(
        "let a: f32 = x[i, j] let b: bool = less(i, j) let c: i64 = multiply(i, j) "
        "let d: f32 = f32(c) let e: f32 = where(b, a, d) in e"
    ),
    "an index alone": whole("in i", "i64"),
    "a branch": whole(
        "let c: bool = less(i, 3) let a: f32 = if c { let b: f32 = x[i, j] in b } "
        "else { let b: f32 = x[i - 1 : edge(0, n), j] in b } in a"
    ),
    "a short sum": whole(
        "let s: f32 = reduce (; k < 3) from 0.0_f32 {"
        "let a: f32 = x[i + k - 1 : edge(0, n), j] in a } "
        "with (p: f32, q: f32) { let r: f32 = add(p, q) in r } in s"
    ),
}  # fmt: skip
UNSUITED = {
    "a long sum": whole(
        "let s: f32 = reduce (; k < n) from 0.0_f32 { let a: f32 = x[k, j] in a } "
        "with (p: f32, q: f32) { let r: f32 = add(p, q) in r } in s"
    ),
    "many reads": parse(
        "program many(x: f64[n]) sizes n { let z: f64[n] = kernel (i < n) {"
        + "".join(f"let a{k}: f64 = x[{k}*i : edge(0, n)] " for k in range(13))
        + "in a12 } in z }"
    ),
    "what takes longer than reads": whole(
        "let a: f32 = x[i, j]"
        + "".join(f" let c{k}: f32 = sin({f'c{k - 1}' if k else 'a'})" for k in range(9)) + " in c8"
    ),
}  # fmt: skip


def made(program: fun.Program, dialect: str = "opencl") -> Any:
    """A segment whose batches are worth it however few."""
    with mock.patch.multiple(batches, _BUSY=1, _LONG=1):
        return compile_segment(program, {}, "", dialect)


@pytest.mark.parametrize("name", some_slow(
    SUITED, [f"rows, {rule}" for rule in ("wrap", "symmetric", "reflect")]
))  # fmt: skip
def test_batches_and_items_give_the_same_bits(name: str) -> None:
    on, program = device(), SUITED[name]
    segment, by_items = made(program, dialect_of(on.name)), compiled(program)
    for n, m in ((0, 5), (1, 1), (3, 5), (8, 7), (9, 33), (17, 64), (1, 2048), (2, 2051), (53, 1)):
        arguments, sizes = inputs(program, n, m), {"n": n, "m": m}
        sizes = {size: sizes[size] for size in program.sizes}
        with mock.patch.object(on, "is_processor", False):
            kinds, found = launched(on, program, segment, arguments, sizes)
            _, expected = launched(on, program, by_items, arguments, sizes)
        assert_equal_bits(found, expected)
        assert_equal_bits(found, interpret(program, arguments, sizes))
        if all(sizes.values()):
            assert kinds == {"batches"}


def test_segments_of_one_text_share_a_program() -> None:
    """They differ in what is launched, from when on."""
    on = opencl_device()
    segment, by_items = made(SUITED["a row, edge"]), compiled(SUITED["a row, edge"])
    assert segment != by_items
    assert segment.source == by_items.source
    with mock.patch.object(on, "_build", wraps=on._build) as build:
        found = [on.load(each) for each in (segment, by_items, segment)]
    assert build.call_count <= 1
    assert len({id(loaded.program) for loaded in found}) == 1
    assert [loaded.segment for loaded in found] == [segment, by_items, segment]


@pytest.mark.parametrize("name", list(UNSUITED))
def test_what_waits_for_more_than_reads_is_left_to_items(name: str) -> None:
    assert "batches" not in made(UNSUITED[name]).source


def test_few_elements_are_left_to_items() -> None:
    """Also where rows are few, of which many would be left over, or no longer than a warp."""
    segment = compile_segment(SUITED["rows, edge"], {}, "", "cuda")
    launch = next(step for step in segment.steps if step.kernel.startswith("batches"))
    for n, m, items in (
        (1 << 10, 1 << 8, 0), (1 << 10, 1 << 9, 1 << 16), (1 << 20, 31, 0), (31, 1 << 20, 0),
        (33, 1 << 20, 5 << 20), (1 << 20, 32, 1 << 22),
    ):  # fmt: skip
        known = {"n": n, "m": m}
        for derived in segment.derived:
            known[derived.name] = derived.evaluate(known)
        assert launch.items.evaluate(known) == items


def test_an_index_that_is_read_is_checked() -> None:
    """All indices are read before the first check: each is checked, and the wrong one is named."""
    on = device()
    table, index = np.arange(10, dtype=np.float32), np.arange(3000) % 10
    gather = wf.jit(lambda t, i: wf.take(t, i))
    with (
        mock.patch.multiple(batches, _BUSY=1, _LONG=1),
        mock.patch.object(on, "is_processor", False),
        wf.config(devices=[on.name]),
    ):
        assert "batches" in gather.lower(table, index).source(dialect_of(on.name))
        np.testing.assert_array_equal(gather(table, index), table[index])
        for at in (0, 300, 2047, 2048, 2999):
            wrong = index.copy()
            wrong[at] = 11
            with pytest.raises(OutOfBoundsError, match="index 11 is outside"):
                gather(table, wrong)


def test_rounds_of_a_loop_read_and_write_one_block() -> None:
    on = device()

    def program(x: Any) -> Any:
        return wf.fori_loop(
            0, 7, lambda k, y: wf.stencil(lambda s: s[-1, 0] + s[0, 1] * 2, y, boundary="edge"), x
        )

    x = np.random.default_rng(1).random((37, 41), np.float32)
    with wf.config(devices=[on.name]):
        expected = wf.jit(program)(x)
        with (
            mock.patch.multiple(batches, _BUSY=1, _LONG=1),
            mock.patch.object(on, "is_processor", False),
        ):
            found = wf.jit(lambda x: program(x))(x)
    assert_equal_bits([found], [expected])


ROUNDS = """program rounds(x: f32[SHAPE]) sizes NAMES {
  let z: f32[SHAPE] = loop (y: f32[SHAPE] = x) for k from 0 to n - 2 {
    let u: f32[EXTENTS] = kernel (RANGES) { let a: f32 = y[AT] let b: f32 = add(a, 1.5_f32) in b }
    let w: f32[SHAPE] = update y[SLICES] = u
    in w
  }
  in z
}"""


@pytest.mark.parametrize("shape", ["n", "n, m", "n, m, 3"])
@pytest.mark.parametrize("growing", [True, False])
def test_rounds_of_a_loop_have_extents_of_their_own(shape: str, growing: bool) -> None:
    """As boxes that lean have: items are launched for the longest round."""
    on, extent = device(), "k + 1" if growing else "n - k"
    rest = shape[1:]
    second = {"": "", ", m": ", j < m", ", m, 3": ", j < m, l < 3"}[rest]
    others = {"": "", ", m": ", j", ", m, 3": ", j, l"}[rest]
    words = {
        "SHAPE": shape, "NAMES": shape.removesuffix(", 3"), "EXTENTS": extent + rest,
        "RANGES": f"i < {extent}{second}",
        "AT": ("i + 1" if growing else "i") + others,
        "SLICES": ", ".join(f"0 for {size}" for size in (extent, *rest[2:].split(", ")) if size),
    }  # fmt: skip
    text = ROUNDS
    for word, by in words.items():
        text = text.replace(word, by)
    program = parse(text)
    segment = made(program, dialect_of(on.name))
    for n, m in ((2, 3), (3, 1), (17, 9), (300, 3), (2100, 2)):
        arguments, sizes = inputs(program, n, m), {"n": n, "m": m}
        sizes = {size: sizes[size] for size in program.sizes}
        with mock.patch.object(on, "is_processor", False):
            kinds, found = launched(on, program, segment, arguments, sizes)
        assert kinds == {"batches"}
        assert_equal_bits(found, interpret(program, arguments, sizes))


def test_a_gpu_has_all_reads_under_way_before_it_writes() -> None:
    """Rows share what they read: of 8 rows of two neighbours each, 11 and twice 8 elements."""
    text = made(SUITED["rows, edge"], "cuda").source
    assert compile_text(text)
    assembly = ptx_of(text)
    assert ".local" not in assembly
    runs = [len(run.split("ld.global")) - 1 for run in assembly.split("st.global")]
    assert 27 in runs


@pytest.mark.parametrize("dialect", ["cuda", "opencl"])
def test_golden(
    golden: Callable[[str], None], dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # PoCL's kernels end rows with masks where this machine's processor has them.
    monkeypatch.setattr(masks, "registers", lambda: Registers(32, 64))
    golden(made(SUITED["a row, edge"], dialect).source)
