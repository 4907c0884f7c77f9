"""Loops become kernels where their rounds are independent, and stay loops where they are not."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from passes.programs import before_after

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.check import check
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.passes.parallelise import Result, parallelise
from weft.passes.remove_dead import remove_dead
from weft.passes.simplify import simplify

SIZES = {"n": 7, "m": 5}
RANDOM = np.random.default_rng(8)


def program(body: str, loop: str = "for i from 0 to n") -> fun.Program:
    """A loop over x, of n elements, that reads a and b, of n, and w, of n*m."""
    return parse(f"""
program main(x: f64[n], a: f64[n], b: i64[n], w: f64[n, m], f: f64[n*m])
  sizes n, m
{{
  let y: f64[n] = loop (v: f64[n] = x) {loop} {{
    {body}
  }}
  in y
}}
""")


def ran(made: fun.Program, sizes: Mapping[str, int] = SIZES) -> list[object]:
    random = np.random.default_rng(3)
    n, m = sizes["n"], sizes["m"]
    values = [
        random.random(n), random.random(n), random.permutation(n), random.random((n, m)),
        random.random(n * m),
    ]  # fmt: skip
    return interpret(made, values, sizes)


def parallelised(source: fun.Program, values: Mapping[str, int] | None = None) -> Result:
    check(source)
    result = parallelise(source, values)
    check(result.program)
    for found, expected in zip(ran(result.program), ran(source), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    return result


def loops(made: fun.Program) -> int:
    return sum(isinstance(let.expr, fun.Loop) for let in walk.statements(made.body))


INDEPENDENT = {
    "map": "let t: f64 = a[i] let u: f64[n] = update v[i] = t in u",
    "in place": "let t: f64 = v[i] let s: f64 = add(t, t) let u: f64[n] = update v[i] = s in u",
    "own write": """let t: f64 = a[i] let u: f64[n] = update v[i] = t
        let r: f64 = u[i] let s: f64 = add(r, r) let z: f64[n] = update u[i] = s in z""",
    "branch": """let t: f64 = a[i] let c: bool = greater(t, 0.5)
        let u: f64[n] = if c { let z: f64[n] = update v[i] = t in z } else { in v } in u""",
    "both branches": """let t: f64 = a[i] let c: bool = greater(t, 0.5)
        let u: f64[n] = if c { let z: f64[n] = update v[i] = t in z }
          else { let q: f64[n] = update v[i] = 3.0 in q } in u""",
    "inner": """let u: f64 = loop (s: f64 = 0.0) for k from 0 to m {
          let t: f64 = w[i, k] let r: f64 = add(s, t) in r }
        let z: f64[n] = update v[i] = u in z""",
}


@pytest.mark.parametrize("name", INDEPENDENT)
def test_independent_rounds(name: str) -> None:
    assert loops(parallelised(program(INDEPENDENT[name])).program) == 0


DEPENDENT = {
    "earlier round": "let t: f64 = v[i - 1] let u: f64[n] = update v[i] = t in u",
    "later round": "let t: f64 = v[n - 1 - i] let u: f64[n] = update v[i] = t in u",
    "same element": "let t: f64 = a[i] let u: f64[n] = update v[3] = t in u",
    "by data": "let k: i64 = b[i] let u: f64[n] = update v[k] = 1.0 in u",
    "whole array": """let s: f64 = reduce (; k < n) from 0.0 { let t: f64 = v[k] in t }
        with (p: f64, q: f64) { let r: f64 = add(p, q) in r }
        let u: f64[n] = update v[i] = s in u""",
}


@pytest.mark.parametrize("name", DEPENDENT)
def test_dependent_rounds(name: str) -> None:
    assert loops(parallelised(program(DEPENDENT[name], "for i from 1 to n")).program) >= 1


@pytest.mark.parametrize(("lower", "shift"), [(1, 0), (0, 1), (2, -2)])
def test_part_of_an_array(lower: int, shift: int) -> None:
    body = f"let t: f64 = a[i] let u: f64[n] = update v[i + {shift}] = t in u"
    source = program(body.replace("+ -", "- "), f"for i from {lower} to n - 1")
    assert loops(parallelised(source, SIZES).program) == 0


def flat(index: str, inner: str, rounds: str = "n") -> fun.Program:
    return parse(f"""
program main(x: f64[n], a: f64[n], b: i64[n], w: f64[n, m], f: f64[n*m])
  sizes n, m
{{
  let y: f64[n*m] = loop (v: f64[n*m] = f) for i from 0 to {rounds} {{
    let z: f64[n*m] = loop (q: f64[n*m] = v) for j from 0 to {inner} {{
      let t: f64 = a[i]
      let u: f64[n*m] = update q[{index}] = t
      in u
    }}
    in z
  }}
  in y
}}
""")


def test_rows_of_a_flat_array() -> None:
    assert loops(parallelised(flat("m*i + j", "m")).program) == 0
    assert loops(parallelised(flat("i + j", "m")).program) == 1  # the rows overlap


def test_what_sizes_of_a_call_decide_is_assumed() -> None:
    source = parse("""
