program stencil_corner(a: f64[n, m])
  sizes n, m
{
  let r: f64[n, m] = kernel (i < n, j < m) {
    let v: f64 = a[i - 1 : constant(0, n, 1.0), j - 1 : constant(0, m, 2.0)]
    in v
  }
  in r
}
