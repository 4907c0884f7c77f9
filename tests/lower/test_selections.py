"""Selections of one element with its position: which operators are, and what is selected."""

from __future__ import annotations

import numpy as np
import pytest
from fun.test_operators import reduce
from lower.harness import agree, compiled
from lower.operator_texts import NAN, TIES

import weft as wf
from weft.fun import nodes as fun
from weft.fun.operators import selection
from weft.fun.parse import parse

LAST = 9223372036854775807
EXTENTS = [1, 2, 63, 64, 65, 127, 1000, 2047, 2048, 2049, 4096, 4100, 10001]

# ---------------------------------------------------------------- what is a selection

LEAST = """let better: bool = less(rv, lv)
    let same: bool = equal(lv, rv)
    let first: bool = less(ri, li)
    let tie: bool = logical_and(same, first)
    let d: bool = logical_or(better, tie)
    let c: bool = logical_not(d)"""


def first_reduce(text: str) -> fun.Reduce:
    expr = parse(text).body.statements[0].expr
    assert isinstance(expr, fun.Reduce)
    return expr


def test_the_first_largest_or_nan_is_a_maximum() -> None:
    found = selection(reduce(TIES + NAN))
    assert found is not None
    assert (found.position, found.keys, found.is_extreme) == (1, (0,), True)
    assert "maximum" in str(found.best.body.statements)


def test_the_last_of_ties_is_not_searched_for() -> None:
    assert selection(reduce((TIES + NAN).replace("less(li, ri)", "greater(li, ri)"))) is None


def test_components_chosen_by_two_conditions_are_no_selection() -> None:
    text = select("i64", LEAST).replace("where(c, li, ri)", "where(first, ri, li)")
    assert selection(first_reduce(text)) is None


def test_positions_compared_whatever_the_keys_are_no_selection() -> None:
    text = (TIES + NAN).replace("let c: bool", "let k: bool") + "\n    let c: bool = less(li, ri)"
    assert selection(reduce(text)) is None


def test_positions_that_data_move_are_no_selection() -> None:
    text = select("i64", LEAST).replace("size 3 + i", "size a + i")
    assert selection(first_reduce(text)) is None


def test_without_a_rule_for_nan_sides_do_not_commute() -> None:
    assert selection(reduce(LEAST)) is None
    found = selection(first_reduce(select("i64", LEAST)))
    assert found is not None
    assert found.is_extreme


# ---------------------------------------------------------------- what is selected

NAN_FIRST = """let better: bool = COMPARE(rv, lv)
    let same: bool = equal(lv, rv)
    let first: bool = less(ri, li)
    let lnan: bool = not_equal(lv, lv)
    let rnan: bool = not_equal(rv, rv)
    let fine: bool = logical_not(lnan)
    let only: bool = logical_and(rnan, fine)
    let both: bool = logical_and(lnan, rnan)
    let like: bool = logical_or(same, both)
    let tie: bool = logical_and(like, first)
    let e: bool = logical_or(better, only)
    let d: bool = logical_or(e, tie)
    let c: bool = logical_not(d)"""


def select(dtype: str, statements: str, element: str = "x[i]", worst: str = "0") -> str:
    return f"""program p(x: {dtype}[n]) sizes n {{
  let v: {dtype}, k: i64 = reduce (; i < n) from {worst}, {LAST} {{
    let a: {dtype} = {element}
    let p: i64 = size 3 + i
    in a, p
  }} with (lv: {dtype}, li: i64, rv: {dtype}, ri: i64) {{
    {statements}
    let v0: {dtype} = where(c, lv, rv)
    let i0: i64 = where(c, li, ri)
    in v0, i0
  }}
  in v, k
}}"""


def worst(dtype: str, compare: str) -> str:
    kind = parse(f"program p(x: {dtype}[n]) sizes n {{ in x }}").params[0].type.dtype.numpy
    if kind.kind == "f":
        text = "+inf" if compare == "less" else "-inf"
    else:
        limits = np.iinfo(kind)
        text = str(limits.max if compare == "less" else limits.min)
    return text if dtype in ("i64", "f64") else f"{text}_{dtype}"


@pytest.mark.parametrize("compare", ["less", "greater"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "i8", "u8", "i16", "u32", "i64", "u64"])
def test_the_first_of_ties(dtype: str, compare: str) -> None:
    statements = NAN_FIRST.replace("COMPARE", compare)
    program = parse(select(dtype, statements, worst=worst(dtype, compare)))
    segment = compiled(program)
    kind = program.params[0].type.dtype.numpy
    pick = np.argmin if compare == "less" else np.argmax
    rng = np.random.default_rng(4)
    for n in EXTENTS:
        for most in (1, 3, 120):
            x = rng.integers(0, most, n).astype(kind)
            v, k = agree(program, [x], segment=segment, n=n)
            assert (v, k) == (x[pick(x)], pick(x) + 3)
        x = np.sort(x)
        for ordered in (x, x[::-1].copy(), np.full(n, kind.type(np.sort(x)[0]))):
            _, k = agree(program, [ordered], segment=segment, n=n)
            assert k == pick(ordered) + 3


