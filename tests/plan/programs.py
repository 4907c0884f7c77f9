"""Programs in FUN text with arguments, that between them stream in every way there is."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.fun import nodes as fun
from weft.fun.parse import parse
from weft.passes.split_reductions import always, split_reductions

_random = np.random.default_rng(7)


@dataclass(frozen=True)
class Case:
    name: str
    text: str
    sizes: dict[str, int]
    arguments: Callable[[], dict[str, Any]]
    split: bool = True

    @property
    def program(self) -> fun.Program:
        program = read(self.text)
        return split_reductions(program, always) if self.split else program


def read(text: str) -> fun.Program:
    """The program, in which every sum has variables of its own."""
    pieces = text.split(SUM)
    text = pieces[0]
    for number, piece in enumerate(pieces[1:]):
        text += re.sub(r"\b([uvw])\b", rf"\1_sum{number}", SUM) + piece
    return parse(text)


def _floats(*shape: int) -> Callable[[], dict[str, Any]]:
    """x, of small whole numbers, so that sums are exact in any order."""
    return lambda: {"x": _random.integers(-9, 10, shape).astype(float)}


SUM = "with (u: f64, v: f64) { let w: f64 = add(u, v) in w }"

CASES = [
    Case(
        "normalise_columns",
        f"""program normalise(x: f64[n, m]) sizes n, m {{
          let s: f64[m] = reduce (j < m; i < n) from 0.0 {{ let a: f64 = x[i, j] in a }} {SUM}
          let mean: f64[m] = kernel (j1 < m) {{
            let b: f64 = s[j1]
            let k: f64 = f64(64)
            let c: f64 = divide(b, k)
            in c }}
          let y: f64[n, m] = kernel (i2 < n, j2 < m) {{
            let d: f64 = x[i2, j2]
            let e: f64 = mean[j2]
            let f: f64 = subtract(d, e)
            in f }}
          in y, mean }}""",
        {"n": 4100, "m": 3}, _floats(4100, 3),
    ),
    Case(
        "statistics_of_rows_columns_and_all",
        f"""program stats(x: f64[n, m]) sizes n, m {{
          let r: f64[n] = reduce (i < n; j < m) from 0.0 {{ let a: f64 = x[i, j] in a }} {SUM}
          let s: f64[m] = reduce (j < m; i < n) from 0.0 {{ let a1: f64 = x[i, j] in a1 }} {SUM}
          let t: f64 = reduce (; i < n, j < m) from 0.0 {{ let a2: f64 = x[i, j] in a2 }} {SUM}
          let y: f64[n, m] = kernel (p < n, q < m) {{
            let b: f64 = x[p, q]
            let c: f64 = multiply(b, b)
            in c }}
          in r, s, t, y }}""",
        {"n": 700, "m": 300}, _floats(700, 300),
    ),
    Case(
        "chained_stencils",
        """program stencils(x: f64[n, m]) sizes n, m {
          let y: f64[n, m] = kernel (i < n, j < m) {
            let a: f64 = x[i - 1: edge(0, n), j]
            let b: f64 = x[i + 2: reflect(0, n), j]
            let c: f64 = x[i, j - 1: symmetric(0, m)]
            let d: f64 = add(a, b)
            let e: f64 = add(d, c)
            in e }
          let z: f64[n, m] = kernel (i1 < n, j1 < m) {
            let f: f64 = y[i1 - 3: constant(0, n, 5.0), j1]
            let g: f64 = y[i1 + 1: symmetric(0, n), j1]
            let h: f64 = subtract(f, g)
            in h }
          in y, z }""",
        {"n": 53, "m": 7}, _floats(53, 7),
    ),
    Case(
        "wrapped",
        """program wrapped(x: f64[n]) sizes n {
          let y: f64[n] = kernel (i < n) {
            let a: f64 = x[i - 1: wrap(0, n)]
            let b: f64 = x[i + 5: wrap(0, n)]
            let c: f64 = subtract(a, b)
            in c }
          in y }""",
        {"n": 97}, _floats(97),
    ),
    Case(
        "flipped_strided_halves",
        """program slices(x: f64[n]) sizes n, h fact n - 2*h == 0 {
          let flip: f64[n] = kernel (i < n) { let a: f64 = x[n - 1 - i] in a }
          let even: f64[h] = kernel (j < h) {
            let b: f64 = x[2*j]
            let c: f64 = x[2*j + 1]
            let d: f64 = add(b, c)
            in d }
          let both: f64[h] = kernel (k < h) {
            let e: f64 = x[k]
            let f: f64 = x[k + h]
            let g: f64 = add(e, f)
            in g }
          in flip, even, both }""",
        {"n": 1000, "h": 500}, _floats(1000),
    ),
    Case(
        "with_its_transpose",
        """program symmetric(x: f64[n, n]) sizes n {
          let y: f64[n, n] = kernel (i < n, j < n) {
            let a: f64 = x[i, j]
            let b: f64 = x[j, i]
            let c: f64 = add(a, b)
            in c }
          in y }""",
        {"n": 31}, _floats(31, 31),
    ),
    Case(
        "views",
        """program views(x: f64[n, m]) sizes n, m, k fact k - n*m == 0 {
          let t: f64[m, n] = permute x (1, 0)
          let s: f64[5, m] = slice x [3 for 5 by 2, 0 for m]
          let r: f64[m, n] = reshape x (m, n)
          let f: f64[k] = reshape x (k)
          let b: f64[4, n, m] = broadcast x (4, n, m)
          let c: f64[2*n, m] = concat 0 (x, x)
          let v: f64 = x[4, 1]
          let u: f64[n, m] = update x [2 for 3, 1 for 2] = v
          let w: f64[n, m] = copy x
          in t, s, r, f, b, c, u, w, v, x, x, 3.0 }""",
        {"n": 14, "m": 9, "k": 126}, _floats(14, 9),
    ),
    Case(
        "repeated",
        """program repeat(x: f64[n]) sizes n {
          let y: f64[3*n] = kernel (i < 3*n) {
            let s: i64 = size i
            let q: i64 = floor_divide(s, 3)
            let a: f64 = x[q]
            in a }
          in y }""",
        {"n": 101}, _floats(101),
    ),
    Case(
        "gathered",
        """program gather(x: f64[n], k: i64[m]) sizes n, m {
          let y: f64[m] = kernel (i < m) {
            let s: i64 = k[i]
            let a: f64 = x[s]
            in a }
          in y }""",
        {"n": 50, "m": 77},
        lambda: {"x": np.arange(50.0), "k": _random.integers(0, 50, 77)},
    ),
    Case(
        "running_sums",
        """program scans(x: i64[n]) sizes n {
          let c: i64[n] = scan (i < n) from 10 { let a: i64 = x[i] in a }
            with (u: i64, v: i64) { let w: i64 = add(u, v) in w }
          let d: i64[n] = scan exclusive (j < n) from 0 { let b: i64 = c[j] in b }
            with (u1: i64, v1: i64) { let w1: i64 = maximum(u1, v1) in w1 }
          let e: i64[n] = kernel (k < n) {
            let f: i64 = c[k]
            let g: i64 = d[k - 1: edge(0, n)]
            let h: i64 = subtract(f, g)
            in h }
          in c, d, e }""",
        {"n": 3 * 65536 + 17}, lambda: {"x": _random.integers(-9, 10, 3 * 65536 + 17)},
    ),
    Case(
        "running_sums_of_rows",
        """program rows(x: i64[n, m]) sizes n, m {
          let c: i64[n, m] = scan (i < n, j < m) from 1 { let a: i64 = x[i, j] in a }
            with (u: i64, v: i64) { let w: i64 = add(u, v) in w }
          let d: i64[m, n] = scan (j1 < m, i1 < n) from 0 { let b: i64 = x[i1, j1] in b }
            with (u1: i64, v1: i64) { let w1: i64 = add(u1, v1) in w1 }
          in c, d }""",
        {"n": 40, "m": 23}, lambda: {"x": _random.integers(-9, 10, (40, 23))},
    ),
    Case(
        "histogram",
        """program histogram(x: i64[n]) sizes n, k {
          let zero: i64[k] = broadcast 0 (k)
          let h: i64[k] = scatter zero over (i < n) {
            let a: i64 = x[i]
            let b: i64 = remainder(a, 16)
            in b, 1 } with (u: i64, v: i64) { let w: i64 = add(u, v) in w }
          let last: i64[k] = scatter zero over (j < n) {
            let c: i64 = x[j]
            let d: i64 = remainder(c, 16)
            let e: i64 = size j
            in d, e }
          in h, last }""",
        {"n": 2001, "k": 16}, lambda: {"x": _random.integers(0, 1000, 2001)},
    ),
    Case(
        "centred_after_a_map",
        f"""program centre(x: f64[n]) sizes n {{
          let y: f64[n] = kernel (i < n) {{
            let a: f64 = x[i]
            let b: f64 = multiply(a, a)
            in b }}
          let s: f64 = reduce (; j < n) from 0.0 {{ let c: f64 = y[j] in c }} {SUM}
          let z: f64[n] = kernel (k < n) {{
            let d: f64 = y[k]
            let e: f64 = subtract(d, s)
            in e }}
          in z, s }}""",
        {"n": 3 * 65536 + 5}, _floats(3 * 65536 + 5),
    ),
    Case(
        "generated",
        """program generate(a: f64) sizes n, m {
          let y: f64[n, m] = kernel (i < n, j < m) {
            let s: i64 = size 3*i + j
            let b: f64 = f64(s)
            let c: f64 = multiply(a, b)
            in c }
          in y, a }""",
        {"n": 37, "m": 5}, lambda: {"a": 2.5},
    ),
    Case(
        "nested_rows",
        f"""program nested(x: f64[n, m], h: f64[m]) sizes n, m {{
          let y: f64[n, m], d: f64[n] = kernel (i < n) {{
            let row: f64[m] = slice x [i, 0 for m]
            let t: f64 = reduce (; j < m) from 0.0 {{
              let a: f64 = row[j]
              let b: f64 = h[j]
              let c: f64 = multiply(a, b)
              in c }} {SUM}
            let z: f64[m] = kernel (k < m) {{
              let e: f64 = row[k]
              let f: f64 = add(e, t)
              in f }}
            in z, t }}
          in y, d }}""",
        {"n": 61, "m": 8}, lambda: {**_floats(61, 8)(), "h": np.arange(8.0)}, split=False,
    ),
    Case(
        "loop_over_time",
        """program steps(x: f64[n]) sizes n, t {
          let y: f64[n] = loop (a: f64[n] = x) for s from 0 to t {
            let b: f64[n] = kernel (i < n) {
              let c: f64 = a[i - 1: edge(0, n)]
              let d: f64 = a[i]
              let e: f64 = add(c, d)
              in e }
            in b }
          let z: f64[n] = kernel (j < n) {
            let f: f64 = y[j]
            let g: f64 = x[j]
            let h: f64 = subtract(f, g)
            in h }
          in z }""",
        {"n": 200, "t": 3}, _floats(200),
    ),
]  # fmt: skip

CASES += [
    Case(
        "matrix_products",
        """program products(x: f64[n, m], w: f64[m, k], b: f64[k]) sizes n, m, k {
          let p: f64[n, k] = call matmul(x, w)
          let y: f64[n, k] = kernel (i < n, j < k) {
            let a: f64 = p[i, j]
            let c: f64 = b[j]
            let d: f64 = add(a, c)
            let e: f64 = maximum(d, 0.0)
            in e }
          let c0: f64[m] = kernel (i1 < m) { let f: f64 = w[i1, 0] in f }
          let v: f64[n] = call matmul(x, c0)
          let t: f64[m, n] = permute x (1, 0)
          let g: f64[m, m] = call matmul(t, x)
          let r: f64[k] = call sort(b, axis = 0)
          let s: f64[n, k] = call sort(y, axis = 1)
          let o: i64[n, k] = call searchsorted(r, y)
          let l: i64[2] = kernel (z < 2) { let q: i64 = multiply(z, 3) in q }
          let h: f64[n, k] = call partition(y, l)
          let u: c128[n, k] = call fft(y) to (k)
          let w1: f64[n, m] = call irfft(u, norm = "ortho") to (m)
          in y, v, g, s, o, h, u, w1 }""",
        {"n": 60, "m": 7, "k": 5},
        lambda: {**_floats(60, 7)(), "w": _floats(7, 5)()["x"], "b": np.arange(5.0)},
    ),
]

CASES += [
    Case(
        "free_scalars",
        """program free(x: i64[n], a: i64) sizes n {
          let s: i64 = size n + 3
          let t: i64 = add(s, a)
          let u: i64 = multiply(t, t)
          let y: i64[n] = kernel (i < n) {
            let b: i64 = x[i]
            let c: i64 = add(b, u)
            in c }
          let z: i64[n] = scan (j < n) from t { let d: i64 = y[j] let e: i64 = add(d, t) in e }
            with (f: i64, g: i64) { let h: i64 = add(f, g) in h }
          in y, z, s }""",
        {"n": 65536 * 2 + 9},
        lambda: {"x": _random.integers(-9, 10, 65536 * 2 + 9), "a": 4},
    ),
]
