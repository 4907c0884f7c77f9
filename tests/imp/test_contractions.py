"""Contractions in small tiles, interpreted: every access is inside of its buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.imp.check import check
from weft.imp.interpret import interpret as run
from weft.lower import panels, register_tiles
from weft.lower.registers import Registers
from weft.lower.segment import lower_program
from weft.mem.introduce import introduce
from weft.mem.short_circuit import short_circuit

TEXT = """program half(a: f64[n, l], b: f64[SHAPE], y: f64[n, m]) sizes n, m, l {
  let c: f64[n, m] = kernel (i < n, j < m) {
    let h: i64 = size LEFT
    let d: i64 = size RIGHT
    let g: bool = COMPARISON(h, d)
    let e: f64 = if g {
      let s: f64 = reduce (; k < l) from -0.0 {
        let p: f64 = a[i, k]
        let q: f64 = b[INDEX]
        let r: f64 = multiply(p, q)
        in r
      } with (u: f64, v: f64) { let w: f64 = add(u, v) in w }
      in s
    } else {
      let z: f64 = y[i, j]
      in z
    }
    in e
  }
  in c
}"""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of 4 rows and 8 columns, blocks of 4, registers of 2 elements."""
    monkeypatch.setattr(register_tiles, "registers", lambda: Registers(8, 16))
    monkeypatch.setattr(register_tiles, "ROWS", 32)
    monkeypatch.setattr(register_tiles, "COLUMNS", 64)
    monkeypatch.setattr(register_tiles, "BLOCK", 4)
    monkeypatch.setattr(panels, "BLOCK", 4)


def _bytes(array: Any) -> Any:
    return np.atleast_1d(array).reshape(-1).view(np.uint8)


def inside(text: str, n: int, m: int, inner: int, across: bool) -> None:
    """The lowered program gives what the interpreter gives, and reads nothing beyond."""
    program = parse(text)
    random = np.random.default_rng(n * m + inner)
    shapes = ((n, inner), (m, inner) if across else (inner, m), (n, m))
    arguments = [random.random(shape) for shape in shapes]
    values = {"n": n, "m": m, "l": inner, "threads": 2}
    lowered, unit, workspace = lower_program(short_circuit(introduce(program)), "entry")
    assert any(kernel.startswith("contraction") for kernel in unit.kernels)
    check(lowered)
    for derived in unit.derived:
        values[derived.name] = derived.evaluate(values)
    (expected,) = interpret(program, arguments, {"n": n, "m": m, "l": inner})
    result = np.zeros((n, m))
    buffers = [*arguments, result, np.full(workspace.evaluate(values), 255, np.uint8)]
    names = (*program.sizes, "threads")
    failed, *_ = run(lowered, [_bytes(b) for b in buffers], [values[name] for name in names])
    assert failed == 0
    np.testing.assert_allclose(result, expected, rtol=1e-12)


SIZES = [(1, 1, 1), (5, 9, 5), (9, 3, 4), (4, 8, 0)]


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize(
    ("left", "comparison", "right"),
    [
        ("0", "less_equal", "i"),  # all
        ("j", "less_equal", "i"), ("j", "less", "i"), ("i", "less", "j"), ("i", "greater", "j + 3"),
        ("i + j", "less", "7"), ("i + j", "greater_equal", "6"), ("j", "greater", "4"),
        ("i", "less", "2"), ("n - 1 - i", "less", "j"), ("m", "less", "i"),
    ],
)  # fmt: skip
def test_halves(left: str, comparison: str, right: str, across: bool) -> None:
    text = TEXT.replace("LEFT", left).replace("RIGHT", right).replace("COMPARISON", comparison)
    text = text.replace("SHAPE", "m, l" if across else "l, m")
    text = text.replace("INDEX", "j, k" if across else "k, j")
    for size in SIZES:
        inside(text, *size, across)