@pytest.mark.parametrize("compare", ["less", "greater"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_nan_infinities_and_signed_zeros(dtype: str, compare: str) -> None:
    statements = NAN_FIRST.replace("COMPARE", compare)
    program = parse(select(dtype, statements, worst=worst(dtype, compare)))
    segment = compiled(program)
    pick = np.argmin if compare == "less" else np.argmax
    rng = np.random.default_rng(5)
    special = np.array([np.inf, -np.inf, 0.0, -0.0, np.nan], program.params[0].type.dtype.numpy)
    for n in EXTENTS:
        for values in (special, special[:4], special[:1], special[1:2], special[2:4], special[4:]):
            x = rng.choice(values, n)
            v, k = agree(program, [x], segment=segment, n=n)
            assert k == pick(x) + 3
            assert np.asarray(v).tobytes() == x[pick(x)].tobytes()
        x = rng.normal(size=n).astype(special.dtype)
        x[rng.integers(0, n, 2)] = np.nan
        _, k = agree(program, [x], segment=segment, n=n)
        assert k == pick(x) + 3


def test_costly_elements_are_kept_in_buffers() -> None:
    """The sine of a vector loop may differ in its last bit from that of a scalar one."""
    program = parse(
        select("f64", NAN_FIRST.replace("COMPARE", "greater"), "x[i]", worst="-inf").replace(
            "let a: f64 = x[i]", "let b: f64 = x[i]\n    let a: f64 = sin(b)"
        )
    )
    segment = compiled(program)
    assert "piece" in segment.source
    rng = np.random.default_rng(6)
    for n in EXTENTS:
        x = rng.uniform(0, 1, n)
        _, k = agree(program, [x], segment=segment, n=n, rtol=1e-12)
        assert k == np.argmax(x) + 3
        x[:] = x[0]
        _, k = agree(program, [x], segment=segment, n=n, rtol=1e-12)
        assert k == 3


PAIRS = f"""program p(x: i32[n], y: f64[n], z: f32[n]) sizes n {{
  let u: i32, v: f64, k: i64, w: f32 =
      reduce (; i < n) from -2147483648_i32, +inf, {LAST}, 0.0_f32 {{
    let a: i32 = x[i]
    let b: f64 = y[i]
    let p: i64 = size i
    let d: f32 = z[i]
    in a, b, p, d
  }} with (la: i32, lb: f64, li: i64, ld: f32, ra: i32, rb: f64, ri: i64, rd: f32) {{
    let more: bool = greater(ra, la)
    let as_much: bool = equal(ra, la)
    let below: bool = less(rb, lb)
    let lnan: bool = not_equal(lb, lb)
    let rnan: bool = not_equal(rb, rb)
    let rfine: bool = logical_not(rnan)
    let loses: bool = logical_and(lnan, rfine)
    let less_then: bool = logical_or(below, loses)
    let same: bool = equal(rb, lb)
    let both: bool = logical_and(lnan, rnan)
    let like: bool = logical_or(same, both)
    let first: bool = less(ri, li)
    let tie: bool = logical_and(like, first)
    let second: bool = logical_or(less_then, tie)
    let then: bool = logical_and(as_much, second)
    let c: bool = logical_or(more, then)
    let a0: i32 = where(c, ra, la)
    let b0: f64 = where(c, rb, lb)
    let i0: i64 = where(c, ri, li)
    let d0: f32 = where(c, rd, ld)
    in a0, b0, i0, d0
  }}
  in u, v, k, w
}}"""


def test_two_keys_and_a_passenger() -> None:
    """The largest x, of these the smallest y (NaN last), of these the first; with its z."""
    program = parse(PAIRS)
    found = selection(first_reduce(PAIRS))
    assert found is not None
    assert (found.position, found.keys, found.is_extreme) == (2, (0, 1), False)
    segment = compiled(program)
    rng = np.random.default_rng(7)
    for n in EXTENTS:
        for most in (1, 4, 1000):
            x = rng.integers(0, most, n).astype(np.int32)
            y = rng.choice([1.0, 2.0, np.inf, np.nan], n)
            z = rng.normal(size=n).astype(np.float32)
            _, _, k, w = agree(program, [x, y, z], segment=segment, n=n)
            order = np.lexsort((np.arange(n), np.isnan(y), np.nan_to_num(y, nan=np.inf), -x))
            ties = np.flatnonzero(
                (x == x[order[0]]) & ((y == y[order[0]]) | (np.isnan(y) & np.isnan(y[order[0]])))
            )
            assert (k, w) == (ties[0], z[ties[0]])


def test_of_no_elements_the_neutral_one() -> None:
    statements = NAN_FIRST.replace("COMPARE", "less")
    program = parse(select("f32", statements, worst=worst("f32", "less")))
    v, k = agree(program, [np.empty(0, np.float32)], segment=compiled(program), n=0)
    assert (v, k) == (np.inf, LAST)


# ---------------------------------------------------------------- of few elements


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "u1", "?"])
@pytest.mark.parametrize("length", [2, 16])
def test_of_few_elements_the_first_is_selected(dtype: str, length: int) -> None:
    """Of ties, zeros of both signs and NaN, with other results of the same elements."""
    random = np.random.default_rng(7)
    x = random.integers(0, 4, (9000, length)).astype(dtype)
    if x.dtype.kind == "f":
        x[random.random(x.shape) < 0.2] = np.nan
        x[random.random(x.shape) < 0.2] = -0.0

    def several(x: np.ndarray) -> tuple[np.ndarray, ...]:
        return x.argmax(1), x.argmin(1), x.max(1), x.min(1)

    for got, expected in zip(wf.jit(several)(x), several(x), strict=True):
        np.testing.assert_array_equal(got, expected)
