program matrix_product(a: f64[n, k], b: f64[k, m])
  sizes n, k, m
{
  let r: f64[n, m] = kernel (i < n, j < m) {
    let t: f64 = reduce (; l < k) from 0.0 {
      let v: f64 = a[i, l]
      let w: f64 = b[l, j]
      let p: f64 = multiply(v, w)
      in p
    } with (x: f64, y: f64) { let z: f64 = add(x, y) in z }
    in t
  }
  in r
}
