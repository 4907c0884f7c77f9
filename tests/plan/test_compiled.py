"""Stages as compiled code: the same values, and the same bits whatever the boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from plan.programs import CASES, SUM, Case, read
from plan.stages import ListedSource

from weft.fun.interpret import interpret
from weft.launch import have_compiler, stage_code
from weft.passes.split_reductions import always, split_reductions
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

