program map(a: f64[n])
  sizes n
{
  let r: f64[n] = kernel (i < n) {
    let x: f64 = a[i]
    let y: f64 = exp(x)
    let z: f64 = multiply(y, 2.0)
    in z
  }
  in r
}
