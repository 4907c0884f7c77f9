program flatten(a: f64[n, m])
  sizes n, m
{
  let r: f64[m*n] = reshape a (m*n)
  in r
}
