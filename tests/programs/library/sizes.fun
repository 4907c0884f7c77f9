program sizes(a: f64[n, m])
  sizes n, m
  derived h = floordiv(n + 1, 2)
  derived l = min(n, m)
  fact n - 2 >= 0
{
  let p: i64 = size m*n - 1
  let q: i64 = size h
  let r: i64 = size l
  in p, q, r
}
