"""What fusion does, and what it leaves: structure, and agreement with the interpreter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from passes.programs import agree, before_after, black_scholes, normalise_columns, softmax
from passes.unfused import Unfused, expressions, operations, reads, top

from weft.fun import nodes as fun
from weft.fun.check import check
from weft.fun.parse import parse
from weft.passes.fuse import fuse
from weft.passes.fuse_horizontal import fuse_horizontal
from weft.passes.fuse_vertical import fuse_vertical
from weft.passes.pipeline import optimise
from weft.passes.remove_dead import remove_dead
from weft.passes.share import share
from weft.passes.simplify import simplify

Golden = Callable[[str], None]
RNG = np.random.default_rng(0)


def small() -> tuple[Unfused, fun.Var, fun.Var]:
    u = Unfused("n", "m")
    return u, u.param("x", "n", "m"), u.param("y", "m")


def arguments(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [RNG.random(shape) for shape in shapes]


def test_chain_is_one_kernel() -> None:
    before = black_scholes()
    after = optimise(before)
    assert top(after) == ["Kernel"]
    assert sorted(reads(after)) == ["price", "strike", "years"]
    assert operations(after).count("exp") == 1
    assert operations(after).count("erf") == 2
    agree(before, after, [RNG.random(7) + 0.5 for _ in range(3)])


def test_sum_max_mean_are_one_reduction() -> None:
    u, x, _ = small()
    total = u.reduce("add", x, [0, 1])
    mean = u.map("divide", u.reduce("add", x, [0, 1]), 15.0)
    before = u.program(total, u.reduce("maximum", x, [0, 1]), mean)
    after = optimise(before)
    assert top(after) == ["Reduce", "Apply"]
    assert reads(after) == ["x"]
    agree(before, after, arguments((3, 5), (5,)))


def test_softmax_keeps_the_exponential() -> None:
    after = optimise(softmax())
    assert top(after) == ["Reduce", "Kernel", "Reduce", "Kernel"]
    assert operations(after).count("exp") == 1
    agree(softmax(), after, arguments((4, 6)))


def test_normalise_columns() -> None:
    after = optimise(normalise_columns())
    # sum; mean; variance; deviation; result
    assert top(after) == ["Reduce", "Kernel", "Reduce", "Kernel", "Kernel"]
    assert reads(after).count("x") == 3
    agree(normalise_columns(), after, [RNG.random((4, 6)), np.float64(4)])


def test_expensive_producer_of_two_spaces_is_kept() -> None:
    u, x, _ = small()
    e = u.map("exp", x)
    before = u.program(u.reduce("add", e, [0]), u.reduce("add", e, [1]))
    after = optimise(before)
    assert operations(after).count("exp") == 1
    assert top(after) == ["Kernel", "Reduce", "Reduce"]
    agree(before, after, arguments((3, 5), (5,)))


def test_cheap_producer_of_two_spaces_is_recomputed() -> None:
    u, x, _ = small()
    e = u.map("multiply", x, x)
    before = u.program(u.reduce("add", e, [0]), u.reduce("add", e, [1]))
    after = optimise(before)
    assert top(after) == ["Reduce", "Reduce"]
    agree(before, after, arguments((3, 5), (5,)))


def test_expensive_producer_of_joined_consumers_is_fused() -> None:
    u, x, y = small()
    e = u.map("exp", x)
    before = u.program(u.map("add", e, y), u.map("multiply", e, y))
    after = optimise(before)
    assert top(after) == ["Kernel"]
    assert operations(after).count("exp") == 1
    agree(before, after, arguments((3, 5), (5,)))


def test_result_that_is_also_read() -> None:
    u, x, y = small()
    e = u.map("exp", x)
    before = u.program(e, u.map("add", e, y))
    after = optimise(before)
    assert top(after) == ["Kernel"]
    assert len(after.body.statements[0].pattern) == 2
    agree(before, after, arguments((3, 5), (5,)))


def test_expensive_in_an_inner_loop_is_kept() -> None:
    """A product of matrices whose operand is an exponential reads it many times."""
    before = parse("""
    program p(a: f64[n, k], b: f64[k, m]) sizes n, m, k {
      let e: f64[n, k] = kernel (i1 < n, j1 < k) {
        let x1: f64 = a[i1, j1]
        let y1: f64 = exp(x1)
        in y1
      }
      let r: f64[n, m] = reduce (i < n, j < m; l < k) from 0.0 {
        let x: f64 = e[i, l]
        let y: f64 = b[l, j]
        let z: f64 = multiply(x, y)
        in z
      } with (p1: f64, p2: f64) { let p3: f64 = add(p1, p2) in p3 }
      in r
    }""")
    after = optimise(before)
    assert top(after) == ["Kernel", "Reduce"]
    agree(before, after, arguments((3, 4), (4, 5)))


@pytest.mark.parametrize(
    ("dtype", "operation", "chosen", "kept"),
    [
        ("bool", "greater", "where(x, y, 0.0)", 0),  # to be widened, where it is read
        ("f64", "maximum", "multiply(x, y)", 1),
    ],
)
def test_masks_are_computed_in_inner_loops(
    dtype: str, operation: str, chosen: str, kept: int
) -> None:
    before = parse(f"""
    program p(a: f64[n], b: f64[m, n]) sizes n, m {{
      let e: {dtype}[n] = kernel (i1 < n) {{
        let x1: f64 = a[i1]
        let x2: f64 = abs(x1)
        let x3: {dtype} = {operation}(x2, 0.5)
        in x3
      }}
      let r: f64[m, n] = kernel (i < m, j < n) {{
        let x: {dtype} = e[j]
        let y: f64 = b[i, j]
        let z: f64 = {chosen}
        in z
      }}
      in r
    }}""")
    after = optimise(before)
    assert top(after) == ["Kernel"] * (1 + kept)
    agree(before, after, arguments((5,), (4, 5)))


def test_broadcast_producer_is_kept_small() -> None:
    u, x, y = small()
    before = u.program(u.map("add", x, u.map("exp", y)))
    after = optimise(before)
    assert top(after) == ["Kernel", "Kernel"]
    agree(before, after, arguments((3, 5), (5,)))


def test_iota_is_fused_everywhere() -> None:
    u, x, _ = small()
    steps = u.cast(x.type.dtype, u.arange(u.size("m")))
    before = u.program(u.map("multiply", x, steps), u.reduce("add", u.map("add", x, steps), [1]))
    after = optimise(before)
    assert top(after) == ["Kernel", "Reduce"]
    agree(before, after, arguments((3, 5), (5,)))


def test_through_views() -> None:
    u, x, y = small()
    n, m = u.size("n"), u.size("m")
    e = u.permute(u.slice(u.map("exp", u.map("add", x, y)), (0, n, 1), (m - 1, m - 1, -1)), 1, 0)
    before = u.program(u.reduce("add", u.map("multiply", e, e), [1]))
    after = optimise(before)
    assert top(after) == ["Reduce"]
    assert operations(after).count("exp") == 1
    agree(before, after, arguments((3, 5), (5,)))


def test_through_split_reshape() -> None:
    u = Unfused("n", "m")
    x = u.param("x", "n")
    x = u.params[0] = fun.Var("x", fun.Array(x.type.dtype, (u.size("n") * u.size("m"),)))
    e = u.reshape(u.map("exp", x), u.size("n"), u.size("m"))
    before = u.program(u.reduce("add", e, [1]))
    after = optimise(before)
    assert top(after) == ["Reduce"]
    agree(before, after, [RNG.random(15)], n=3, m=5)


def test_into_scan() -> None:
    u, x, y = small()
    before = u.program(u.scan("add", u.map("exp", u.map("add", x, y))))
    after = optimise(before)
    assert top(after) == ["Scan"]
    agree(before, after, arguments((3, 5), (5,)))


def test_scans_are_joined() -> None:
    u, x, _ = small()
    before = u.program(u.scan("add", x), u.scan("maximum", x))
    after = optimise(before)
    assert top(after) == ["Scan"]
    assert reads(after) == ["x"]
    agree(before, after, arguments((3, 5), (5,)))


SCATTER = """
program p(x: f64[n], w: f64[n]) sizes n, b {
  let h: i64[n] = kernel (i1 < n) {
    let x1: f64 = x[i1]
    let x2: f64 = multiply(x1, 4.0)
    let x3: i64 = i64(x2)
    in x3
  }
  let v: f64[n] = kernel (i2 < n) { let w1: f64 = w[i2] let w2: f64 = exp(w1) in w2 }
  let zero: f64[4] = kernel (i4 < 4) { in 0.0 }
  let r: f64[4] = scatter zero over (i < n) {
    let a: i64 = h[i]
    let c: f64 = v[i]
    in a, c
  } with (o: f64, q: f64) { let s: f64 = add(o, q) in s }
  in r
}"""


def test_into_scatter(golden: Golden) -> None:
    before = parse(SCATTER)
    after = optimise(before)
    assert top(after) == ["Kernel", "Scatter"]
    agree(before, after, arguments((9,), (9,)), b=4)
    golden(before_after(SCATTER, simplify, fuse))


def test_into_branches(golden: Golden) -> None:
    text = """
    program p(x: f64[n]) sizes n {
      let e: f64[n] = kernel (i1 < n) { let x1: f64 = x[i1] let y1: f64 = exp(x1) in y1 }
      let r: f64[n] = kernel (i < n) {
        let c: bool = less(i, 2)
        let v: f64 = if c { let u: f64 = e[i] in u } else { in 0.0 }
        in v
      }
      in r
    }"""
    agree(parse(text), optimise(parse(text)), arguments((5,)))
    golden(before_after(text, simplify, fuse))


STENCIL = """
program p(x: f64[n]) sizes n {
  let t: f64[n] = kernel (i1 < n) { let x1: f64 = x[i1] let y1: f64 = multiply(x1, x1) in y1 }
  let r: f64[n] = kernel (i < n) {
    let a: f64 = t[i - 1 : KIND(0, n)]
    let b: f64 = t[i + 1 : KIND(0, n)]
    let c: f64 = subtract(b, a)
    in c
  }
  in r
}"""


@pytest.mark.parametrize("kind", ["edge", "wrap", "reflect", "symmetric"])
def test_rules_move_to_the_producers_reads(kind: str, golden: Golden) -> None:
    text = STENCIL.replace("KIND", kind)
    after = optimise(parse(text))
    assert top(after) == ["Kernel"]
    agree(parse(text), after, arguments((5,)))
    golden(before_after(text, simplify, fuse))


def test_rules_do_not_move_to_shifted_reads() -> None:
    text = STENCIL.replace("KIND", "edge").replace("x[i1]", "x[-i1 + n - 1]")
    after = optimise(parse(text))
    assert top(after) == ["Kernel", "Kernel"]
    agree(parse(text), after, arguments((5,)))


def test_constant_rule_does_not_move() -> None:
    text = STENCIL.replace("KIND(0, n)", "constant(0, n, 7.0)")
    after = optimise(parse(text))
    assert top(after) == ["Kernel", "Kernel"]
    agree(parse(text), after, arguments((5,)))


def test_wide_stencil_of_stencil_is_kept() -> None:
    """Nine reads of nine reads would be 81."""
    u = Unfused("n", "m")
    x = u.param("x", "n", "m")
    n, m = u.size("n"), u.size("m")

    def box(a: fun.Var, rows: fun.Var, columns: fun.Var) -> fun.Var:
        parts = [u.slice(a, (i, rows, 1), (j, columns, 1)) for i in range(3) for j in range(3)]
        total = parts[0]
        for part in parts[1:]:
            total = u.map("add", total, part)
        return total

    before = u.program(box(box(x, n - 2, m - 2), n - 4, m - 4))
    after = optimise(before)
    assert top(after) == ["Kernel", "Kernel"]
    assert len(reads(after)) == 18
    agree(before, after, arguments((6, 7)))


def test_elements_of_producers_that_other_producers_use() -> None:
    """What reads one is gone: so are its uses in a body that is put elsewhere."""
    before = parse("""