program main(x: f64[n], a: f64[m])
  sizes n, m
{
  let y: f64[n] = loop (v: f64[n] = x) for i from 0 to m {
    let t: f64 = a[i]
    let c: bool = greater(t, 0.5)
    let u: f64[n] = if c { let z: f64[n] = update v[i] = t in z } else { in v }
    in u
  }
  in y
}
""")
    assert loops(parallelise(source).program) == 1
    result = parallelise(source, {"n": 7, "m": 5})
    assert loops(result.program) == 0
    assert all(fact.holds({"n": 9, "m": 9}) for fact in result.assumed)
    assert not all(fact.holds({"n": 5, "m": 7}) for fact in result.assumed)
    assert loops(parallelise(source, {"n": 5, "m": 7}).program) == 1


OPERATIONS = ["add", "multiply", "minimum", "maximum", "subtract"]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_accumulated_scalars(operation: str) -> None:
    source = parse(f"""
program main(x: f64[n], a: f64[n], b: i64[n], w: f64[n, m], f: f64[n*m])
  sizes n, m
{{
  let y: f64, z: f64 = loop (v: f64 = 0.5, s: f64 = 0.0) for i from 0 to n {{
    let t: f64 = a[i]
    let r: f64 = x[i]
    let u: f64 = {operation}(v, t)
    let q: f64 = {operation}(u, r)
    let k: f64 = add(s, t)
    in q, k
  }}
  in y, z
}}
""")
    assert loops(parallelised(source).program) == 0


def test_accumulated_elements() -> None:
    body = "let t: f64 = v[0] let s: f64 = a[i] let r: f64 = add(t, s)"
    body += " let u: f64[n] = update v[0] = r in u"
    assert loops(parallelised(program(body)).program) == 0
    other = body.replace("a[i]", "v[i]")
    assert loops(parallelised(program(other, "for i from 1 to n")).program) == 0
    assert loops(parallelised(program(other)).program) == 1  # it reads what it accumulates


def test_rounds_that_keep_to_a_row() -> None:
    source = parse("""
program main(x: f64[n], a: f64[n], b: i64[n], w: f64[n, m], f: f64[n*m])
  sizes n, m
{
  let y: f64[n, m] = loop (v: f64[n, m] = w) for i from 0 to n {
    let z: f64[n, m] = loop (q: f64[n, m] = v) for j from 1 to m {
      let r: f64 = q[i, j - 1]
      let s: f64 = q[i, j]
      let t: f64 = add(r, s)
      let u: f64[n, m] = update q[i, j] = t
      in u
    }
    in z
  }
  in y
}
""")
    result = parallelised(source).program
    assert isinstance(result.body.statements[0].expr, fun.Kernel)
    assert loops(result) == 1


@pytest.mark.parametrize("index", ["2", "i"])
def test_what_a_branch_accumulates(index: str) -> None:
    source = parse(f"""
program main(x: f64[n], a: f64[n], b: i64[n], w: f64[n, m], f: f64[n*m])
  sizes n, m
{{
  let y: f64 = loop (v: f64 = 0.5) for i from 0 to n {{
    let t: f64 = a[i]
    let r: f64 = x[{index}]
    let c: bool = less(t, r)
    let u: f64 = if c {{ let s: f64 = add(v, t) in s }} else {{ in v }}
    in u
  }}
  in y
}}
""")
    assert loops(parallelised(source).program) == 0


@pytest.mark.parametrize("bounds", ["0 to i + 1", "i to m", "1 to n - i - 1", "i to i + 2"])
def test_triangles_are_squared(bounds: str) -> None:
    source = parse(f"""
program main(x: f64[n], a: f64[n], b: i64[n], w: f64[n, m], f: f64[n*m])
  sizes n, m
{{
  let y: f64[n, m] = loop (v: f64[n, m] = w) for i from 0 to m - 1 {{
    let z: f64[n, m] = loop (q: f64[n, m] = v) for j from {bounds} {{
      let s: f64 = q[i, j]
      let t: f64 = add(s, 1.0)
      let u: f64[n, m] = update q[i, j] = t
      in u
    }}
    in z
  }} @ "here.py":1
  in y
}}
""")
    sizes = {"n": 5, "m": 6}
    result = parallelise(source, sizes, {Place("here.py", 1)})
    check(result.program)
    assert not result.remarks
    assert loops(result.program) == 0
    (found,), (expected,) = ran(result.program, sizes), ran(source, sizes)
    np.testing.assert_array_equal(found, expected)


def part_read(write: str, read: str, extent: str) -> fun.Program:
    """Rounds that write a part of a row, and add up a slice of the row as it is then."""
    return parse(f"""
