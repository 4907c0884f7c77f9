program update_scalar(a: f64[n, m])
  sizes n, m
{
  let r: f64[n, m] = update a[1 for n - 1, 1] = 9.0
  in r
}
