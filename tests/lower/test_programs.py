"""Whole programs: nests, control flow, copies, boundaries, bounds."""

from __future__ import annotations

import numpy as np
import pytest
from lower.harness import IndexFailureError, Launch, agree, compiled, run
from passes import programs

from weft.fun.parse import parse
from weft.passes.pipeline import optimise

RNG = np.random.default_rng(8)

SOFTMAX = """program softmax(x: f32[n, m]) sizes n, m {
  let y: f32[n, m] = kernel (i < n) {
    let big: f32 = reduce (; j < m) from -inf_f32 {
      let a: f32 = x[i, j]
      in a
    } with (l: f32, r: f32) { let t: f32 = maximum(l, r) in t }
    let e: f32[m] = kernel (k < m) {
      let b: f32 = x[i, k]
      let c: f32 = subtract(b, big)
      let d: f32 = exp(c)
      in d
    }
    let total: f32 = reduce (; q < m) from 0.0_f32 {
      let f: f32 = e[q]
      in f
    } with (l2: f32, r2: f32) { let t2: f32 = add(l2, r2) in t2 }
    let z: f32[m] = kernel (p < m) {
      let g: f32 = e[p]
      let h: f32 = divide(g, total)
      in h
    }
    in z
  }
  in y
}"""

STENCIL = """program blur(x: f64[n, m]) sizes n, m {
  let y: f64[n, m] = kernel (i < n, j < m) {
    let a: f64 = x[i - 1: KIND(0, n VALUE), j: KIND(0, m VALUE)]
    let b: f64 = x[i + 1: KIND(0, n VALUE), j: KIND(0, m VALUE)]
    let c: f64 = x[i: KIND(0, n VALUE), j - 1: KIND(0, m VALUE)]
    let d: f64 = x[i: KIND(0, n VALUE), j + 2: KIND(0, m VALUE)]
    let e: f64 = x[i, j]
    let f: f64 = add(a, b)
    let g: f64 = add(c, d)
    let h: f64 = add(f, g)
    let k: f64 = FUNCTION
    in k
  }
  in y
}"""

WINDOW = """program relief(x: f32[n, m]) sizes n, m {
  let y: f32[n, m] = kernel (i < n, j < m) {
    let low: f32, high: f32 = reduce (; p < 3, q < 3) from +inf_f32, -inf_f32 {
      let a: f32 = x[i + p - 1: edge(0, n), j + q - 1: edge(0, m)]
      in a, a
    } with (l0: f32, l1: f32, r0: f32, r1: f32) {
      let t0: f32 = minimum(l0, r0)
      let t1: f32 = maximum(l1, r1)
      in t0, t1
    }
    let d: f32 = subtract(high, low)
    in d
  }
  in y
}"""

HEAT = """program heat(x: f64[n], steps: i64) sizes n {
  let y: f64[n] = loop (u: f64[n] = x) for t from 0 to steps {
    let v: f64[n] = kernel (i < n) {
      let a: f64 = u[i - 1: edge(0, n)]
      let b: f64 = u[i + 1: edge(0, n)]
      let c: f64 = add(a, b)
      let d: f64 = multiply(c, 0.5)
      in d
    }
    in v
  }
  in y
}"""

BRANCH = """program branch(x: f64[n], y: f64[n], flag: bool) sizes n {
  let inner: f64[n] = kernel (i < n) {
    let p: i64 = size i
    let c: bool = greater(p, 0)
    let r: f64 = if c {
      let a: f64 = x[i - 1]
      in a
    } else {
      in 0.0
    }
    in r
  }
  let z: f64[n] = if flag {
    let w: f64[n] = kernel (j < n) {
      let b: f64 = inner[j]
      let d: f64 = y[j]
      let e: f64 = add(b, d)
      in e
    }
    in w
  } else {
    in y
  }
  in z
}"""

