program two_results(a: f64[n, m])
  sizes n, m
{
  let p: f64[n, m], q: f32[n, m] = kernel (i < n, j < m) {
    let x: f64 = a[i, j]
    let y: f64 = negative(x)
    let z: f32 = f32(x)
    in y, z
  }
  in p, q
}
