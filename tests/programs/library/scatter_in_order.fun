program scatter_in_order(a: f64[n], at: i64[m], b: f64[m])
  sizes n, m
{
  let r: f64[n] = scatter a over (i < m) {
    let v: i64 = at[i]
    let w: f64 = b[i]
    in v, w
  } with (x: f64, y: f64) {
    let t: f64 = multiply(2.0, x)
    let z: f64 = add(t, y)
    in z
  }
  in r
}
