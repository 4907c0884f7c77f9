"""Shrinking: kernels over what is used of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from passes.programs import before_after

from weft.fun.check import check
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.fun.show import show
from weft.passes.shrink import shrink

A = np.arange(42.0).reshape(6, 7)
HEAD = "program test(a: f64[n, m], s: i64)\n sizes n, m\n{\n"
KERNEL = """let x: f64[n, m] = kernel (i < n, j < m) {
  let e: f64 = a[-i + n - 1, j]
  let c: f64 = f64(i)
  let f: f64 = add(e, c)
  in f
}
"""


def shrunk(body: str, result: str = "y") -> str:
    program = parse(f"{HEAD}{body} in {result}\n}}")
    after = shrink(program)
    check(after, "shrink")
    arguments: tuple[Any, ...] = (A, np.int64(2))
    for one, other in zip(interpret(program, arguments), interpret(after, arguments), strict=True):
        np.testing.assert_array_equal(one, other)
    return show(after)


@pytest.mark.parametrize(
    ("view", "space"),
    [
        ("y: f64[2, m] = slice x[1 for 2, 0 for m]", "kernel (i < 2, j < m)"),
        ("y: f64[3] = slice x[0 for 3 by 2, 4]", "kernel (i < 3)"),
        ("y: f64[2] = slice x[s, 5 for 2 by -1]", "kernel (j < 2)"),
        ("y: f64[2, 2] = slice x[5 for 2 by -3, 1 for 2]", "kernel (i < 2, j < 2)"),
    ],
)
def test_only_the_slice_is_computed(view: str, space: str) -> None:
    text = shrunk(f"{KERNEL}let {view}\n")
    assert space in text
    assert "slice" not in text


@pytest.mark.parametrize(
    ("rest", "result"),
    [
        ("let y: f64[2, m] = slice x[1 for 2, 0 for m]\nlet c2: f64 = x[0, 0]\n", "y, c2"),
        ("let y: f64[n, m] = slice x[n - 1 for n by -1, 0 for m]\n", "y"),
        (
            "let y: f64[m] = kernel (k < m) { let w: f64[2] = slice x[1 for 2, k]\n"
            " let g: f64 = w[1] in g }\n",
            "y",
        ),
    ],
    ids=["used elsewhere", "all of it", "in another body"],
)
def test_what_is_all_used_stays(rest: str, result: str) -> None:
    assert "kernel (i < n, j < m)" in shrunk(KERNEL + rest, result)


def test_rows_stay_whole() -> None:
    rows = (
        "let x: f64[n, m] = kernel (i < n) { let r: f64[m] = kernel (j < m) {"
        " let e: f64 = a[i, j] in e } in r }\n"
    )
    assert "kernel (i < 2)" in shrunk(rows + "let y: f64[2, m] = slice x[1 for 2, 0 for m]\n")
    assert "kernel (i < n)" in shrunk(rows + "let y: f64[2, 2] = slice x[1 for 2, 0 for 2]\n")


def test_golden(golden: Callable[[str], None]) -> None:
    view = "let y: f64[2, m] = slice x[1 for 2, 0 for m]\n"
    golden(before_after(f"{HEAD}{KERNEL}{view} in y\n}}", shrink))
