"""The interpreter's edges: errors and their places, masks, extents of 0 and 1, sharing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from programs.agree import assert_agree
from programs.library import EXAMPLES

from weft.errors import ArgumentError, ArgumentTypeError, OutOfBoundsError, ShapeError
from weft.fun.check import check
from weft.fun.interpret import interpret
from weft.fun.parse import parse


def run(text: str, *arguments: Any, **sizes: int) -> Any:
    """The one result of a program."""
    (result,) = interpret(parse(text), arguments, sizes)
    return result


# ---------------------------------------------------------------- arguments


def test_sizes_come_from_shapes_and_from_the_caller() -> None:
    text = "program p(a: f64[n]) sizes n, q { let r: i64 = size n*q in r }"
    assert run(text, np.zeros(3), q=5) == 15


def test_wrong_arguments() -> None:
    text = "program p(a: f64[n, n]) sizes n { in a }"
    with pytest.raises(ArgumentError, match="0 arguments"):
        run(text)
    with pytest.raises(ArgumentError, match="size q of p was not given"):
        run("program p() sizes q { in 1 }")
    with pytest.raises(ArgumentTypeError, match="float32"):
        run(text, np.zeros((2, 2), np.float32))
    with pytest.raises(ShapeError, match="1 dimensions"):
        run(text, np.zeros(2))
    with pytest.raises(ShapeError, match=r"\(2, 3\)"):
        run(text, np.zeros((2, 3)))


def test_extents_that_are_derived() -> None:
    text = "program p(a: f64[h], b: f64[n]) sizes n derived h = floordiv(n, 2) { in a }"
    assert run(text, np.zeros(2), np.zeros(5)).shape == (2,)
    with pytest.raises(ShapeError, match="h is 3"):
        run(text, np.zeros(3), np.zeros(5))


def test_results_share_no_memory() -> None:
    a = np.arange(6.0).reshape(2, 3)
    text = (
        "program p(a: f64[n, m]) sizes n, m { let b: f64[m, n] = permute a (1, 0) in a, a, b, b }"
    )
    results = interpret(parse(text), (a,))
    every = [a, *results]
    for i, left in enumerate(every):
        for right in every[i + 1 :]:
            assert not np.may_share_memory(left, right)
    assert all(result.flags.c_contiguous and result.flags.writeable for result in results)


def test_scalar_results_are_numpy_scalars() -> None:
    results = EXAMPLES["sum"], EXAMPLES["sizes"], EXAMPLES["welford"]
    for example in results:
        for result in interpret(example.program, example.arguments()):
            assert isinstance(result, np.generic)


# ---------------------------------------------------------------- bounds

READ = """program p(a: f64[n], t: i64)
  sizes n
{
  let r: f64[n] = kernel (i < n) {
    let x: f64 = a[INDEX] @ "user.py":12
    in x
  }
  in r
}
"""


@pytest.mark.parametrize(
    ("index", "found"),
    [("i + 1", "index 4"), ("i - 1", "index -1"), ("t", "index 9"), ("2*i", "index 4")],
)
def test_out_of_bounds(index: str, found: str) -> None:
    with pytest.raises(OutOfBoundsError, match=found) as caught:
        run(READ.replace("INDEX", index), np.zeros(4), 9)
    assert caught.value.place is not None
    assert str(caught.value.place) == "user.py:12"
    assert "axis 0 of a" in str(caught.value)


def test_negative_indices_do_not_wrap() -> None:
    with pytest.raises(OutOfBoundsError):
        run("program p(a: f64[n], t: i64) sizes n { let x: f64 = a[t] in x }", np.ones(3), -1)


def test_only_the_branch_taken_must_be_in_bounds() -> None:
    text = """program p(a: f64[n], c: bool[n])
  sizes n
{
  let r: f64[n] = kernel (i < n) {
    let use: bool = c[i]
    let v: f64 = if use {
      let x: f64 = a[i + 2]
      in x
    } else {
      in -1.0
    }
    in v
  }
  in r
}
"""
    a = np.arange(5.0)
    expected = np.array([2.0, -1, 4, -1, -1])
    assert_agree([run(text, a, expected >= 0)], [expected], exact=True)
    with pytest.raises(OutOfBoundsError, match="index 5"):
        run(text, a, np.array([True, False, False, True, False]))
    assert run(text, a, np.zeros(5, bool)).tolist() == [-1.0] * 5


def test_a_round_of_all_follows_one_of_some() -> None:
    """A loop in a loop, each of which begins later for later indices."""
    text = """program p()
  sizes n
{
  let r: i64[n] = kernel (i < n) {
    let t: i64 = loop (u: i64 = 0) for k from i to n {
      let v: i64 = loop (w: i64 = u) for m from i to n { let x: i64 = add(w, 1) in x }
      in v
    }
    in t
  }
  in r
}"""
    assert run(text, n=4).tolist() == [16, 9, 4, 1]


def test_nested_branches_and_loops_stay_masked() -> None:
    """A read in a loop in a branch, in bounds just where it is made."""
    text = """program p(a: f64[n])
  sizes n
{
  let r: f64[n] = kernel (i < n) {
    let at: i64 = size i
    let deep: bool = greater(at, 1)
    let v: f64 = if deep {
      let total: f64, left: i64 = loop (t: f64 = 0.0, l: i64 = at) while { let m: bool = greater(l, 0) in m } {
        let x: f64 = a[l - 1]
        let even: i64 = remainder(l, 2)
        let is: bool = equal(even, 0)
        let y: f64 = if is {
          let z: f64 = a[l - 2]
          in z
        } else {
          in x
        }
        let u: f64 = add(t, y)
        let k: i64 = subtract(l, 1)
        in u, k
      }
      in total
    } else {
      in 0.0
    }
    in v
  }
  in r
}
"""  # noqa: E501
    a = np.arange(1.0, 8.0)

    def element(i: int) -> float:
        if i <= 1:
            return 0.0
        return float(sum(a[k - 2] if k % 2 == 0 else a[k - 1] for k in range(1, i + 1)))

    assert run(text, a).tolist() == [element(i) for i in range(7)]


def test_scatter_and_slice_out_of_bounds() -> None:
    text = """program p(a: f64[n]) sizes n {
  let r: f64[n] = scatter a over (i < n) {
    let p: i64 = size i + 1
    let x: f64 = a[i]
    in p, x
  }
  in r
}
"""
    with pytest.raises(OutOfBoundsError, match="index 3"):
        run(text, np.zeros(3))
    slice_ = "program p(a: f64[n]) sizes n { let r: f64[n] = slice a[1 for n] in r }"
    with pytest.raises(OutOfBoundsError, match="index 3"):
        run(slice_, np.zeros(3))
    empty = "program p(a: f64[n]) sizes n { let r: f64[0] = slice a[9 for 0] in r }"
    assert run(empty, np.zeros(3)).shape == (0,)


def test_boundary_of_an_empty_array() -> None:
    text = "program p(a: f64[0], t: i64) { let x: f64 = a[t : %s] in x }"
    assert run(text % "constant(0, 0, 7.0)", np.zeros(0), 0) == 7.0
    with pytest.raises(OutOfBoundsError):
        run(text % "edge(0, 0)", np.zeros(0), 0)


def test_boundary_of_a_window() -> None:
    """Limits in a window's own coordinates: the larger array is [-2, 6), the window [0, 5)."""
    text = """program p(a: f64[5]) {
  let r: f64[3] = kernel (i < 3) {
    let x: f64 = a[i + 4 : reflect(-2, 6)]
    in x
  }
  in r
}
"""
    with pytest.raises(OutOfBoundsError):  # index 5 is real, but not in the window
        run(text, np.arange(5.0))
    assert run(text.replace("6)", "5)"), np.arange(5.0)).tolist() == [4.0, 3.0, 2.0]


