program generate(a: f64[n, m])
  sizes n, m
{
  let r: i64[n, m] = kernel (i < n, j < m) {
    let x: i64 = size i*m + j
    in x
  }
  in r
}
