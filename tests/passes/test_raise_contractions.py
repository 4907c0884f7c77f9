"""Sums of products of rows with columns become contractions, where sizes are in favour."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement.ways import assert_equal_bits, compiled, saved, streamed
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
BRANCH = PRODUCT.replace("f64[n, m]) sizes", "f64[n, m], h: bool) sizes").replace(
    "  let s:", "  let o: f64[n, m] = if h {\n  let s:"
).replace("in c\n", "in c\n  } else { in y }\n  in o\n")
LOOP = "  let o: f64[n, m] = loop (h: f64[n, m] = y) for t from 0 to 2 {\n"
IN_A_LOOP = (
    PRODUCT.replace("  let s:", LOOP + "  let s:").replace("y[f, g]", "h[f, g]")
    .replace("in c\n", "in c\n  }\n  in o\n")
)  # fmt: skip

STAYS = {
    "of_one_side": PRODUCT.replace("multiply(p, q)", "multiply(q, q)"),
    "of_both_at_once": PRODUCT.replace("b[k, j]", "y[i, j]"),
    "of_several_dimensions": PRODUCT.replace("k < l", "k < l, h < 2"),
    "in_a_loop": IN_A_LOOP,
    "with_a_call": PRODUCT.replace("multiply(p, q)", "pow(p, q)"),
    "of_small_integers": PRODUCT.replace("f64", "i16").replace("-0.0", "0_i16"),
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


@pytest.mark.parametrize("text", [PRODUCT, USED_TWICE, BRANCH])
def test_it_is_raised(text: str) -> None:
    program = parse(text)
    check(program)
    assert len(raised(program)) == 1
    after = raise_contractions(program)
    check(after)
    assert (contractions(program), contractions(after)) == (0, 1)
    assert not raised(after)
    given = [*arguments(), *([True] if text is BRANCH else [])]
    agree(program, after, given)
    assert raise_contractions(program, lambda _: False) is program


def test_loops_are_asked_for() -> None:
    program = parse(IN_A_LOOP)
    assert len(raised(program, lambda _: True)) == 1
    after = raise_contractions(program, within=lambda _: True)
    check(after)
    assert (contractions(program), contractions(after)) == (0, 1)
    agree(program, after, arguments())


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
    [
        (16, 16, 1024, True), (15, 17, 5, False), (2, 200, 1025, False), (64, 64, 1025, True),
        (64, 64, 1 << 15, False), (300, 300, (1 << 15) - 1, True),
    ],
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
    "least": lambda a, b: abs(a[:, :, None] - b[None, :, :]).sum(axis=1).min(axis=1),
    "several": lambda a, b: (
        (a[:, :, None] * b[None]).sum(axis=1) * (a[:, :, None] + b[None]).max(axis=1)
    ),
    "rounds": lambda a, b: wf.fori_loop(0, 3, lambda _, c: moved(a, c), b),
    "counted_by_data": lambda a, b: wf.while_loop(
        lambda state: state[1].sum() > 1e4,
        lambda state: (state[0] + 1, moved(a, state[1])), (0, b + 2),
    )[1],
}
EXPECTED: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "columns": np.matmul,
    "rows": np.matmul,
    "scaled": lambda a, b: 2 * a @ b + 1,
    "distances": lambda a, b: np.sqrt(((a[:, :, None] - b) ** 2).sum(axis=1)),
    "softmax": lambda a, b: softmax(a @ b, np.exp),
    "least": lambda a, b: abs(a[:, :, None] - b).sum(axis=1).min(axis=1),
    "several": lambda a, b: a @ b * (a[:, :, None] + b).max(axis=1),
    "rounds": lambda a, b: moved(a, moved(a, moved(a, b))),
    "counted_by_data": lambda a, b: moved(a, moved(a, moved(a, b + 2))),
}


def softmax(x: Any, exp: Callable[[Any], Any]) -> Any:
    e = exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def moved(a: Any, c: Any) -> Any:
    """A round that needs all of both: none that is done on a row at a time."""
    return c - ((a[:, :, None] - c[None, :, :]) ** 2).sum(axis=1).min(axis=1).sum() / 1e5


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


@pytest.mark.parametrize("limit", [26 << 20, 28 << 20, 34 << 20])
def test_loops_of_sums_of_products_have_the_same_bits_in_boxes(limit: int, tmp_path: Path) -> None:
    random = np.random.default_rng(6)
    given = random.normal(size=(3000, 50)), random.normal(size=(50, 50)) / 9
    paths = saved(tmp_path, *given)

    def rounds(a: Any, b: Any) -> Any:
        return wf.fori_loop(0, 3, lambda _, s: (s[:, :, None] * b[None]).sum(axis=1) * 0.1 + s, a)

    expected = wf.jit(rounds)(*given)
    with wf.config(memory_limit=limit):
        wf.store(rounds(*map(wf.open, paths)), tmp_path / "out.npy")
    assert_equal_bits([np.load(tmp_path / "out.npy")], [expected])


def test_what_is_made_and_used_up_is_little_at_a_time() -> None:
    """Distances of which the least is wanted: not all of them are there at once."""
    random = np.random.default_rng(7)
    a, b = random.random((8000, 20)), random.random((8000, 20))
    function = wf.jit(lambda a, b: ((a[:, None] - b[None]) ** 2).sum(axis=-1).min(axis=1))
    text = str(wf.explain(function, a, b))
    assert "contraction" in text
    (peak,) = (float(line.split()[3]) for line in text.splitlines() if "peak at most" in line)
    assert peak < 100  # MiB, of 488 that they all take
    for _ in range(2):  # the second call goes no shorter way
        with wf.profile() as profile:
            found = function(a, b)
        assert len(profile.events) > 10
    np.testing.assert_allclose(found[:50], ((a[:50, None] - b) ** 2).sum(axis=-1).min(axis=1))
    assert_equal_bits([function(a[:500], b)], [found[:500]])  # which are made at once
