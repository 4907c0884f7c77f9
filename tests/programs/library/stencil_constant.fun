program stencil_constant(a: f64[n])
  sizes n
{
  let r: f64[n] = kernel (i < n) {
    let x: f64 = a[i - 2 : constant(0, n, -1.5)]
    let y: f64 = a[i + 9 : constant(0, n, -1.5)]
    let z: f64 = add(x, y)
    in z
  }
  in r
}
