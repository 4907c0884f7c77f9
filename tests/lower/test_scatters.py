"""Scatters: with and without operators, into few elements and into many."""

from __future__ import annotations

import numpy as np
import pytest
from lower.harness import IndexFailureError, agree, compiled, run

from weft.fun.parse import parse
from weft.lower import scatters

ADD = """program histogram(d: DT[m], k: i64[n], v: DT[n]) sizes m, n {
  let h: DT[m] = scatter d over (i < n) {
    let a: i64 = k[i]
    let b: DT = v[i]
    in a, b
  } with (l: DT, r: DT) { let t: DT = OP(l, r) in t }
  in h
}"""

ROWS = """  let h: f32[m, p] = scatter TARGET over (i < n, j < p) {
    let a: i64 = k[i]
    let b: i64 = size j
    let c: f32 = v[i]
    in a, b, c
  }
  in h
}"""

SET = """program assign(d: f32[m, p], k: i64[n], v: f32[n]) sizes m, n, p {
""" + ROWS.replace("TARGET", "d")


@pytest.mark.parametrize(
    ("dtype", "operation"), [("i64", "add"), ("f64", "add"), ("f32", "maximum")]
)
def test_combined(dtype: str, operation: str) -> None:
    program = parse(ADD.replace("DT", dtype).replace("OP", operation))
    segment = compiled(program)
    kind = program.params[0].type.dtype.numpy
    rng = np.random.default_rng(6)
    for m, n in [(1, 10), (10, 0), (1000, 300_000), (3000, 70_000), (9000, 1000), (9000, 100_000)]:
        k = rng.integers(0, m, n)
        v = rng.integers(-9, 9, n).astype(kind)
        d = rng.integers(0, 9, m).astype(kind)
        agree(program, [d, k, v], segment=segment, m=m, n=n, atol=1e-9)


@pytest.mark.parametrize("near", [scatters.NEAR, 1 << 10])
def test_many_elements_that_are_near_are_written_by_one_thread(
    near: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each far one by the thread in whose range it is, after the same others."""
    monkeypatch.setattr(scatters, "NEAR", near)
    program = parse(ADD.replace("DT", "f32").replace("OP", "add"))
    segment = compiled(program)
    assert f"> {near // 4})" in segment.source
    rng, m, n = np.random.default_rng(8), 9000, 70_000
    d, k, v = rng.random(m, np.float32), rng.integers(0, m, n), rng.random(n, np.float32)
    (found,) = agree(program, [d, k, v], segment=segment, m=m, n=n)
    np.add.at(d, k, v)
    assert found.tobytes() == d.tobytes()


def test_the_last_one_wins() -> None:
    program = parse(SET)
    segment = compiled(program)
    rng = np.random.default_rng(7)
    for m, n, p in [(3, 1000, 3), (20, 5000, 40), (1, 1, 1)]:
        agree(
            program,
            [np.zeros((m, p), np.float32), rng.integers(0, m, n), rng.random(n, np.float32)],
            segment=segment, m=m, n=n, p=p,
        )  # fmt: skip


@pytest.mark.parametrize("wrong", [-1, 10, 2**40])
def test_an_index_outside_is_reported(wrong: int) -> None:
    for text, extra in ((ADD.replace("DT", "i64").replace("OP", "add"), {}), (SET, {"p": 2})):
        program = parse(text)
        segment = compiled(program)
        k = np.arange(10)
        k[7] = wrong
        first = np.zeros((10, 2) if extra else 10)
        with pytest.raises(IndexFailureError) as failure:
            run(segment, [first, k, np.ones(10)], {"m": 10, "n": 10, **extra})
        assert failure.value.args == ("d", 0, wrong, 10)


NARROW = (
    ADD.replace("k: i64[n]", "k: i32[n]")
    .replace("let a: i64 = k[i]", "let w: i32 = k[i]\n    let a: i64 = i64(w)")
    .replace("DT", "i64")
    .replace("OP", "add")
)


@pytest.mark.parametrize("wrong", [-1, -(2**31), 10, 2**31 - 1])
def test_an_index_of_32_bits_outside_is_reported(wrong: int) -> None:
    segment = compiled(parse(NARROW))
    assert "uint32_t worst0" in segment.source
    k = np.array([3, 9, wrong, 0], np.int32)
    arguments = [np.zeros(10, np.int64), k, np.ones(4, np.int64)]
    with pytest.raises(IndexFailureError) as failure:
        run(segment, arguments, {"m": 10, "n": 4})
    assert failure.value.args == ("d", 0, wrong, 10)
    k[2] = 9
    agree(NARROW, [*arguments[:1], k, *arguments[2:]], segment=segment, m=10, n=4)
    with pytest.raises(IndexFailureError):  # in an empty axis nothing is inside
        run(segment, [np.zeros(0, np.int64), np.zeros(1, np.int32), np.ones(1, np.int64)],
            {"m": 0, "n": 1})  # fmt: skip


def test_vector_math_gives_what_it_gives_elsewhere() -> None:
    """Values are computed by whole vectors, in blocks of any length."""
    scatter = """program put(d: f64[n], x: f64[n]) sizes n {
      let y: f64[n] = scatter d over (i < n) {
        let k: i64 = size i
        let a: f64 = x[i]
        let b: f64 = tanh(a)
        in k, b
      }
      in y
    }"""
    kernel = """program math(x: f64[n]) sizes n {
      let y: f64[n] = kernel (i < n) {
        let a: f64 = x[i]
        let b: f64 = tanh(a)
        in b
      }
      in y
    }"""
    scattered, mapped = compiled(parse(scatter)), compiled(parse(kernel))
    for n in (1, 7, 505, 513, 5001):
        x = np.random.default_rng(n).normal(size=n)
        (found,) = run(scattered, [np.zeros(n), x], {"n": n})
        (expected,) = run(mapped, [x], {"n": n})
        assert np.array_equal(found, expected)


BACKWARDS = """program assign(d: f32[m, p], k: i64[n], v: f32[n], z: i64) sizes m, n, p {
  let e: f32[m, p] = kernel (i < m, j < p) {
    let a: f32 = d[i, j]
    let b: f32 = negative(a)
    in b
  }
  let r: f32[m, p] = slice e[m - 1 for m by -1, 0 for p]
  let q: f32[m, p] = loop (w: f32[m, p] = r) for t from 0 to z {
    in d
  }
""" + ROWS.replace("TARGET", "q")


def test_an_array_that_lies_backwards_is_written_too() -> None:
    program = parse(BACKWARDS)
    segment = compiled(program)
    rng = np.random.default_rng(9)
    for m, n, p in [(3, 2, 3), (20, 5000, 40), (5, 2, 1)]:
        agree(
            program,
            [rng.random((m, p), np.float32), rng.integers(0, m, n), rng.random(n, np.float32), 0],
            segment=segment, m=m, n=n, p=p,
        )  # fmt: skip
