program arg_max_of_rows(a: f64[n, m])
  sizes n, m
{
  let s: f64[n], t: i64[n] = reduce (i < n; j < m) from -inf, 9223372036854775807 {
    let v: f64 = a[i, j]
    let at: i64 = size j
    in v, at
  } with (x: f64, p: i64, y: f64, q: i64) {
    let more: bool = greater(y, x)
    let same: bool = equal(y, x)
    let before: bool = less(q, p)
    let tie: bool = logical_and(same, before)
    let take: bool = logical_or(more, tie)
    let z: f64 = where(take, y, x)
    let g: i64 = where(take, q, p)
    in z, g
  }
  in s, t
}
