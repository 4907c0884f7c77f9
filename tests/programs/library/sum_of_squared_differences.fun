program sum_of_squared_differences(a: f64[n], b: f64[n])
  sizes n
{
  let r: f64 = reduce (; i < n) from 0.0 {
    let v: f64 = a[i]
    let w: f64 = b[i]
    let d: f64 = subtract(v, w)
    let s: f64 = multiply(d, d)
    in s
  } with (x: f64, y: f64) { let z: f64 = add(x, y) in z }
  in r
}