PIECES = """program pieces(x: f64[n, m], y: f64[n, m], v: f64[m]) sizes n, m {
  let c: f64[2*n, m] = concat 0 (x, y)
  let u: f64[2*n, m] = update c [1, 0 for m by 1] = v
  let w: f64[2*n, m] = update u [0 for n by 2, 0] = 7.0
  let t: f64[m, 2*n] = permute w (1, 0)
  let f: f64[2*n*m] = reshape t (2*n*m)
  let g: f64[2, m] = broadcast v (2, m)
  let h: f64[2, m] = copy g
  in f, h
}"""

GATHER = """program gather(x: f32[m, p], k: i64[n]) sizes m, n, p {
  let y: f32[n, p] = kernel (i < n, j < p) {
    let a: i64 = k[i]
    let b: f32 = x[a, j]
    in b
  }
  let z: f32[n] = kernel (q < n) {
    let c: i64 = k[q]
    let d: f32 = x[c, 0]
    in d
  }
  in y, z
}"""

SHIFT = """program shift(x: f32[n], s: i64) sizes n, k {
  let y: f32[k] = kernel (i < k) {
    let a: f32 = x[i + 3]
    in a
  }
  in y
}"""


def test_nested_rows() -> None:
    program = parse(SOFTMAX)
    segment = compiled(program)
    for n, m in [(1, 1), (7, 65), (40, 1025), (3, 70_000)]:
        agree(
            program,
            [RNG.normal(size=(n, m)).astype(np.float32)],
            segment=segment,
            n=n,
            m=m,
            rtol=2e-5,
        )


@pytest.mark.parametrize("kind", ["edge", "reflect", "symmetric", "wrap", "constant"])
@pytest.mark.parametrize("function", ["multiply(h, e)", "sin(h)"])
def test_boundaries(kind: str, function: str) -> None:
    value = ", 2.5" if kind == "constant" else ""
    text = STENCIL.replace("KIND", kind).replace(" VALUE", value).replace("FUNCTION", function)
    program = parse(text)
    segment = compiled(program)
    for n, m in [(1, 1), (1, 2), (2, 5), (5, 64), (9, 200), (70, 1025)]:
        agree(program, [RNG.normal(size=(n, m))], segment=segment, n=n, m=m, atol=1e-13)


def test_a_small_window() -> None:
    program = parse(WINDOW)
    segment = compiled(program)
    for n, m in [(1, 1), (2, 3), (30, 130), (100, 1000)]:
        agree(program, [RNG.normal(size=(n, m)).astype(np.float32)], segment=segment, n=n, m=m)


def test_steps_in_time() -> None:
    program = parse(HEAT)
    segment = compiled(program)
    for n, steps in [(1, 3), (64, 0), (1000, 7), (70_000, 3)]:
        agree(program, [RNG.normal(size=n), np.int64(steps)], segment=segment, n=n)


def test_branches() -> None:
    program = parse(BRANCH)
    segment = compiled(program)
    assert not segment.checks
    for n in [1, 2, 1000]:
        for flag in (True, False):
            agree(
                program,
                [RNG.normal(size=n), RNG.normal(size=n), np.bool_(flag)],
                segment=segment,
                n=n,
            )


def test_copies() -> None:
    program = parse(PIECES)
    segment = compiled(program)
    for n, m in [(1, 1), (2, 3), (70, 90), (300, 300)]:
        agree(
            program,
            [RNG.normal(size=(n, m)), RNG.normal(size=(n, m)), RNG.normal(size=m)],
            segment=segment,
            n=n,
            m=m,
        )


@pytest.mark.parametrize("wrong", [None, -1, 50, 2**62])
def test_gathers(wrong: int | None) -> None:
    program = parse(GATHER)
    segment = compiled(program)
    x, k = RNG.random((50, 30), np.float32), RNG.integers(0, 50, 1000)
    if wrong is None:
        agree(program, [x, k], segment=segment, m=50, n=1000, p=30)
        return
    k[321] = wrong
    with pytest.raises(IndexFailureError) as failure:
        run(segment, [x, k], {"m": 50, "n": 1000, "p": 30})
    assert failure.value.args == ("x", 0, wrong, 50)


