program scatter_last_wins(a: f64[n], at: i64[m], b: f64[m])
  sizes n, m
{
  let r: f64[n] = scatter a over (i < m) {
    let v: i64 = at[i]
    let w: f64 = b[i]
    in v, w
  }
  in r
}
