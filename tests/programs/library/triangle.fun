program triangle(a: f64[n, n])
  sizes n
{
  let r: f64[n] = kernel (i < n) {
    let total: f64 = reduce (; j < i + 1) from 0.0 {
      let v: f64 = a[i, j]
      in v
    } with (x: f64, y: f64) { let z: f64 = add(x, y) in z }
    in total
  }
  in r
}