# ---------------------------------------------------------------- values


def test_integers_wrap_and_division_is_total() -> None:
    text = "program p(a: i8, b: i8) { let r: i8 = %s(a, b) in r }"
    assert run(text % "add", 127, 1) == -128
    assert run(text % "multiply", 100, 100) == np.int8(16)
    assert run(text % "floor_divide", 5, 0) == 0
    assert run(text % "floor_divide", -128, -1) == -128


def test_casts_are_silent() -> None:
    with np.errstate(all="raise"):
        text = "program p(a: f64) { let r: i32 = i32(a) in r }"
        assert run(text, 2.9) == 2
        assert run(text, np.nan) == np.iinfo(np.int32).min


def test_small_integers_reduce_in_their_own_dtype() -> None:
    text = """program p(a: i8[n]) sizes n {
  let r: i8 = reduce (; i < n) from 0_i8 {
    let x: i8 = a[i]
    in x
  } with (p: i8, q: i8) { let s: i8 = add(p, q) in s }
  in r
}
"""
    result = run(text, np.full(3, 100, np.int8))
    assert result == np.int8(44)
    assert result.dtype == np.int8


@pytest.mark.parametrize("extent", [0, 1, 2, 3, 5, 8, 17, 64, 65])
def test_operators_that_do_not_commute_combine_in_order(extent: int) -> None:
    """Composition of affine maps x -> a*x + b, folded from the left."""
    text = """program p(a: i64[n], b: i64[n]) sizes n {
  let c: i64, d: i64 = reduce (; i < n) from 1, 0 {
    let x: i64 = a[i]
    let y: i64 = b[i]
    in x, y
  } with (a1: i64, b1: i64, a2: i64, b2: i64) {
    let a3: i64 = multiply(a1, a2)
    let b3: i64 = multiply(a2, b1)
    let b4: i64 = add(b3, b2)
    in a3, b4
  }
  in c, d
}
"""
    rng = np.random.default_rng(extent)
    a, b = rng.integers(-5, 5, (2, extent))
    slope, offset = np.int64(1), np.int64(0)
    with np.errstate(over="ignore"):
        for x, y in zip(a, b, strict=True):
            slope, offset = slope * x, x * offset + y
    assert_agree(interpret(parse(text), (a, b)), (slope, offset))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (1, 5), (0, 0)])
