program transpose(a: f64[n, m])
  sizes n, m
{
  let r: f64[m, n] = permute a (1, 0)
  in r
}
