program outer_product(a: i32[n], b: i32[m])
  sizes n, m
{
  let r: i32[n, m] = kernel (i < n, j < m) {
    let x: i32 = a[i]
    let y: i32 = b[j]
    let z: i32 = multiply(x, y)
    in z
  }
  in r
}