def test_extents_of_zero_and_one(shape: tuple[int, int]) -> None:
    a = np.random.default_rng(0).normal(size=shape)
    for name in ("transpose", "flatten", "generate", "two_results", "cumulative_sum", "sum",
                 "sum_of_rows", "sum_of_columns", "nested_softmax"):  # fmt: skip
        example = EXAMPLES[name]
        assert_agree(interpret(example.program, (a,)), example.results((a,)))


def test_free_variables_of_an_operator() -> None:
    """An operator may use what is in scope around the expression."""
    text = """program p(a: f64[n, m], s: f64[n]) sizes n, m {
  let r: f64[n] = kernel (i < n) {
    let w: f64 = s[i]
    let t: f64 = reduce (; j < m) from -inf {
      let x: f64 = a[i, j]
      in x
    } with (p: f64, q: f64) {
      let u: f64 = maximum(p, q)
      let v: f64 = minimum(u, w)
      in v
    }
    in t
  }
  in r
}
"""
    rng = np.random.default_rng(1)
    a, s = rng.normal(size=(4, 6)), rng.normal(size=4)
    assert_agree([run(text, a, s)], [np.minimum(a.max(axis=1), s)])


def test_scatter_into_rows_with_an_operator_that_is_no_ufunc() -> None:
    text = """program p(at: i64[n, m], a: f64[n, m]) sizes n, m {
  let r: f64[n, 3] = kernel (i < n) {
    let zero: f64[3] = broadcast 0.0 (3)
    let row: f64[3] = scatter zero over (j < m) {
      let p: i64 = at[i, j]
      let x: f64 = a[i, j]
      in p, x
    } with (old: f64, new: f64) {
      let half: f64 = multiply(old, 0.5)
      let sum: f64 = add(half, new)
      in sum
    }
    in row
  }
  in r
}
"""
    rng = np.random.default_rng(2)
    at, a = rng.integers(0, 3, (4, 9)), rng.normal(size=(4, 9))
    expected = np.zeros((4, 3))
    for i in range(4):
        for j in range(9):
            expected[i, at[i, j]] = 0.5 * expected[i, at[i, j]] + a[i, j]
    assert_agree([run(text, at, a)], [expected])


def test_slices_that_start_where_the_index_says() -> None:
    text = """program p(a: f64[n], at: i64[m]) sizes n, m {
  let r: f64[m, 2] = kernel (i < m) {
    let p: i64 = at[i]
    let w: f64[2] = slice a[p for 2 by -1]
    in w
  }
  in r
}
"""
    a, at = np.arange(6.0), np.array([5, 1, 3])
    assert run(text, a, at).tolist() == [[5, 4], [1, 0], [3, 2]]
    with pytest.raises(OutOfBoundsError, match="index -1"):
        run(text, a, np.array([0, 1, 2]))


def test_updates_where_the_index_says() -> None:
    text = """program p(a: f64[n], at: i64[m]) sizes n, m {
  let r: f64[m, n] = kernel (i < m) {
    let p: i64 = at[i]
    let v: i64 = size i
    let x: f64 = f64(v)
    let w: f64[n] = update a[p for 2] = x
    in w
  }
  in r
}
"""
    expected = np.tile(np.full(4, 9.0), (3, 1))
    at = np.array([2, 0, 1])
    for i, p in enumerate(at):
        expected[i, p : p + 2] = i
    assert_agree([run(text, np.full(4, 9.0), at)], [expected])


def test_loops_in_kernels_carry_arrays() -> None:
    text = """program p(a: f64[n, m]) sizes n, m {
  let r: f64[n, m] = kernel (i < n) {
    let row: f64[m] = slice a[i, 0 for m]
    let out: f64[m] = loop (x: f64[m] = row) for t from 0 to i {
      let y: f64[m] = kernel (j < m) {
        let u: f64 = x[j]
        let v: f64 = add(u, 1.0)
        in v
      }
      in y
    }
    in out
  }
  in r
}
"""
    a = np.zeros((4, 3))
    assert_agree([run(text, a)], [np.repeat(np.arange(4.0)[:, None], 3, axis=1)])


def test_operators_whose_sizes_differ_from_pair_to_pair() -> None:
    """An operator that builds arrays as long as its operands say."""
    text = """program p(a: i64[n]) sizes n {
  let r: i64 = reduce (; i < n) from 0 {
    let x: i64 = a[i]
    in x
  } with (p: i64, q: i64) {
    let left: i64[p] = broadcast 1 (p)
    let right: i64[q] = broadcast 1 (q)
    let both: i64[p + q] = concat 0 (left, right)
    let sum: i64 = reduce (; j < p + q) from 0 {
      let y: i64 = both[j]
      in y
    } with (u: i64, v: i64) { let w: i64 = add(u, v) in w }
    in sum
  }
  in r
}
"""
    check(parse(text))
    assert run(text, np.array([3, 1, 4, 1, 5])) == 14
    assert run(text, np.array([], np.int64)) == 0
