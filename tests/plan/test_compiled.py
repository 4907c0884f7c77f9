"""Stages as compiled code: the same values, and the same bits whatever the boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from plan.programs import CASES, SUM, Case, read
from plan.stages import ListedSource

from weft.fun.interpret import interpret
from weft.launch import have_compiler
from weft.launch.stage import stage_code
from weft.passes.split_reductions import always, split_reductions
from weft.plan.draft import SCAN_TILE
from weft.plan.planner import plan_program
from weft.runtime.executor import execute

pytestmark = pytest.mark.skipif(not have_compiler(), reason="no C compiler")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_compiled_stages_equal_the_interpreter(case: Case) -> None:
    program, arguments = case.program, case.arguments()
    inputs: dict[str, Any] = {
        name: ListedSource(value) if isinstance(value, np.ndarray) and number % 2 == 0 else value
        for number, (name, value) in enumerate(arguments.items())
    }
    plan = plan_program(
        program, case.sizes, inputs, [None] * len(program.body.results), 1 << 40, 2, stage_code,
        allowance=0, box_bytes=1 << 14, small=64,
    )  # fmt: skip
    expected = interpret(program, [arguments[p.name] for p in program.params], case.sizes)
    for result, value in zip(execute(plan), expected, strict=True):
        np.testing.assert_array_equal(result, value)


ROUNDED = f"""program rounded(x: f64[n, m], y: f64[k]) sizes n, m, k {{
  let r: f64[n] = reduce (i < n; j < m) from 0.0 {{ let a: f64 = x[i, j] in a }} {SUM}
  let s: f64[m] = reduce (j1 < m; i1 < n) from 0.0 {{ let a1: f64 = x[i1, j1] in a1 }} {SUM}
  let t: f64 = reduce (; i2 < n, j2 < m) from 0.0 {{ let a2: f64 = x[i2, j2] in a2 }} {SUM}
  let z: f64 = reduce (; i3 < k) from 0.0 {{ let a3: f64 = y[i3] in a3 }} {SUM}
  let c: f64[k] = scan (q < k) from 0.0 {{ let a4: f64 = y[q] in a4 }} {SUM}
  let d: f64[k] = scan exclusive (q1 < k) from 0.0 {{ let a5: f64 = y[q1] in a5 }} {SUM}
  in r, s, t, z, c, d }}"""


def test_bits_do_not_depend_on_boxes() -> None:
    program = split_reductions(read(ROUNDED), always)
    random = np.random.default_rng(5)
    n, m, k = 9000, 257, 5 * 65536 + 77
    x, y = random.standard_normal((n, m)), random.standard_normal(k)
    found = []
    for box_bytes in (1 << 40, 1 << 21, 1):
        plan = plan_program(
            program, {"n": n, "m": m, "k": k}, {"x": x, "y": y}, [None] * 6, 1 << 40, 2,
            stage_code, allowance=0, box_bytes=box_bytes, small=64,
        )  # fmt: skip
        found.append((max(stage.boxes.count for stage in plan.stages), execute(plan)))
    assert [boxes > 4 for boxes, _ in found] == [False, True, True]
    for _, results in found[1:]:
        for result, value in zip(results, found[0][1], strict=True):
            np.testing.assert_array_equal(result, value)
    np.testing.assert_allclose(found[0][1][4], np.cumsum(y), rtol=1e-9, atol=1e-9)


def test_accesses_of_tiles_are_proved_before_boxes_run() -> None:
    """The last tile may be shorter; no index is looked at in a loop, nor is one refused."""
    program = split_reductions(read(ROUNDED), always)
    made: list[Any] = []
    code = stage_code

    def kept(*arguments: Any) -> Any:
        made.append(code(*arguments))
        return made[-1]

    random = np.random.default_rng(6)
    for n, m, k in ((9000, 257, 5 * 65536 + 77), (70, 4096, 3000)):
        x, y = random.standard_normal((n, m)), random.standard_normal(k)
        plan = plan_program(
            program, {"n": n, "m": m, "k": k}, {"x": x, "y": y}, [None] * 6, 1 << 40, 2,
            kept, allowance=0, box_bytes=1 << 18, small=64,
        )  # fmt: skip
        np.testing.assert_allclose(execute(plan)[1], x.sum(axis=0), rtol=1e-9, atol=1e-9)
    assert all(not stage.segment.failures for stage in made)


PAIRS = """program pairs(a: f64[n, l], b: f64[m, l]) sizes n, m, l {
  let c: f64[n, m] = kernel (i < n, j < m) {
    let g: bool = less_equal(j, i)
    let e: f64 = if g {
      let s: f64 = reduce (; k < l) from -0.0 {
        let p: f64 = a[i, k]
        let q: f64 = b[j, k]
        let r: f64 = multiply(p, q)
        in r
      } with (u: f64, v: f64) { let w: f64 = add(u, v) in w }
      in s
    } else { in 1.0 }
    in e
  }
  in c }"""


@pytest.mark.parametrize("triangle", [False, True])
def test_bits_of_contractions_do_not_depend_on_boxes(triangle: bool) -> None:
    text = PAIRS if triangle else PAIRS.replace("less_equal(j, i)", "less_equal(0, i)")
    program, random = read(text), np.random.default_rng(7)
    n, m, inner = 301, 77, 600
    a, b = random.normal(size=(n, inner)), random.normal(size=(m, inner))
    found = []
    for box_bytes, threads in ((1 << 40, 1), (1 << 18, 2), (1 << 13, 3), (1, 1)):
        inputs = {"a": ListedSource(a), "b": b}
        plan = plan_program(
            program, {"n": n, "m": m, "l": inner}, inputs, [None], 1 << 40, threads, stage_code,
            allowance=0, box_bytes=box_bytes, small=0,
        )  # fmt: skip
        found.append((plan.stages[0].boxes.count, execute(plan)[0]))
    assert found[0][0] == 1 < found[1][0] < found[2][0]
    wanted = np.arange(m) <= np.arange(n)[:, None]
    expected = np.where(wanted, a @ b.T, 1.0) if triangle else a @ b.T
    np.testing.assert_allclose(found[0][1], expected, rtol=1e-9, atol=1e-9)
    for _, result in found[1:]:
        assert result.tobytes() == found[0][1].tobytes()


TOGETHER = """program together(x: f64[n]) sizes n {
  let s: f64[n], g: f64[n] = scan (i < n) from 0.0, LEAST { let a: f64 = x[i] in a, a } with (
    p: f64, q: f64, u: f64, v: f64
  ) {
    let t: f64 = add(p, u)
    let w: f64 = OPERATION(q, v)
    in t, w
  }
  in s, g }"""


@pytest.mark.parametrize(("operation", "least", "sign"), [
    ("maximum", "-inf", -1), ("minimum", "+inf", 1), ("fmax", "-inf", -1), ("multiply", "1.0", 1),
])  # fmt: skip
def test_a_box_begins_with_all_that_the_ones_before_come_to(
    operation: str, least: str, sign: int
) -> None:
    """Of components that are combined in different ways: nothing is neutral for all of them."""
    program = read(TOGETHER.replace("OPERATION", operation).replace("LEAST", least))
    x = sign * (1 + 1e-6 * np.abs(np.random.default_rng(3).normal(size=5 * SCAN_TILE + 7)))
    found = []
    for box_bytes in (1 << 40, 1 << 20):
        plan = plan_program(
            program, {"n": x.size}, {"x": x}, [None, None], 1 << 40, 2, stage_code,
            allowance=0, box_bytes=box_bytes, small=0,
        )  # fmt: skip
        found.append((plan.stages[0].boxes.count, execute(plan)))
    assert found[0][0] == 1 < found[1][0]
    for whole, boxes in zip(found[0][1], found[1][1], strict=True):
        assert whole.tobytes() == boxes.tobytes()
