"""Vector math on what reductions of rows give: the bits that it has in a kernel of its own."""

from __future__ import annotations

import numpy as np
from lower.harness import compiled, run

from weft.fun.parse import parse

SUM = """program sum(a: f32[n, m], x: f32[m], b: f32[n]) sizes n, m {
  let y: f32[n] = kernel (i < n) {
    let s: f32 = reduce (; j < m) from -0.0_f32 {
      let p: f32 = a[i, j]
      let q: f32 = x[j]
      let r: f32 = multiply(p, q)
      in r
    } with (l: f32, k: f32) { let t: f32 = add(l, k) in t }
    in s
  }
  in y
}"""

AFTER = """    let c: f32 = b[i]
    let u: f32 = add(s, c)
    let v: f32 = tanh(u)
    let w: f32 = exp(c)
    let z: f32 = add(v, w)
    in z
  }
  in y
}"""

LAYER = SUM.replace("    in s\n  }\n  in y\n}", AFTER)

APART = """program apart(t: f32[n], b: f32[n]) sizes n {
  let y: f32[n] = kernel (i < n) {
    let s: f32 = t[i]
""" + AFTER


def test_a_layer_of_a_network_has_the_bits_of_its_parts() -> None:
    layer, total, apart = (compiled(parse(text)) for text in (LAYER, SUM, APART))
    rng = np.random.default_rng(3)
    for n in (0, 1, 3, 16, 63, 64, 65, 130, 1000):
        a, x, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((n, 9), 9, n))
        (together,) = run(layer, [a, x, b], {"n": n, "m": 9})
        (sums,) = run(total, [a, x, b], {"n": n, "m": 9})
        (expected,) = run(apart, [sums, b], {"n": n})
        assert together.tobytes() == expected.tobytes()
        np.testing.assert_allclose(together, np.tanh(a @ x + b) + np.exp(b), rtol=1e-5, atol=1e-5)
