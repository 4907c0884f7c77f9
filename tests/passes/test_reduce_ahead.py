"""What a round reduces first is reduced by the round before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from passes.programs import agree
from passes.unfused import expressions
from slow import some_slow

import weft as wf
from weft.compiler import choices
from weft.fun import nodes as fun
from weft.fun.check import check
from weft.fun.parse import parse
from weft.fun.show import show
from weft.passes.pipeline import optimise
from weft.passes.reduce_ahead import reduce_ahead, reductions_ahead
from weft.plan.decisions import decide
from weft.sizes import parse_poly

RNG = np.random.default_rng(0)
Golden = Callable[[str], None]

SUM = """reduce (; i < n, j < m) from -0.0 {
    let a: f64 = v[i, j]
    in a
  } with (l: f64, r: f64) { let b: f64 = add(l, r) in b }"""
ADDED = "let a2: f64 = {}[i, j] let a3: f64 = add(a, a2) in a3\n"
NEXT = """kernel (p < n, q < m) {
    let c: f64 = v[p, q]
    let d: f64 = v[p - 1 : edge(0, n), q]
    let e: f64 = add(c, d)
    let f: f64 = divide(e, s)
    in f
  }"""


def loop(
    reduction: str = SUM, kernel: str = NEXT, result: str = "y", form: str = "for k from 0 to t",
    before: str = "",
) -> fun.Program:  # fmt: skip
    """Rounds that divide by a sum of all."""
    return parse(f"""
    program p(x: f64[n, m], w: f64[n, m]) sizes n, m, t
    {{
      let x1: f64[n, m], z: f64[n, m] =
      loop (v: f64[n, m] = x, u: f64[n, m] = w) {form} {{
        {before}
        let s: f64 = {reduction}
        let y: f64[n, m] = {kernel}
        let o: f64[n, m] = kernel (h < n, g < m) {{ let o1: f64 = u[h, g] in o1 }}
        in {result}, o
      }}
      in x1, z
    }}""")


def counted(program: fun.Program) -> int:
    return len(reductions_ahead(program))


def moved(program: fun.Program, rounds: int = 3, **sizes: int) -> fun.Program:
    """The program after the pass, checked, and found to mean the same."""
    after = reduce_ahead(program)
    check(after, after="reduce_ahead")
    shape = sizes.get("n", 4), sizes.get("m", 5)
    arguments = [RNG.random(shape) + 0.5, RNG.random(shape)]
    agree(program, after, arguments, n=shape[0], m=shape[1], t=rounds)
    return after


def test_golden(golden: Golden) -> None:
    after = moved(loop())
    assert len(expressions(after, fun.Reduce)) == 3  # before the loop, of a row, of rows
    assert reductions_ahead(after) == []
    golden(show(after))


def test_candidate() -> None:
    (found,) = reductions_ahead(loop())
    assert (found.rows, found.length) == (parse_poly("n"), parse_poly("m"))


def test_declined() -> None:
    program = loop()
    assert reduce_ahead(program, lambda _: False) is program


@pytest.mark.parametrize("rounds", [0, 1, 2, 7])
def test_rounds(rounds: int) -> None:
    moved(loop(), rounds)


def test_while() -> None:
    """The condition sees what the loop carries, and what is carried besides."""
    condition = "{ let h0: f64 = v[0, 0] let h1: bool = greater(h0, 0.3) in h1 }"
    after = moved(loop(form=f"while {condition}"))
    assert len(expressions(after, fun.Reduce)) == 3


def test_index_is_reduced() -> None:
    """Weights by place: a row's indices are those of the array."""
    weight = "let i1: i64 = size i*m + j let i2: f64 = f64(i1)"
    weighed = SUM.replace("in a\n", f"{weight} let a1: f64 = multiply(a, i2) in a1\n")
    assert counted(loop(weighed)) == 1
    moved(loop(weighed))


def test_several_results() -> None:
    both = """kernel (p < n, q < m) {
      let c: f64 = v[p, q] let d: f64 = divide(c, s) let e: f64 = exp(d) in d, e }"""
    text = show(loop()).replace("let y: f64[n, m] =", "let y: f64[n, m], y2: f64[n, m] =")
    start, end = text.index("= kernel (p"), text.index("let o: ")
    changed = parse(text[:start] + "= " + both + "\n" + text[end:])
    assert counted(changed) == 1
    moved(changed)


# ---------------------------------------------------------------- what is rejected


def test_kept_dimensions() -> None:
    per_row = """reduce (i < n; j < m) from -0.0 { let a: f64 = v[i, j] in a }
      with (l: f64, r: f64) { let b: f64 = add(l, r) in b }"""
    text = show(loop())
    start, end = text.index("let s: f64 ="), text.index("let y: ")
    kept = text[:start] + "let s: f64[n] = " + per_row + "\n" + text[end:]
    kept = kept.replace("divide(e, s)", "divide(e, e)")
    assert counted(parse(kept)) == 0


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("another index", ("v[i, j]", "v[i, 0]")),
        ("a boundary rule", ("v[i, j]", "v[i - 1 : edge(0, n), j]")),
        ("another array", ("v[i, j]", "w[i, j]")),
        ("another carried array too", ("in a\n", ADDED.format("u"))),
        ("an invariant array too", ("in a\n", ADDED.format("w"))),
        ("the loop's index", ("in a\n", "let k1: f64 = f64(k) let a3: f64 = add(a, k1) in a3\n")),
        ("part of the array", ("(; i < n, j < m)", "(; i < n - 1, j < m)")),
        ("loops inside", ("in a\n", """let a2: f64 = loop (a4: f64 = a) for a5 from 0 to m {
            let a6: f64 = add(a4, a4) in a6 } in a2\n""")),
        ("subtrees", ("reduce (", "reduce counter (")),
    ],
)  # fmt: skip
def test_reduction_rejected(name: str, change: tuple[str, str]) -> None:
    assert change[0] in SUM
    program = loop(SUM.replace(*change))
    check(program)
    assert counted(program) == 0


