program growing_blocks(a: f64[n, m], b: f64[m])
  sizes n, m
{
  let flat: f64[m*n] = reshape a (m*n)
  let r: f64[m*n] = loop (v: f64[m*n] = flat) for k from 0 to n {
    let blocks: f64[k + 1, m] = lmad v[0; (k + 1 : m); (m : 1)]
    let means: f64[k + 1] = reduce (i < k + 1; j < m) from 0.0 {
      let x: f64 = blocks[i, j]
      let weight: f64 = b[j]
      let y: f64 = multiply(x, weight)
      in y
    } with (p: f64, q: f64) { let s: f64 = add(p, q) in s }
    let w: f64[m*n] = update_lmad v[m - 1; (k + 1 : m)] = means
    in w
  }
  in r
}