program p(x: f64[n]) sizes n {
  let y: f64[n] = kernel (i < n) { let a: f64 = x[i] let b: f64 = add(a, 1.0) in b }
  let first: f64 = y[0]
  let z: f64[n] = kernel (j < n) {
    let c: f64 = x[j]
    let d: f64 = multiply(c, first)
    in d
  }
  let w: f64[n] = kernel (k < n) { let e: f64 = z[k] let f: f64 = add(e, first) in f }
  in w
}
""")
    after = fuse_vertical(before)
    check(after)
    assert top(after) == ["Index", "Apply", "Kernel"]
    agree(before, after, arguments((5,)))


def test_inside_bodies() -> None:
    """Rows of a nested kernel are fused as whole arrays are."""
    before = parse("""
    program p(x: f64[n, m]) sizes n, m {
      let r: f64[n, m] = kernel (i < n) {
        let a: f64[m] = kernel (j1 < m) { let x1: f64 = x[i, j1] let y1: f64 = exp(x1) in y1 }
        let b: f64[m] = kernel (j2 < m) { let x2: f64 = a[j2] let y2: f64 = add(x2, 1.0) in y2 }
        in b
      }
      in r
    }""")
    after = optimise(before)
    assert len(expressions(after, fun.Kernel)) == 2
    agree(before, after, arguments((3, 5)))


def test_inside_time_loop() -> None:
    before = parse("""
    program p(x: f64[n]) sizes n, steps {
      let r: f64[n] = loop (a: f64[n] = x) for t from 0 to steps {
        let b: f64[n] = kernel (i1 < n) { let x1: f64 = a[i1] let y1: f64 = exp(x1) in y1 }
        let c: f64[n] = kernel (i2 < n) { let x2: f64 = b[i2] let y2: f64 = negative(x2) in y2 }
        in c
      }
      in r
    }""")
    after = optimise(before)
    assert len(expressions(after, fun.Kernel)) == 1
    agree(before, after, arguments((5,)), steps=3)


def test_dependent_reductions_are_not_joined() -> None:
    u, x, _ = small()
    largest = u.reduce("maximum", x, [0, 1])
    before = u.program(u.reduce("add", u.map("subtract", x, largest), [0, 1]), largest)
    after = optimise(before)
    assert top(after) == ["Reduce", "Reduce"]
    agree(before, after, arguments((3, 5), (5,)))


def test_joined_statements_move_past_those_between() -> None:
    """The first reduction's user, which stands between, comes after the joined one."""
    u, x, _ = small()
    total = u.reduce("add", x, [0, 1])
    double = u.map("multiply", total, 2.0)
    before = u.program(double, u.reduce("maximum", x, [0, 1]))
    after = optimise(before)
    assert top(after) == ["Reduce", "Apply"]
    agree(before, after, arguments((3, 5), (5,)))


