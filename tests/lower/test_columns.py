"""Records that are copied to columns by code that is compiled already."""

from __future__ import annotations

import numpy as np
import pytest
from lower.harness import agree, compiled

from weft.fun.parse import parse
from weft.ops.dtypes import DType

RNG = np.random.default_rng(33)


def turned(
    dtype: str = "f64", columns: str = "3", read: str = "a[k, c]", array: str = "[m, w]",
    element: str = "x", fact: str = "fact w - 3 >= 0",
) -> str:  # fmt: skip
    return f"""
    program p(a: {dtype}{array}) sizes m, w
      {fact}
    {{
      let t: {dtype}[{columns}, m] = kernel (c < {columns}, k < m) {{
        let x: {dtype} = {read}
        let y: {dtype} = add(x, x)
        in {element}
      }}
      in t
    }}"""


def plain(text: str) -> str:
    """Without what is not used, as passes leave it."""
    lines = text.splitlines()
    return "\n".join(line for line in lines if "add(" not in line) if "in x" in text else text


@pytest.mark.parametrize("dtype", list(DType))
@pytest.mark.parametrize("records", [0, 1, 5000])
def test_copies(dtype: DType, records: int) -> None:
    program = parse(plain(turned(str(dtype))))
    segment = compiled(program)
    assert "context->columns(" in segment.source
    assert "for (" not in segment.source
    a = (100 * RNG.random((records, 4)) - 50).astype(dtype.numpy)
    agree(program, [a], rtol=0, segment=segment)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"element": "y"}, "it computes"),
        ({"columns": "w", "fact": ""}, "any number of columns"),
        ({"columns": "17", "fact": "fact w - 17 >= 0"}, "more than few"),
        ({"fact": ""}, "records may have two numbers"),
        ({"read": "a[c, k]", "array": "[w, m]"}, "they are columns"),
        ({"read": "a[k + 1 : edge(0, m), c]"}, "at an edge, a record comes twice"),
    ],
)  # fmt: skip
def test_what_is_compiled(change: dict[str, str], why: str) -> None:
    assert "context->columns(" not in compiled(parse(plain(turned(**change)))).source, why
