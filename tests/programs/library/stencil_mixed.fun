program stencil_mixed(a: f64[n, m])
  sizes n, m
{
  let r: f64[n, m] = kernel (i < n, j < m) {
    let t: f64 = reduce (; p < 3, q < 3) from 0.0 {
      let v: f64 = a[i + p - 1 : edge(0, n), j + q - 1 : wrap(0, m)]
      in v
    } with (x: f64, y: f64) { let z: f64 = add(x, y) in z }
    in t
  }
  in r
}