def test_what_a_round_computes_is_not_known_before_it() -> None:
    scaled = "let z1: f64 = v[0, 0]"
    program = loop(SUM.replace("in a\n", "let a3: f64 = add(a, z1) in a3\n"), before=scaled)
    check(program)
    assert counted(program) == 0


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("other order", NEXT.replace("(p < n, q < m)", "(q < m, p < n)")),
        ("loops inside", NEXT.replace("in f", """
          let g1: f64 = loop (g2: f64 = f) for g3 from 0 to m {
            let g4: f64 = add(g2, g2) in g4 } in g1""")),
        ("no kernel", "copy v"),
    ],
)  # fmt: skip
def test_kernel_rejected(name: str, kernel: str) -> None:
    text = show(loop())
    start, end = text.index("let y: "), text.index("let o: ")
    shape = "m, n" if name == "other order" else "n, m"
    changed = text[:start] + f"let y: f64[{shape}] = {kernel}\n" + text[end:]
    if name == "other order":  # an array of another shape is not the next value
        changed = changed.replace("in y, o", "in v, o")
    assert counted(parse(changed)) == 0


def test_one_dimension_has_no_rows() -> None:
    program = parse("""
    program p(x: f64[n]) sizes n, t {
      let x1: f64[n] = loop (v: f64[n] = x) for k from 0 to t {
        let s: f64 = reduce (; i < n) from -0.0 { let a: f64 = v[i] in a }
          with (l: f64, r: f64) { let b: f64 = add(l, r) in b }
        let y: f64[n] = kernel (j < n) { let c: f64 = v[j] let d: f64 = divide(c, s) in d }
        in y
      } in x1
    }""")
    assert counted(program) == 0


# ---------------------------------------------------------------- compiled


def normalised(x: Any, n: Any) -> Any:
    """Statistics of all, then a stencil."""

    def step(x: Any) -> Any:
        mean, largest = wf.mean(x), wf.max(wf.abs(x))
        zeros = (0,) * (x.ndim - 2)
        return wf.stencil(
            lambda s: (s[(*zeros, -1, 0)] + s[(*zeros, 0, 1)] - mean) / largest, x, boundary="edge"
        )

    return wf.iterate(step, x, n)


def spread(x: Any, n: Any) -> Any:
    """Least and largest: an operator on pairs."""
    return wf.iterate(lambda x: 0.5 * x + wf.max(x) - wf.min(x * x), x, n)


def composed(x: Any, n: Any) -> Any:
    """Affine functions one after another: an operator that does not commute."""

    def compose(f: Any, g: Any) -> Any:
        return f[0] * g[0], f[1] * g[0] + g[1]

    def step(x: Any) -> Any:
        slope, offset = wf.reduce(compose, (1.0, 0.0), 1 - x / 7000, x, axis=(0, 1))
        return 0.5 * x + slope + 1e-3 * offset

    return wf.iterate(step, x, n)


def converged(x: Any, n: Any) -> Any:
    return wf.while_loop(
        lambda x: wf.max(x) > 1.5, lambda x: 0.5 * x + 0.5 * wf.sum(x) / (2 * wf.sum(x)), x
    )


def ahead(program: Any, shape: tuple[int, ...]) -> tuple[bool, ...]:
    """What a launch of two threads decides."""
    fused = optimise(wf.jit(program).lower(RNG.random(shape), 5).program)
    (type_,) = [param.type for param in fused.params if isinstance(param.type, fun.Array)]
    sizes = dict.fromkeys(fused.sizes, 5)
    sizes |= {str(size): extent for size, extent in zip(type_.shape, shape, strict=True)}
    return decide(choices(fused), {**sizes, "threads": 2}).ahead


SHAPES = [(100, 128), (64, 1000), (40, 2500), (8, 9, 200), (33, 131)]


@pytest.mark.parametrize("shape", some_slow(SHAPES, [(100, 128), (64, 1000)]))
@pytest.mark.parametrize("program", [normalised, spread, composed, converged])
def test_bits(program: Any, shape: tuple[int, ...]) -> None:
    """The tree is that of the reduction alone."""
    if program is composed and len(shape) > 2:
        pytest.skip("reduces two dimensions")
    assert ahead(program, shape) == (True,)
    x = RNG.random(shape) * 3 + 1
    compiled = wf.jit(program)
    for threads in (1, 2):
        with wf.config(interpret_below=0, threads=threads):
            found = compiled(x, 5)
            with wf.config(optimise="no-reduce-ahead"):
                np.testing.assert_array_equal(found, compiled(x, 5))


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((100, 200), True), ((100, 64), False), ((4, 200), False), ((10, 70000), False)],
)
def test_what_is_decided(shape: tuple[int, int], expected: bool) -> None:
    """Rows must be long enough for their tree to be that of rows; and many."""
    assert ahead(normalised, shape) == (expected,)


@given(
    st.integers(1, 6), st.integers(1, 6), st.integers(0, 4),
    st.sampled_from(["add", "multiply", "maximum"]), st.sampled_from(["edge", "wrap", "reflect"]),
)  # fmt: skip
@settings(max_examples=60, deadline=None, derandomize=True)
def test_meaning(n: int, m: int, rounds: int, operator: str, boundary: str) -> None:
    start = {"add": "-0.0", "multiply": "1.0", "maximum": "-inf"}[operator]
    reduction = SUM.replace("add(l", f"{operator}(l").replace("-0.0", start)
    moved(loop(reduction, NEXT.replace("edge", boundary)), rounds, n=n, m=m)
