program integer_division(a: i32[n], b: i32[n])
  sizes n
{
  let p: i32[n], q: i32[n] = kernel (i < n) {
    let x: i32 = a[i]
    let y: i32 = b[i]
    let z: i32 = floor_divide(x, y)
    let w: i32 = remainder(x, y)
    in z, w
  }
  in p, q
}
