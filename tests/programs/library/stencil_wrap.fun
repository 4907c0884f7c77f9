program stencil_wrap(a: f64[n])
  sizes n
{
  let r: f64[n] = kernel (i < n) {
    let x: f64 = a[i - 2 : wrap(0, n)]
    let y: f64 = a[i + 9 : wrap(0, n)]
    let z: f64 = add(x, y)
    in z
  }
  in r
}
