"""What is read at an index that a reduction selected is what it selected."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from agreement.ways import assert_equal_bits, compiled, interpreted
from passes.programs import agree, before_after

import weft as wf
from weft import execute
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.parse import parse
from weft.passes.pipeline import optimise
from weft.passes.remove_dead import remove_dead
from weft.passes.simplify import simplify

LEAST = """program p(a: f32[n], b: f32[n]) sizes n {
  let v: f32, i: i64 = reduce (; k < n) from +inf_f32, 9223372036854775807 {
    let x: f32 = a[k]
    in x, k
  } with (lv: f32, li: i64, rv: f32, ri: i64) {
    let c: bool = less(rv, lv)
    let w: f32 = where(c, rv, lv)
    let j: i64 = where(c, ri, li)
    in w, j
  }
  let y: f32 = a[i]
  in y, i
}"""
ROWS = (
    LEAST.replace("f32[n]", "f32[m, n]").replace("sizes n", "sizes m, n")
    .replace("v: f32, i: i64 = reduce (; ", "v: f32[m], i: i64[m] = reduce (r < m; ")
    .replace("a[k]", "a[r, k]")
    .replace(
        "let y: f32 = a[i]",
        "let y: f32[m] = kernel (q < m) { let j2: i64 = i[q] let z: f32 = a[q, j2] in z }",
    )
)  # fmt: skip

FOUND = {
    "an_element": LEAST,
    "backwards": LEAST.replace("a[k]", "a[n - 1 - k]").replace("a[i]", "a[n - 1 - i]"),
    "from_an_offset_on": LEAST.replace("k < n", "k < n - 1").replace(
        "let x: f32 = a[k]\n    in x, k", "let s: i64 = size k + 1 let x: f32 = a[k + 1] in x, s"
    ),
    "of_each_row": ROWS,
    "from_the_end": LEAST.replace(
        "let y: f32 = a[i]",
        "let s: i64 = size n let d: bool = less(i, 0) let e: i64 = add(i, s)"
        " let f: i64 = where(d, e, i) let y: f32 = a[f]",
    ),
}

NOT_FOUND = {
    "perhaps_of_nothing": LEAST.replace("k < n", "k < n - 2"),
    "sides_mixed": LEAST.replace("where(c, ri, li)", "where(c, li, ri)"),
    "each_by_its_own": LEAST.replace("w: f32 = where(c, rv, lv)", "w: f32 = minimum(lv, rv)"),
    "computed": LEAST.replace("let x: f32 = a[k]", "let t: f32 = a[k] let x: f32 = abs(t)"),
    "of_another_array": LEAST.replace("y: f32 = a[i]", "y: f32 = b[i]"),
    "another_element": LEAST.replace("k < n", "k < n - 1").replace("= a[i]", "= a[i + 1]"),
    "by_a_boundary_rule": LEAST.replace("a[k]", "a[k : edge (0, n)]"),
    "of_another_row": ROWS.replace("a[q, j2]", "a[0, j2]"),
}  # fmt: skip


def reads(program: fun.Program) -> int:
    """How many reads of a parameter stand outside of reductions."""
    parameters = {param.name for param in program.params}
    statements = list(walk.statements(program.body))
    reduced = {
        id(inner)
        for let in statements
        if isinstance(let.expr, fun.Reduce)
        for inner in walk.statements(let.expr.body)
    }
    return sum(
        isinstance(let.expr, fun.Index)
        and let.expr.array.name in parameters
        and id(let) not in reduced
        for let in statements
    )


def inputs(program: fun.Program) -> list[np.ndarray]:
    shape = (5, 7) if program.sizes == ("m", "n") else (7,)
    values = np.random.default_rng(1).integers(-2, 3, (2, *shape)).astype(np.float32)
    return [values[0], values[1]]


@pytest.mark.parametrize("name", FOUND)
def test_it_is_what_was_selected(name: str) -> None:
    program = parse(FOUND[name])
    after = remove_dead(simplify(program))
    assert reads(program) == 1
    assert reads(after) == 0
    agree(program, after, inputs(program))


@pytest.mark.parametrize("name", NOT_FOUND)
def test_it_is_read(name: str) -> None:
    program = parse(NOT_FOUND[name])
    after = remove_dead(simplify(program))
    assert reads(after) == 1
    agree(program, after, inputs(program))


def test_a_read_from_the_end(golden: Callable[[str], None]) -> None:
    golden(before_after(FOUND["from_the_end"], simplify, remove_dead))


INDICES = {
    "of_a_loop": ("let y: f32[n] = kernel (q < n) { let d: bool = less(q, 0)", "q", True),
    "less_one": (
        "let y: f32[n] = kernel (q < n) { let s: i64 = size q - 1 let d: bool = less(s, 0)", "q",
        False,
    ),
    "with_a_little_more": (
        "let y: f32[n] = kernel (q < n) { let t: i64 = size q + 3 let d: bool = less(t, 0)",
        "q", True,
    ),
    "that_wraps": (
        "let y: f32[n] = kernel (q < n) { let w: i64 = multiply(q, 6364136223846793005)"
        " let d: bool = less(w, 0)", "q", False,
    ),
    "of_data": ("let y: f32[n] = kernel (q < n) { let s: i64 = a[q] let d: bool = less(s, 0)", "q",
        False),
}  # fmt: skip


@pytest.mark.parametrize("name", INDICES)
def test_an_index_is_not_negative(name: str) -> None:
    begin, index, known = INDICES[name]
    text = f"""program p(a: i64[n], b: f32[n]) sizes n {{
      {begin} let u: i64 = where(d, 0, {index}) let z: f32 = b[u] in z }}
      in y
    }}"""
    program = parse(text)
    after = remove_dead(simplify(program))
    left = [let for let in walk.statements(after.body) if isinstance(let.expr, fun.Apply)]
    assert (not left) == known
    agree(program, after, [np.arange(-1, 3), np.arange(4, dtype=np.float32)])


VALUES = {
    "ties": np.array([3, 1, 1, 5, 1], np.float32),
    "zeros": np.array([0.0, -0.0, 0.0], np.float32),
    "nan": np.array([2, np.nan, 1, np.nan], np.float32),
    "infinities": np.full(5, np.inf, np.float32),
    "greatest_integers": np.full(5, 2**31 - 1, np.int32),
}


@pytest.mark.parametrize("values", VALUES)
def test_values_of_all_kinds(values: str) -> None:
    """Whole: signs of zeros, and the first of equals."""
    data = [np.tile(VALUES[values], 700)]

    def users(x: wf.Array) -> tuple[wf.Array, ...]:
        rows = wf.reshape(x[::-1], (-1, len(VALUES[values])))
        of_rows = wf.argmin(rows, axis=1, keepdims=True)
        return x[wf.argmin(x)], x[wf.argmax(x)], wf.take_along_axis(rows, of_rows, axis=1)

    expected = interpreted(users, data)
    x, rows = data[0], data[0][::-1].reshape(-1, len(VALUES[values]))
    reference = [x[x.argmin()], x[x.argmax()], rows[np.arange(len(rows)), rows.argmin(1)][:, None]]
    assert_equal_bits(expected, reference)
    assert_equal_bits(compiled(users, data), expected)


def test_an_array_that_only_the_winner_is_read_of_is_not_made() -> None:
    x = wf.asarray(np.arange(5000, dtype=np.float32))
    y = wf.sqrt(x) * 2
    computation, _ = execute.computation_of([y[wf.argmax(y)]._node])
    made = [let.expr for let in optimise(computation.program).body.statements]
    assert [type(expr) for expr in made] == [fun.Reduce]
