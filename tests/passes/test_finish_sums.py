"""What becomes of a reduction's results is done where each is ready."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from agreement.ways import assert_equal_bits, compiled, interpreted
from passes.programs import agree, before_after
from programs.agree import assert_agree

import weft as wf
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.check import check
from weft.fun.parse import parse
from weft.passes import pipeline
from weft.passes.finish_sums import finish_sums

SUBTRACTED = """program p(a: f64[n, m, 5], b: f64[n, 5, m], c: f64[n, m, m]) sizes n, m {
  let r: f64[n, m, m] = kernel (q < n) {
    let s: f64[m, m] = reduce (i < m, j < m; k < 5) from 0.0 {
      let x: f64 = a[q, i, k]
      let y: f64 = b[q, k, j]
      let z: f64 = multiply(x, y)
      in z
    } with (l: f64, h: f64) { let t: f64 = add(l, h) in t }
    let d: f64[m, m] = kernel (u < m, v < m) {
      let e: f64 = c[q, u, v]
      let f: f64 = s[u, v]
      let g: f64 = subtract(e, f)
      in g
    }
    in d
  }
  in r
}"""
TWO = (
    SUBTRACTED.replace("let s: f64[m, m] =", "let s: f64[m, m], w: f64[m, m] =")
    .replace("from 0.0", "from 0.0, 0.0").replace("in z", "in z, x")
    .replace("(l: f64, h: f64)", "(l: f64, l2: f64, h: f64, h2: f64)")
    .replace("in t }", "let t2: f64 = add(l2, h2) in t, t2 }")
)  # fmt: skip

FINISHED = {
    "one": SUBTRACTED,
    "one_of_two": TWO,
    "both": TWO.replace("let g: f64 = subtract(e, f)", "let o: f64 = w[u, v]"
                        " let p: f64 = add(e, o) let g: f64 = subtract(p, f)"),
}  # fmt: skip

STAYS = {
    "outside_of_kernels": SUBTRACTED.replace(
        "let r: f64[n, m, m] = kernel (q < n) {", ""
    ).replace("    in d\n  }\n", "").replace("in r", "in d").replace("[q, ", "[0, "),
    "read_in_another_order": SUBTRACTED.replace("s[u, v]", "s[v, u]"),
    "read_twice": SUBTRACTED.replace("f: f64 = s[u, v]", "f: f64 = s[u, v] let o: f64 = s[u, v]"),
    "a_part_is_read": SUBTRACTED.replace("d: f64[m, m]", "d: f64[m - 1, m]")
    .replace("u < m", "u < m - 1").replace("r: f64[n, m, m]", "r: f64[n, m - 1, m]"),
    "used_as_an_array": SUBTRACTED.replace("in d", "let o: f64[m, m] = copy s in o"),
    "an_update_between": SUBTRACTED.replace(
        "let d:", "let o: f64[m, m] = slice c[q, 0 for m, 0 for m]"
        " let p2: f64[m, m] = update o[0, 0] = 1.0 let d:"
    ).replace("c[q, u, v]", "p2[u, v]"),
    "more_than_scalars": SUBTRACTED.replace("let e: f64 = c[q, u, v]", """
      let e: f64 = reduce (; o < 5) from 0.0 { let w2: f64 = a[q, u, o] in w2 }
        with (l3: f64, h3: f64) { let t3: f64 = add(l3, h3) in t3 }"""),
}  # fmt: skip


def kept(program: fun.Program) -> int:
    """The reductions with kept dimensions."""
    return sum(
        isinstance(let.expr, fun.Reduce) and let.expr.reduced < len(let.expr.space)
        for let in walk.statements(program.body)
    )


def inputs() -> list[np.ndarray]:
    random = np.random.default_rng(2)
    return [random.random(shape) for shape in ((3, 4, 5), (3, 5, 4), (3, 4, 4))]


@pytest.mark.parametrize("name", FINISHED)
def test_it_is_done_where_it_is_ready(name: str) -> None:
    program = parse(FINISHED[name])
    check(program)
    after = finish_sums(program)
    check(after)
    assert (kept(program), kept(after)) == (1, 0)
    agree(program, after, inputs())


@pytest.mark.parametrize("name", STAYS)
def test_what_stays(name: str) -> None:
    program = parse(STAYS[name])
    check(program)
    after = finish_sums(program)
    assert kept(program) == kept(after) == 1
    agree(program, after, inputs())


def test_a_product_subtracted(golden: Callable[[str], None]) -> None:
    golden(before_after(SUBTRACTED, finish_sums))


@pytest.mark.parametrize("by_columns", [False, True])
def test_the_bits_stay(
    by_columns: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Sums along memory and across it, of several grains and of part of one."""
    random = np.random.default_rng(3)
    data = [random.random((4, 21, 1100)), random.random((4, 21))]
    if by_columns:
        data[0] = np.ascontiguousarray(data[0].transpose(0, 2, 1))

    def users(x: wf.Array, y: wf.Array) -> tuple[wf.Array, ...]:
        axis = 0 if by_columns else 1

        def one(a: wf.Array, b: wf.Array) -> wf.Array:
            def step(_: wf.Array, total: wf.Array) -> wf.Array:
                return total * 0.5 - wf.sum(a * total[0], axis=axis)

            return wf.fori_loop(0, 3, step, b)

        return (wf.map(one, x, y),)

    before: list[fun.Program] = []
    without = [step for step in pipeline.FUSION if step[0] is not finish_sums]
    with monkeypatch.context() as patched:
        patched.setenv("WEFT_CACHE_DIR", str(tmp_path))
        patched.setattr(pipeline, "FUSION", without)
        patched.setattr(pipeline, "finish_sums", lambda program: before.append(program) or program)
        expected = compiled(users, data)
    assert any(kept(finish_sums(program)) < kept(program) for program in before)
    assert_agree(expected, interpreted(users, data), scale=1000)
    assert_equal_bits(compiled(lambda x, y: users(x, y + 0), data), expected)
    assert_equal_bits(compiled(lambda x, y: users(x, y + 0), data, threads=1), expected)
