"""Loops as FUN, and as IMP once they are optimised: vectors, blocks, and what is done before."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from weft.fun.parse import parse
from weft.fun.show import show
from weft.imp.show import show as show_imp
from weft.lower import fetching, masks
from weft.lower.fetching import Fetching
from weft.lower.registers import Registers
from weft.lower.segment import lower_program
from weft.mem.introduce import introduce
from weft.mem.short_circuit import short_circuit

PROGRAMS = {
    "vectors": """program vectors(x: f64[n], y: f64[n]) sizes n {
  let z: f64[n] = kernel (i < n) {
    let a: f64 = x[i]
    let b: f64 = y[i]
    let c: f64 = multiply(a, b)
    in c
  }
  in z
}""",
    # The root, and where rows begin, are found once a row.
    "invariants": """program invariants(x: f64[n, m], s: f64[n]) sizes n, m {
  let z: f64[n, m] = kernel (i < n, j < m) {
    let a: f64 = x[i, j]
    let b: f64 = s[i]
    let c: f64 = sqrt(b)
    let d: f64 = divide(a, c)
    in d
  }
  in z
}""",
    # Blocks, read along one of their sides and written along the other.
    "turned": """program turned(x: f64[n, m]) sizes n, m {
  let z: f64[m, n] = kernel (i < m, j < n) {
    let a: f64 = x[j, i]
    let b: f64 = add(a, 1.0)
    in b
  }
  in z
}""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_text(
    name: str, golden: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "fetching", lambda: Fetching(1 << 11, 4))
    monkeypatch.setattr(masks, "registers", lambda: Registers(32, 64))
    program = parse(PROGRAMS[name])
    made, _, _ = lower_program(short_circuit(introduce(program, {})), name)
    golden(f"{show(program)}\n{show_imp(made)}")
