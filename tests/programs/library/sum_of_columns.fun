program sum_of_columns(a: f64[n, m])
  sizes n, m
{
  let r: f64[m] = reduce (j < m; i < n) from 0.0 {
    let v: f64 = a[i, j]
    in v
  } with (x: f64, y: f64) { let z: f64 = add(x, y) in z }
  in r
}
