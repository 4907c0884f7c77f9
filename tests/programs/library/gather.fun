program gather(a: f64[n], at: i64[m])
  sizes n, m
{
  let r: f64[m] = kernel (i < m) {
    let p: i64 = at[i]
    let v: f64 = a[p]
    in v
  }
  in r
}