program main(x: f64[n, m], a: f64[n])
  sizes n, m
  fact m - 4 >= 0
{{
  let y: f64[n, m] = loop (v: f64[n, m] = x) for i from 0 to n {{
    let t: f64 = a[i]
    let v1: f64[n, m] = update v[i, {write}] = t
    let p: f64[{extent}] = slice v1[i, {read}]
    let r: f64 = reduce (; k < {extent}) from -0.0 {{
      let e: f64 = p[k]
      in e
    }} with (c: f64, d: f64) {{ let s: f64 = add(c, d) in s }}
    let v2: f64[n, m] = update v1[i, 3] = r
    in v2
  }}
  in y
}}
""")


@pytest.mark.parametrize(
    ("write", "read", "extent", "understood"),
    [
        ("0", "0 for m", "m", True),
        ("1 for 2", "0 for m", "m", True),
        ("1", "1 for m - 1", "m - 1", True),
        ("1 for 2", "1 for 3", "3", True),
        ("0", "1 for m - 1", "m - 1", True),  # nothing of it
        ("0 for 2", "1 for m - 1", "m - 1", False),  # a part of what was written
        ("3", "1 for 2", "2", True),
        ("2 for 2", "1 for 2", "2", False),
    ],
)
def test_slices_of_which_parts_were_written(
    write: str, read: str, extent: str, understood: bool
) -> None:
    source = part_read(write, read, extent)
    check(source)
    made = parallelise(source, None).program
    check(made)
    assert (loops(made) == 0) is understood
    arguments = [RANDOM.random((7, 5)), RANDOM.random(7)]
    for found, expected in zip(
        interpret(made, arguments, SIZES), interpret(source, arguments, SIZES), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


PAIRS = """program main(x: f64[n, n], a: f64[n, m]) sizes n, m {
  let y: f64[n, n] = loop (v: f64[n, n] = x) for i from 0 to n {
    let z: f64[n, n] = loop (q: f64[n, n] = v) for j from 0 to i + 1 {
      let s: f64 = loop (t: f64 = 0.0) for k from 0 to m {
        let b: f64 = a[i, k]
        let c: f64 = a[j, k]
        let d: f64 = multiply(b, c)
        let e: f64 = add(t, d)
        in e
      }
      let u: f64[n, n] = update q[i, j] = s
      in u
    }
    in z
  }
  in y
}"""


def test_triangles_of_products_are_squared() -> None:
    """Whether or not the user calls the loop parallel; others stay, which write a triangle."""
    for text, left in ((PAIRS, 0), (PAIRS.replace("a[j, k]", "a[i, k]"), 1)):
        before = parse(text)
        check(before)
        after = parallelise(before).program
        check(after)
        assert loops(after) == left
        values = [RANDOM.random((6, 6)), RANDOM.random((6, 4))]
        np.testing.assert_allclose(interpret(after, values)[0], interpret(before, values)[0])


def test_of_squares_that_are_none_nothing_is_assumed() -> None:
    text = PAIRS.replace("f64[n, n]", "f64[n, p]").replace("sizes n, m", "sizes n, m, p")
    for changed, assumed in (
        (text, ["-n + p >= 0", "n - p == 0"]), (text.replace("a[j, k]", "a[i, k]"), []),
    ):  # fmt: skip
        found = parallelise(parse(changed), {"n": 6, "m": 4, "p": 6}).assumed
        assert [str(fact) for fact in found] == assumed


def test_one_number_in_all_rounds_fills_an_array() -> None:
    text = """program main(x: f64[n, m]) sizes n, m {
  let y: f64[n, m] = loop (v: f64[n, m] = x) for i from 0 to n {
    let z: f64[n, m] = loop (q: f64[n, m] = v) for j from 0 to m {
      let u: f64[n, m] = update q[i, j] = 2.0
      in u
    }
    in z
  }
  in y
}"""
    for written, kinds in (
        (text, [fun.Broadcast]),
        (text.replace("let u:", "let e: f64 = x[j, i]\n let u:").replace("2.0", "e")
         .replace("f64[n, m]", "f64[n, n]").replace("to m", "to n"), [fun.Kernel]),
    ):  # fmt: skip
        made = remove_dead(simplify(parallelise(parse(written)).program))
        check(made)
        assert [type(let.expr) for let in made.body.statements] == kinds


NEST = """program p(x: f64[n, m], a: f64[m], s: f64) sizes n, m {
  let y: f64[n, m], t: f64 = loop (v: f64[n, m] = x, u: f64 = s) for i from 0 to n {
    let z: f64[n, m], w: f64 = loop (q: f64[n, m] = v, r: f64 = u) for j from 0 to m {
      let b: f64 = q[i, j]
      let c: f64 = a[j]
      let d: f64 = multiply(b, c)
      let e: f64[n, m] = update q[i, j] = d
      let f: f64 = add(r, d)
      in e, f
    }
    in z, w
  }
  in y, t
}"""


def test_golden(golden: Callable[[str], None]) -> None:
    golden(before_after(NEST, lambda program: parallelise(program).program))
