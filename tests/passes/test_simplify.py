"""One rule a test: printed programs before and after."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from passes.programs import agree, before_after

from weft.fun.parse import parse
from weft.ops.table import lookup
from weft.passes.algebra import _NARROWS
from weft.passes.remove_dead import remove_dead
from weft.passes.share import share
from weft.passes.simplify import simplify

Golden = Callable[[str], None]


def scalar_program(types: str, *lets: str) -> str:
    lines = "\n".join(f"  {let}" for let in lets)
    last = lets[-1].split(":")[0].removeprefix("let ")
    return f"program p({types}) {{\n{lines}\n  in {last}\n}}\n"


SCALARS = {
    "times one": ("x: f64", "let a: f64 = multiply(x, 1.0)"),
    "one times": ("x: f64", "let a: f64 = multiply(1.0, x)"),
    "times zero of floats stays": ("x: f64", "let a: f64 = multiply(x, 0.0)"),
    "times zero of integers": ("x: i64", "let a: i64 = multiply(x, 0)"),
    "plus zero stays": ("x: f64", "let a: f64 = add(x, 0.0)"),
    "zero plus a square": ("x: f64", "let b: f64 = multiply(x, x)", "let a: f64 = add(0.0, b)"),
    "a square plus zero": ("x: f64", "let b: f64 = square(x)", "let a: f64 = add(b, 0.0)"),
    "zero plus a product stays": (
        "x: f64, y: f64", "let b: f64 = multiply(x, y)", "let a: f64 = add(0.0, b)",
    ),
    "zero plus a square of complex stays": (
        "z: c128", "let b: c128 = multiply(z, z)", "let a: c128 = add((0.0, 0.0)_c128, b)",
    ),
    "plus minus zero": ("x: f64", "let a: f64 = add(x, -0.0)"),
    "minus zero": ("x: f64", "let a: f64 = subtract(x, 0.0)"),
    "power 2": ("x: f64", "let a: f64 = pow(x, 2.0)"),
    "power 3": ("x: f64", "let a: f64 = pow(x, 3.0)"),
    "power 1 of complex": ("z: c128", "let a: c128 = pow(z, (1.0, 0.0)_c128)"),
    "power 2 of complex": ("z: c128", "let a: c128 = pow(z, (2.0, 0.0)_c128)"),
    "power 3 of complex": ("z: c128", "let a: c128 = pow(z, (3.0, 0.0)_c128)"),
    "power 4 of complex stays": ("z: c128", "let a: c128 = pow(z, (4.0, 0.0)_c128)"),
    "power half stays": ("x: f64", "let a: f64 = pow(x, 0.5)"),
    "power minus 1": ("x: f64", "let a: f64 = pow(x, -1.0)"),
    "negative twice": ("x: f64", "let b: f64 = negative(x)", "let a: f64 = negative(b)"),
    "not twice": ("x: bool", "let b: bool = logical_not(x)", "let a: bool = logical_not(b)"),
    "floor twice": ("x: f64", "let b: f64 = floor(x)", "let a: f64 = floor(b)"),
    "floor of integer": ("x: i64", "let a: i64 = floor(x)"),
    "where same": ("c: bool, x: f64", "let a: f64 = where(c, x, x)"),
    "where true": ("x: f64, y: f64", "let a: f64 = where(True, x, y)"),
    "where not": (
        "c: bool, x: f64, y: f64", "let d: bool = logical_not(c)", "let a: f64 = where(d, x, y)",
    ),
    "lowest bit": (
        "x: i64", "let b: i64 = bitwise_and(x, 1)", "let a: bool = not_equal(b, 0)",
    ),
    "other bit stays": (
        "x: i64", "let b: i64 = bitwise_and(x, 2)", "let a: bool = not_equal(b, 0)",
    ),
    "bit that chooses": (
        "x: i32, y: i32", "let b: i32 = bitwise_and(x, 8_i32)",
        "let c: bool = not_equal(b, 0_i32)", "let a: i32 = where(c, y, 0_i32)",
    ),
    "lowest bit that chooses": (
        "x: i32, y: i32", "let b: i32 = bitwise_and(x, 1_i32)",
        "let c: bool = not_equal(b, 0_i32)", "let a: i32 = where(c, y, 0_i32)",
    ),
    "two bits that choose stay": (
        "x: i32, y: i32", "let b: i32 = bitwise_and(x, 6_i32)",
        "let c: bool = not_equal(b, 0_i32)", "let a: i32 = where(c, y, 0_i32)",
    ),
    "bit that chooses another number stays": (
        "x: i32, y: i32", "let b: i32 = bitwise_and(x, 8_i32)",
        "let c: bool = not_equal(b, 0_i32)", "let a: i32 = where(c, y, 1_i32)",
    ),
    "comparison with another number stays": (
        "x: i32, y: i32", "let b: i32 = bitwise_and(x, 8_i32)",
        "let c: bool = not_equal(b, 8_i32)", "let a: i32 = where(c, y, 0_i32)",
    ),
    "bit of 64 that chooses stays": (
        "x: i64, y: i32", "let b: i64 = bitwise_and(x, 8)",
        "let c: bool = not_equal(b, 0)", "let a: i32 = where(c, y, 0_i32)",
    ),
    "bit that chooses a float stays": (
        "x: i32, y: f64", "let b: i32 = bitwise_and(x, 8_i32)",
        "let c: bool = not_equal(b, 0_i32)", "let a: f64 = where(c, y, 0.0)",
    ),
    "constants": ("x: f64", "let b: f64 = exp(1.0)", "let a: f64 = multiply(x, b)"),
    "cast to same": ("x: f64", "let a: f64 = f64(x)"),
    "cast there and back": ("x: i16", "let b: f64 = f64(x)", "let a: i16 = i16(b)"),
    "cast that loses stays": ("x: f64", "let b: f32 = f32(x)", "let a: f64 = f64(b)"),
    "cast by way of wider": ("x: i16", "let b: i32 = i32(x)", "let a: f64 = f64(b)"),
    "cast that wraps by way of float stays": (
        "x: i32", "let b: f64 = f64(x)", "let a: i8 = i8(b)",
    ),
    "root that is rounded": (
        "x: f32", "let b: f64 = f64(x)", "let c: f64 = sqrt(b)", "let a: f32 = f32(c)",
    ),
    "quotient with a short constant that is rounded": (
        "x: f32", "let b: f64 = f64(x)", "let c: f64 = divide(1.5, b)", "let a: f32 = f32(c)",
    ),
    "product with a long constant that is rounded stays": (
        "x: f32", "let b: f64 = f64(x)", "let c: f64 = multiply(b, 0.1)", "let a: f32 = f32(c)",
    ),
    "exponential that is rounded stays": (
        "x: f32", "let b: f64 = f64(x)", "let c: f64 = exp(b)", "let a: f32 = f32(c)",
    ),
    "two operations that are rounded once stay": (
        "x: f32, y: f32", "let b: f64 = f64(x)", "let c: f64 = f64(y)", "let d: f64 = add(b, c)",
        "let e: f64 = sqrt(d)", "let a: f32 = f32(e)",
    ),
    "cast of constant": ("x: f32", "let b: f32 = f32(1)", "let a: f32 = add(x, b)"),
}  # fmt: skip


@pytest.mark.parametrize("name", SCALARS)
def test_scalar(name: str, golden: Golden) -> None:
    types, *lets = SCALARS[name]
    text = scalar_program(types, *lets)
    golden(before_after(text, simplify, remove_dead))


VALUES = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 1e-310, 3.0]


@pytest.mark.parametrize("name", [n for n, row in SCALARS.items() if row[0] == "x: f64"])
@pytest.mark.parametrize("value", VALUES)
def test_scalar_values(name: str, value: float) -> None:
    types, *lets = SCALARS[name]
    before = parse(scalar_program(types, *lets))
    after = remove_dead(simplify(before))
    agree(before, after, [np.float64(value)], rtol=1e-15)


@pytest.mark.parametrize("operation", sorted(_NARROWS))
def test_rounded_operations_have_the_bits_of_narrow_ones(operation: str) -> None:
    """Also where numbers are subnormal, overflow, or lie near to what is halfway."""
    found = lookup(operation)
    random = np.random.default_rng(7)
    x, y = (random.integers(0, 2**32, 100_000, np.uint32).view(np.float32) for _ in range(2))
    x[:50_000], y[:50_000] = random.random((2, 50_000), np.float32) + np.float32(1)
    x[25_000:50_000] *= np.float32(2.0**-127)  # a quotient is subnormal, a sum is not rounded
    arguments = (x, y)[: found.arity]
    with np.errstate(all="ignore"):
        wide = found.numpy(*(a.astype(np.float64) for a in arguments)).astype(np.float32)
        narrow = found.numpy(*arguments)
    np.testing.assert_array_equal(wide, narrow)
    np.testing.assert_array_equal(np.signbit(wide), np.signbit(narrow))


@pytest.mark.parametrize(
    ("view", "index", "type_"),
    [
        ("slice a [0 for n, 3 for k by 2]", "i, j", "n, k"),
        ("slice a [5, m - 1 for k by -1]", "j", "k"),
        ("permute a (1, 0)", "j, i", "m, n"),
        ("broadcast a (b, n, m)", "1, i, j", "b, n, m"),
        ("reshape a (n, 1, m)", "i, 0, j", "n, 1, m"),
        ("reshape a (n*m)", "m*i + j", "n*m"),
        ("reshape a (n*m)", "i + j", "n*m"),
        ("copy a", "i, j", "n, m"),
    ],
)
def test_read_through_view(view: str, index: str, type_: str, golden: Golden) -> None:
    text = f"""
    program p(a: f64[n, m]) sizes n, m, k, b {{
      let v: f64[{type_}] = {view}
      let r: f64[n, k] = kernel (i < n, j < k) {{
        let x: f64 = v[{index}]
        in x
      }}
      in r
    }}"""
    if index == "m*i + j":
        text = text.replace("(i < n, j < k)", "(i < n, j < m)").replace("f64[n, k]", "f64[n, m]")
    golden(before_after(text, simplify, remove_dead))


def test_split_by_reshape(golden: Golden) -> None:
    golden(before_after("""
    program p(a: f64[n*m, k]) sizes n, m, k {
      let v: f64[n, m, k] = reshape a (n, m, k)
      let r: f64[n, m, k] = kernel (i < n, j < m, l < k) {
        let x: f64 = v[i, j, l]
        in x
      }
      in r
    }""", simplify, remove_dead))  # fmt: skip


def test_read_with_rule_through_slice(golden: Golden) -> None:
    golden(before_after("""
    program p(a: f64[n]) sizes n {
      let v: f64[n - 2] = slice a [1 for n - 2]
      let r: f64[n] = kernel (i < n) {
        let x: f64 = v[i - 1 : edge (0, n - 2)]
        in x
      }
      in r
    }""", simplify, remove_dead))  # fmt: skip


def test_views_of_views(golden: Golden) -> None:
    golden(before_after("""
    program p(a: f64[n, m]) sizes n, m {
      let b: f64[m, n] = permute a (1, 0)
      let c: f64[n, m] = permute b (1, 0)
      let d: f64[n - 1, m] = slice c [1 for n - 1, 0 for m]
      let e: f64[n - 3] = slice d [2 for n - 3, 7]
      let f: f64[n*m] = reshape c (n*m)
      let g: f64[m, n] = reshape f (m, n)
      in c, e, g
    }""", simplify, remove_dead))  # fmt: skip


def test_constant_condition(golden: Golden) -> None:
    golden(before_after("""
    program p(x: f64) {
      let c: bool = less(1.0, 2.0)
      let a: f64 = if c { let b: f64 = exp(x) in b } else { in x }
      in a
    }""", simplify, remove_dead))  # fmt: skip


def test_loop_of_one_round(golden: Golden) -> None:
    golden(before_after("""
    program p(x: f64, a: f64[n]) sizes n {
      let r: f64 = loop (s: f64 = x) for i from n - 1 to n {
        let v: f64 = a[i]
        let t: f64 = add(s, v)
        in t
      }
      in r
    }""", simplify, remove_dead))  # fmt: skip


def test_unchanging_loop_parameter(golden: Golden) -> None:
    golden(before_after("""
    program p(x: f64, y: f64) sizes n {
      let r: f64, s: f64 = loop (a: f64 = x, b: f64 = y) for i from 0 to n {
        let t: f64 = multiply(a, b)
        in t, b
      }
      in r, s
    }""", simplify, remove_dead))  # fmt: skip


def test_extent_of_one(golden: Golden) -> None:
    golden(before_after("""
    program p(x: f64[n, 1]) sizes n {
      let r: f64[n, 1] = kernel (i < n, j < 1) {
        let v: f64 = x[i, j]
        let w: f64 = exp(v)
        in w
      }
      in r
    }""", simplify, remove_dead))  # fmt: skip


def test_index_arithmetic(golden: Golden) -> None:
    golden(before_after("""
    program p(x: f64[n], at: i64[n]) sizes n {
      let r: f64[n] = kernel (i < n) {
        let j: i64 = size i
        let o: i64 = size n - 1
        let k: i64 = subtract(o, j)
        let l: i64 = at[k]
        let m: i64 = add(l, 1)
        let v: f64 = x[m]
        in v
      }
      in r
    }""", simplify, remove_dead))  # fmt: skip


def test_copy_of_fresh_array(golden: Golden) -> None:
    golden(before_after("""
    program p(x: f64[n]) sizes n {
      let a: f64[n] = kernel (i < n) { let v: f64 = x[i] let w: f64 = exp(v) in w }
      let b: f64[n] = copy a
      let c: f64[n] = copy x
      in b, c
    }""", simplify, remove_dead))  # fmt: skip


def test_kernel_that_copies(golden: Golden) -> None:
    golden(before_after("""
    program p(x: f64[n, m]) sizes n, m {
      let a: f64[n, m] = kernel (i < n, j < m) { let v: f64 = x[i, j] in v }
      let b: f64[m, n] = kernel (k < m, l < n) { let w: f64 = a[l, k] in w }
      in a, b
    }""", simplify, remove_dead))  # fmt: skip


def test_share(golden: Golden) -> None:
    golden(before_after("""
    program p(x: f64[n], y: f64) sizes n {
      let e: f64 = exp(y)
      let a: f64[n] = kernel (i < n) {
        let v: f64 = x[i]
        let w: f64 = exp(y)
        let s: f64 = add(v, w)
        let t: f64 = add(w, v)
        let u: f64 = multiply(s, t)
        in u
      }
      let b: f64[n] = kernel (j < n) {
        let v2: f64 = x[j]
        let w2: f64 = exp(y)
        let s2: f64 = add(v2, w2)
        let t2: f64 = add(w2, v2)
        let u2: f64 = multiply(s2, t2)
        in u2
      }
      in a, b, e
    }""", share))  # fmt: skip


def test_dead_results(golden: Golden) -> None:
    golden(before_after("""
    program p(x: f64[n]) sizes n {
      let a: f64[n], b: f64[n] = kernel (i < n) {
        let v: f64 = x[i]
        let w: f64 = exp(v)
        in v, w
      }
      let s: f64, m: f64 = reduce (; i2 < n) from 0.0, -inf {
        let v2: f64 = a[i2]
        let w2: f64 = log(v2)
        in v2, w2
      } with (l1: f64, l2: f64, r1: f64, r2: f64) {
        let o1: f64 = add(l1, r1)
        let o2: f64 = maximum(l2, r2)
        in o1, o2
      }
      let f: f64, g: f64, h: f64 = loop (p1: f64 = s, p2: f64 = s, p3: f64 = s) for k from 0 to n {
        let q1: f64 = add(p1, p2)
        let q2: f64 = exp(p2)
        let q3: f64 = exp(p3)
        in q1, q2, q3
      }
      in f
    }""", remove_dead))  # fmt: skip


@pytest.mark.parametrize("value", [-3, -2, -1, 0, 1, 2, np.iinfo(np.int64).min])
@pytest.mark.parametrize("name", ["lowest bit", "other bit stays"])
def test_bit_values(name: str, value: int) -> None:
    types, *lets = SCALARS[name]
    before = parse(scalar_program(types, *lets))
    agree(before, simplify(before), [np.int64(value)])


@pytest.mark.parametrize("value", [-(2**31), -9, -8, -1, 0, 1, 6, 7, 8, 2**31 - 1])
@pytest.mark.parametrize(
    "name", [each for each in SCALARS if "choose" in each and "64" not in each]
)
def test_chosen_by_a_bit(name: str, value: int) -> None:
    types, *lets = SCALARS[name]
    before = parse(scalar_program(types, *lets))
    chosen = np.float64(2.5) if "f64" in types else np.int32(-(2**31) + 5)
    agree(before, simplify(before), [np.int32(value), chosen])
