"""Single elements of kernels inside of kernels are scalars until they are stored."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from passes.programs import agree, before_after

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.check import check
from weft.fun.parse import parse
from weft.passes.store_scalars import store_scalars

ROWS = """program p(a: f64[n, m, 1]) sizes n, m {
  let r: f64[n, m, 1] = kernel (i < n) {
    let x: f64[m, 1] = slice a[i, 0 for m, 0 for 1]
    let z: f64[m, 1] = loop (v: f64[m, 1] = x) for k from 1 to m {
      let t: f64[1] = kernel (j < 1) {
        let b: f64 = v[k, j]
        let c: f64 = v[k - 1, j]
        let d: f64 = add(b, c)
        in d
      }
      let y: f64[m, 1] = update v[k, 0 for 1] = t
      in y
    }
    in z
  }
  in r
}"""
READ = ROWS.replace(
    "let y: f64[m, 1] = update v[k, 0 for 1] = t",
    "let e: f64 = t[0] let f: f64 = sqrt(e) let y: f64[m, 1] = update v[k, 0 for 1] = f",
)

STAYS = {
    "outside_of_kernels": """program p(a: f64[m, 1]) sizes m {
      let z: f64[m, 1] = loop (v: f64[m, 1] = a) for k from 1 to m {
        let t: f64[1] = kernel (j < 1) { let b: f64 = v[k - 1, j] in b }
        let y: f64[m, 1] = update v[k, 0 for 1] = t
        in y
      }
      in z
    }""",
    "several_elements": ROWS.replace("f64[1]", "f64[2]").replace("j < 1", "j < 2")
    .replace("for 1]", "for 2]").replace(", 1]", ", 2]").replace("v[k, 2]", "v[k, 1]"),
    "used_as_an_array": ROWS.replace(
        "let y:", "let w: f64[1] = copy t let y:"
    ).replace("= t\n", "= w\n"),
    "read_by_a_boundary_rule": READ.replace("t[0]", "t[k - 1 : constant (0, 1, 0.5)]"),
    "more_than_scalars": ROWS.replace(
        "let d: f64 = add(b, c)",
        "let d: f64 = reduce (; q < k) from 0.0 { let g: f64 = v[q, 0] in g }"
        " with (l: f64, h: f64) { let s: f64 = add(l, h) in s }",
    ),
}  # fmt: skip


def singles(program: fun.Program) -> int:
    """The kernels of a row's loop."""
    return sum(isinstance(let.expr, fun.Kernel) for let in walk.statements(program.body))


def inputs(program: fun.Program) -> list[np.ndarray]:
    shape = program.params[0].type.shape
    return [np.arange(1.0, 1 + 5 ** (len(shape) - 1) * last).reshape(*[5] * (len(shape) - 1), last)
            for last in [shape[-1].constant]]  # fmt: skip


def test_it_is_stored_as_a_scalar(golden: Callable[[str], None]) -> None:
    golden(before_after(ROWS, store_scalars))


@pytest.mark.parametrize("text", [ROWS, READ])
def test_values(text: str) -> None:
    before = parse(text)
    after = store_scalars(before)
    check(after)
    assert (singles(before), singles(after)) == (2, 1)
    agree(before, after, inputs(before))


@pytest.mark.parametrize("name", STAYS)
def test_what_stays(name: str) -> None:
    program = parse(STAYS[name])
    check(program)
    after = store_scalars(program)
    assert singles(after) == singles(program)
    agree(program, after, inputs(program))


def test_a_read_outside_still_fails() -> None:
    """A scalar has no bounds that an index could exceed."""
    program = parse(READ.replace("t[0]", "t[k - 1]"))
    assert singles(store_scalars(program)) == singles(program)
