program complex_multiply(a: c128[n], b: c128[n])
  sizes n
{
  let r: c128[n] = kernel (i < n) {
    let x: c128 = a[i]
    let y: c128 = b[i]
    let z: c128 = multiply(x, y)
    in z
  }
  in r
}
