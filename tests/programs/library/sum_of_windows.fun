program sum_of_windows(a: f64[m], b: f64[k])
  sizes m, k
{
  let r: f64[-k + m + 1] = reduce (i < -k + m + 1; j < k) from 0.0 {
    let v: f64 = a[i + j]
    let w: f64 = b[j]
    let p: f64 = multiply(v, w)
    in p
  } with (x: f64, y: f64) { let z: f64 = add(x, y) in z }
  in r
}
