program shrinking_slices(a: f64[n, n])
  sizes n
{
  let r: f64[n, n] = loop (v: f64[n, n] = a) for k from 0 to n {
    let below: f64[-k + n - 1] = slice v[k + 1 for -k + n - 1, k]
    let beside: f64[-k + n - 1] = slice v[k, k + 1 for -k + n - 1]
    let rest: f64[-k + n - 1, -k + n - 1] = slice v[k + 1 for -k + n - 1, k + 1 for -k + n - 1]
    let new: f64[-k + n - 1, -k + n - 1] = kernel (i < -k + n - 1, j < -k + n - 1) {
      let x: f64 = below[i]
      let y: f64 = beside[j]
      let s: f64 = add(x, y)
      let h: f64 = multiply(s, 0.25)
      let old: f64 = rest[i, j]
      let o: f64 = multiply(old, 0.5)
      let d: f64 = add(h, o)
      in d
    }
    let w: f64[n, n] = update v[k + 1 for -k + n - 1, k + 1 for -k + n - 1] = new
    in w
  }
  in r
}
