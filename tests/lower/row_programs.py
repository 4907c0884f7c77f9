"""Programs that reduce rows in kernels: with what follows the sum, and two results at once."""

LAYER = """program layer(a: f32[n, m], x: f32[m], b: f32[n]) sizes n, m {
  let y: f32[n] = kernel (i < n) {
    let s: f32 = reduce (; j < m) from -0.0_f32 {
      let p: f32 = a[i, j]
      let q: f32 = x[j]
      let r: f32 = multiply(p, q)
      in r
    } with (l: f32, k: f32) { let t: f32 = add(l, k) in t }
    let c: f32 = b[i]
    let u: f32 = add(s, c)
    let v: f32 = FUNCTION(u, 0.0_f32)
    in v
  }
  in y
}"""

EXTREMES = """program extremes(x: f64[k, n, m]) sizes k, n, m {
  let low: f64[k, n], high: f64[k, n] = reduce (h < k, i < n; j < m) from +inf_f64, -inf_f64 {
    let p: f64 = x[h, i, j]
    in p, p
  } with (a: f64, b: f64, c: f64, d: f64) {
    let e: f64 = minimum(a, c)
    let f: f64 = maximum(b, d)
    in e, f
  }
  in low, high
}"""