def test_affine_bounds_are_checked_at_launch() -> None:
    program = parse(SHIFT)
    segment = compiled(program)
    assert len(segment.checks) == 1
    assert not segment.failures
    x = RNG.random(100, np.float32)
    agree(program, [x, np.int64(0)], segment=segment, n=100, k=97)
    agree(program, [x[:5], np.int64(0)], segment=segment, n=5, k=2)
    with pytest.raises(IndexFailureError):
        run(segment, [x, np.int64(0)], {"n": 100, "k": 98})


LESSER = """program lesser(y: f32[m]) sizes n, m, k {
  let a: i64 = size n
  let b: i64 = size k
  let e: i64 = minimum(a, b)
  let s: f32 = reduce (; i < e) from 0.0_f32 { let v: f32 = y[i] in v }
    with (p: f32, q: f32) { let r: f32 = add(p, q) in r }
  in s }"""


def test_an_index_has_several_limits() -> None:
    """One of them inside the array is enough."""
    program = parse(LESSER)
    segment = compiled(program)
    assert [len(check.upper) for check in segment.checks] == [2]
    assert not segment.failures
    y = RNG.random(100, np.float32)
    for n, k in ((100, 300), (300, 100), (70, 90)):
        agree(program, [y], segment=segment, n=n, m=100, k=k)
    with pytest.raises(IndexFailureError):
        run(segment, [y], {"n": 101, "m": 100, "k": 300})


@pytest.mark.parametrize("layout", ["rows", "strided"])
def test_layouts(layout: str) -> None:
    program = parse(SOFTMAX)
    segment = compiled(program, x=layout)
    base = RNG.normal(size=(60, 150)).astype(np.float32)
    views = [base[:, 7:100], base[::-1, :50]]
    if layout == "strided":
        views += [base.T, base[::2, ::-3]]
    for x in views:
        agree(program, [x], segment=segment, n=x.shape[0], m=x.shape[1], rtol=2e-5)


def test_the_passes_programs() -> None:
    x = RNG.normal(size=(40, 70))
    agree(optimise(programs.softmax()), [x], n=40, m=70)
    agree(programs.softmax(), [x], n=40, m=70)
    for program in (programs.normalise_columns(), optimise(programs.normalise_columns())):
        agree(program, [x, np.float64(40)], n=40, m=70, rtol=1e-11)
    p = [RNG.uniform(1, 2, 1000) for _ in range(3)]
    agree(optimise(programs.black_scholes()), p, n=1000, rtol=1e-10, atol=1e-12)


VECTOR_MATH = [
    "exp",
    "log",
    "sin",
    "cos",
    "tan",
    "tanh",
    "atan",
    "asinh",
    "cbrt",
    "erf",
    "log1p",
    "expm1",
    "exp2",
    "log10",
]


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_math_gives_the_same_bits_at_every_position(dtype: str) -> None:
    """Tails go through the vector functions: where an element stands makes no difference."""
    lets, results = [], []
    for k, function in enumerate(VECTOR_MATH):
        lets.append(
            f"let y{k}: DT[n] = kernel (i{k} < n) {{ let a{k}: DT = x[i{k}] "
            f"let b{k}: DT = {function}(a{k}) in b{k} }}"
        )
        results.append(f"y{k}")
    text = f"program p(x: DT[n]) sizes n {{ {' '.join(lets)} in {', '.join(results)} }}"
    program = parse(text.replace("DT", dtype))
    segment = compiled(program)
    for value in (0.3, 0.7371, 0.91):
        whole = run(segment, [np.full(200, value)], {"n": 200})
        for n in (2, 63, 64, 65, 131):
            for part, full in zip(run(segment, [np.full(n, value)], {"n": n}), whole, strict=True):
                assert len({x.tobytes() for x in (*part, *full)}) == 1


def test_a_raised_flag_stops_the_program() -> None:
    program = parse(HEAT)
    launch = Launch(compiled(program), [RNG.normal(size=1000), 10**9], {"n": 1000})
    launch.cancel.value = 1
    with pytest.raises(AssertionError):  # the harness expects 0; the code is 1
        launch()
