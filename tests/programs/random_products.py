"""Random contractions: operands in any layout, batches, halves of the plane, what follows a sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

_DTYPES = ("f32", "f64", "i32", "i64", "u32", "u64")
_EXTENT = {"g": "h", "i": "n", "j": "m", "k": "l"}
_OPERATORS = {"add": "0", "minimum": "7", "maximum": "0"}


@st.composite
def product_texts(draw: Callable[[Any], Any]) -> str:
    """A program over a, b and y, of sizes h, n, m and l, that is one contraction."""
    dtype = draw(st.sampled_from(_DTYPES))
    operator = draw(st.sampled_from(list(_OPERATORS)))
    neutral = "-0.0" if operator == "add" and dtype in ("f32", "f64") else _OPERATORS[operator]
    if neutral in ("0", "7") and dtype in ("f32", "f64"):
        neutral += ".0"
    if dtype not in ("i64", "f64"):
        neutral += f"_{dtype}"
    batch = draw(st.sampled_from(["", "g"]))
    left, right = ("".join(draw(st.permutations(batch + own))) for own in ("ik", "kj"))
    space = ", ".join(f"{index} < {_EXTENT[index]}" for index in f"{batch}ij")
    joint = draw(st.sampled_from(["multiply(p, q)", "add(p, q)", "subtract(q, p)"]))
    triangle = draw(st.sampled_from(["", "less", "greater_equal"]))
    after = draw(st.sampled_from(["add(s, z)", "maximum(s, z)", "multiply(z, s)"]))
    total = f"""let s: {dtype} = reduce (; k < l) from {neutral} {{
      let p: {dtype} = a[{_listed(left)}]
      let q: {dtype} = b[{_listed(right)}]
      let r: {dtype} = {joint}
      in r
    }} with (u: {dtype}, v: {dtype}) {{ let w: {dtype} = {operator}(u, v) in w }}
    let e: {dtype} = {after}"""
    if triangle:
        body = f"""let d: i64 = size i
    let f: i64 = size j
    let c: bool = {triangle}(f, d)
    let x: {dtype} = if c {{ {total} in e }} else {{ in z }}
    in x"""
    else:
        body = f"{total}\n    in e"
    shapes = [", ".join(_EXTENT[index] for index in side) for side in (left, right, f"{batch}ij")]
    return f"""program product(a: {dtype}[{shapes[0]}], b: {dtype}[{shapes[1]}],
    y: {dtype}[{shapes[2]}]) sizes h, n, m, l {{
  let o: {dtype}[{shapes[2]}] = kernel ({space}) {{
    let z: {dtype} = y[{_listed(f"{batch}ij")}]
    {body}
  }}
  in o
}}"""


def _listed(indices: str) -> str:
    return ", ".join(indices)
