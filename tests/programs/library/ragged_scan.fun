program ragged_scan(a: f64[n])
  sizes n
{
  let r: f64[n] = kernel (i < n) {
    let sums: f64[i + 1] = scan (j < i + 1) from 0.0 {
      let v: f64 = a[j]
      in v
    } with (x: f64, y: f64) { let z: f64 = add(x, y) in z }
    let most: f64 = reduce (; l < i + 1) from -inf {
      let w: f64 = sums[l]
      in w
    } with (p: f64, q: f64) { let g: f64 = maximum(p, q) in g }
    in most
  }
  in r
}
