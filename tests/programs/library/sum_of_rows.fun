program sum_of_rows(a: f64[n, m])
  sizes n, m
{
  let r: f64[n] = reduce (i < n; j < m) from 0.0 {
    let v: f64 = a[i, j]
    in v
  } with (x: f64, y: f64) { let z: f64 = add(x, y) in z }
  in r
}
