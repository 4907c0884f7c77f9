program ragged_reshape(a: f64[n])
  sizes n
{
  let r: f64[n] = kernel (i < n) {
    let ones: f64[i + 1, i] = broadcast 2.0 (i + 1, i)
    let flat: f64[i*i + i] = reshape ones (i*i + i)
    let total: f64 = reduce (; j < i*i + i) from 0.0 {
      let v: f64 = flat[j]
      in v
    } with (x: f64, y: f64) { let z: f64 = add(x, y) in z }
    in total
  }
  in r
}
