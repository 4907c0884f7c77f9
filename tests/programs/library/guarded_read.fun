program guarded_read(a: f64[n])
  sizes n
{
  let r: f64[n] = kernel (i < n) {
    let s: i64 = size i
    let inside: bool = greater(s, 0)
    let v: f64 = if inside {
      let x: f64 = a[i - 1]
      in x
    } else {
      in 0.0
    }
    in v
  }
  in r
}
