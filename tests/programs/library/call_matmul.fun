program call_matmul(a: f64[n, k], b: f64[k, m])
  sizes n, k, m
{
  let r: f64[n, m] = call matmul(a, b)
  in r
}
