program update_column(a: f64[n, m], b: f64[n])
  sizes n, m
{
  let r: f64[n, m] = update a[n - 1 for n by -1, 0] = b
  in r
}
