program concat(a: f64[n, m], b: f64[k, m])
  sizes n, m, k
{
  let r: f64[k + 2*n, m] = concat 0 (a, b, a)
  in r
}
