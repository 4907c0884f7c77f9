program row_and_column(a: f64[n, m])
  sizes n, m
{
  let p: f64[m] = slice a[2, 0 for m]
  let q: f64[n] = slice a[0 for n, 1]
  in p, q
}