def test_nothing_shared_is_not_joined() -> None:
    u = Unfused("n")
    x, y = u.param("x", "n"), u.param("y", "n")
    after = optimise(u.program(u.map("exp", x), u.map("exp", y)))
    assert top(after) == ["Kernel", "Kernel"]


def test_vertical_golden(golden: Golden) -> None:
    golden(before_after("""
    program p(x: f64[n, m], y: f64[m]) sizes n, m {
      let a: f64[n, m] = kernel (i1 < n, j1 < m) {
        let x1: f64 = x[i1, j1]
        let y1: f64 = y[j1]
        let z1: f64 = subtract(x1, y1)
        in z1
      }
      let s: f64[m] = reduce (j < m; i < n) from 0.0 {
        let x2: f64 = a[i, j]
        let x3: f64 = multiply(x2, x2)
        in x3
      } with (l: f64, r: f64) { let o: f64 = add(l, r) in o }
      in s
    }""", fuse_vertical))  # fmt: skip


def test_horizontal_golden(golden: Golden) -> None:
    golden(before_after("""
    program p(x: f64[n]) sizes n {
      let s: f64 = reduce (; i1 < n) from 0.0 {
        let x1: f64 = x[i1]
        in x1
      } with (l1: f64, r1: f64) { let o1: f64 = add(l1, r1) in o1 }
      let d: f64 = multiply(s, 2.0)
      let m: f64 = reduce (; i2 < n) from -inf {
        let x2: f64 = x[i2]
        in x2
      } with (l2: f64, r2: f64) { let o2: f64 = maximum(l2, r2) in o2 }
      let a: f64[n] = kernel (i3 < n) { let x3: f64 = x[i3] let e3: f64 = exp(x3) in e3 }
      let b: f64[n] = kernel (i4 < n) { let x4: f64 = a[i4] let e4: f64 = add(x4, d) in e4 }
      in m, a, b
    }""", fuse_horizontal))  # fmt: skip


def test_softmax_golden(golden: Golden) -> None:
    from weft.fun.show import show

    golden(show(optimise(softmax())))


def test_twenty_operations_take_milliseconds() -> None:
    import time

    u = Unfused("n")
    x = u.param("x", "n")
    for _ in range(10):
        x = u.map("exp", u.map("multiply", x, 0.5))
    program = u.program(x)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        optimise(program)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.030  # 4 ms on an idle machine


def test_passes_leave_a_simple_program_alone() -> None:
    u, x, y = small()
    program = optimise(u.program(u.map("exp", u.map("add", x, y))))
    for pass_ in (simplify, share, remove_dead, fuse_vertical, fuse_horizontal, fuse):
        assert pass_(program) is program
