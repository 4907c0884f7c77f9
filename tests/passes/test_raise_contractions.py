"""Sums of products of rows with columns become contractions, where sizes are in favour."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement.ways import assert_equal_bits, compiled, streamed
from passes.programs import agree, before_after

import weft as wf
from weft.compiler import choices
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.check import check
from weft.fun.contractions import contraction
from weft.fun.parse import parse
from weft.passes.raise_contractions import raise_contractions, raised
from weft.plan.decisions import decide, for_device

PRODUCT = """program p(a: f64[n, l], b: f64[l, m], y: f64[n, m]) sizes n, m, l {
  let s: f64[n, m] = reduce (i < n, j < m; k < l) from -0.0 {
    let p: f64 = a[i, k]
    let q: f64 = b[k, j]
    let r: f64 = multiply(p, q)
    in r
  } with (u: f64, v: f64) { let w: f64 = add(u, v) in w }
  let c: f64[n, m] = kernel (f < n, g < m) {
    let x: f64 = s[f, g]
    let z: f64 = y[f, g]
    let d: f64 = subtract(z, x)
    in d
  }
  in c
}"""
USED_TWICE = PRODUCT.replace("in c\n", "in c, s\n")
LOOP = "  let o: f64[n, m] = loop (h: f64[n, m] = y) for t from 0 to 2 {\n"
IN_A_LOOP = (
    PRODUCT.replace("  let s:", LOOP + "  let s:").replace("y[f, g]", "h[f, g]")
    .replace("in c\n", "in c\n  }\n  in o\n")
)  # fmt: skip

STAYS = {
    "of_one_side": PRODUCT.replace("multiply(p, q)", "multiply(q, q)"),
    "of_both_at_once": PRODUCT.replace("b[k, j]", "y[i, j]"),
    "of_several_dimensions": PRODUCT.replace("k < l", "k < l, h < 2"),
    "in_parts": PRODUCT.replace("= reduce (", "= reduce counter ("),
}


def arguments() -> list[np.ndarray]:
    random = np.random.default_rng(2).random
    return [random((4, 300)), random((300, 5)), random((4, 5))]


def contractions(program: fun.Program) -> int:
    return sum(
        isinstance(let.expr, fun.Kernel) and contraction(let.expr) is not None
        for let in walk.sequential(program.body)
    )


@pytest.mark.parametrize("text", [PRODUCT, USED_TWICE, IN_A_LOOP])
def test_it_is_raised(text: str) -> None:
    program = parse(text)
    check(program)
    assert len(raised(program)) == 1
    after = raise_contractions(program)
    check(after)
    assert (contractions(program), contractions(after)) == (0, 1)
    assert not raised(after)
    agree(program, after, arguments())
    assert raise_contractions(program, lambda _: False) is program


@pytest.mark.parametrize("name", STAYS)
def test_what_stays(name: str) -> None:
    program = parse(STAYS[name])
    check(program)
    assert not raised(program)
    assert raise_contractions(program) is program


def test_a_product_subtracted(golden: Callable[[str], None]) -> None:
    golden(before_after(PRODUCT, raise_contractions))


@pytest.mark.parametrize(
    ("n", "m", "length", "expected"),
    [(16, 16, 5, True), (15, 17, 5, False), (64, 64, 1 << 17, False), (64, 64, 1 << 16, True)],
)
def test_few_elements_and_long_ones_are_done_in_parts(
    n: int, m: int, length: int, expected: bool
) -> None:
    given = choices(parse(PRODUCT))
    values = {"n": n, "m": m, "l": length, "threads": 2}
    for decided in (decide(given, values), for_device(given, values)):
        assert decided.contractions == (expected,)


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "columns": lambda a, b: (a[:, :, None] * b[None, :, :]).sum(axis=1),
    "rows": lambda a, b: (a[:, None, :] * b.T[None, :, :]).sum(axis=-1),
    "scaled": lambda a, b: 2 * (a[:, :, None] * b[None, :, :]).sum(axis=1) + 1,
    "distances": lambda a, b: wf.sqrt(((a[:, :, None] - b[None, :, :]) ** 2).sum(axis=1)),
    "softmax": lambda a, b: softmax((a[:, :, None] * b[None, :, :]).sum(axis=1), wf.exp),
}
EXPECTED: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "columns": np.matmul,
    "rows": np.matmul,
    "scaled": lambda a, b: 2 * a @ b + 1,
    "distances": lambda a, b: np.sqrt(((a[:, :, None] - b) ** 2).sum(axis=1)),
    "softmax": lambda a, b: softmax(a @ b, np.exp),
}


def softmax(x: Any, exp: Callable[[Any], Any]) -> Any:
    e = exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("name", WAYS)
def test_sums_of_products_as_numpy_has_them(name: str, tmp_path: Path) -> None:
    """The bits do not depend on threads, boxes or devices."""
    random = np.random.default_rng(5)
    a, b = random.normal(size=(83, 130)), random.normal(size=(130, 71))
    function = wf.jit(WAYS[name])
    assert "contraction" in str(wf.explain(function, a, b))
    found = function(a, b)
    np.testing.assert_allclose(found, EXPECTED[name](a, b), rtol=1e-11, atol=1e-12)

    def tupled(x: Any, y: Any) -> tuple[Any]:
        return (WAYS[name](x, y),)

    assert_equal_bits(compiled(tupled, [a, b], threads=1), [found])
    assert_equal_bits(streamed(tupled, [a, b], tmp_path, box_bytes=1 << 14), [found])
    with wf.config(devices=["cpu:0", "cpu:1"]):
        assert_equal_bits([function(a, b)], [found])
