program eliminate(a: f64[n, m])
  sizes n, m
{
  let y: f64[n, m] = loop (v: f64[n, m] = a) for k from 0 to 4 {
    let pivot: f64 = v[k, k]
    let p: f64[m] = kernel (i < m) {
      let b: f64 = v[k, i]
      let c: f64 = divide(b, pivot)
      in c
    }
    let u: f64[n, m] = update v[k, 0 for m] = p
    let f: f64[n] = slice u[0 for n, k]
    let g: f64[n] = update f[k] = 0.0
    let w: f64[n, m] = kernel (i1 < n, i2 < m) {
      let d: f64 = u[i1, i2]
      let e: f64 = g[i1]
      let h: f64 = p[i2]
      let o: f64 = multiply(e, h)
      let r: f64 = subtract(d, o)
      in r
    }
    in w
  }
  in y
}
