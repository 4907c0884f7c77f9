program nested_softmax(a: f64[n, m])
  sizes n, m
{
  let r: f64[n, m] = kernel (i < n) {
    let row: f64[m] = slice a[i, 0 for m]
    let powers: f64[m] = kernel (j < m) {
      let v: f64 = row[j]
      let e: f64 = exp(v)
      in e
    }
    let total: f64 = reduce (; l < m) from 0.0 {
      let p: f64 = powers[l]
      in p
    } with (x: f64, y: f64) { let z: f64 = add(x, y) in z }
    let out: f64[m] = kernel (q < m) {
      let p1: f64 = powers[q]
      let o: f64 = divide(p1, total)
      in o
    }
    in out
  }
  in r
}
