program growing_slices(a: f64[n])
  sizes n
{
  let zeros: f64[n] = broadcast 0.0 (n)
  let r: f64[n] = loop (v: f64[n] = zeros) for k from 0 to n {
    let part: f64[k + 1] = slice a[0 for k + 1]
    let doubled: f64[k + 1] = kernel (i < k + 1) {
      let x: f64 = part[i]
      let y: f64 = add(x, x)
      in y
    }
    let old: f64[k + 1] = slice v[0 for k + 1]
    let new: f64[k + 1] = kernel (j < k + 1) {
      let p: f64 = doubled[-j + k]
      let q: f64 = old[j]
      let s: f64 = add(p, q)
      in s
    }
    let w: f64[n] = update v[0 for k + 1] = new
    in w
  }
  in r
}
