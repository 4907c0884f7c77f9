program normalise_columns(a: f64[n, m])
  sizes n, m
{
  let count: i64 = size n
  let total: f64 = f64(count)
  let s: f64[m], t: f64[m] = reduce (j < m; i < n) from 0.0, 0.0 {
    let v: f64 = a[i, j]
    let w: f64 = multiply(v, v)
    in v, w
  } with (x: f64, p: f64, y: f64, q: f64) {
    let z: f64 = add(x, y)
    let g: f64 = add(p, q)
    in z, g
  }
  let r: f64[n, m] = kernel (i1 < n, j1 < m) {
    let v1: f64 = a[i1, j1]
    let s1: f64 = s[j1]
    let t1: f64 = t[j1]
    let mean: f64 = divide(s1, total)
    let square: f64 = divide(t1, total)
    let mean2: f64 = multiply(mean, mean)
    let variance: f64 = subtract(square, mean2)
    let deviation: f64 = sqrt(variance)
    let d: f64 = subtract(v1, mean)
    let o: f64 = divide(d, deviation)
    in o
  }
  in r
}
