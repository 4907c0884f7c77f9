program zip_with_broadcast(a: f32[n, m], b: f32[m])
  sizes n, m
{
  let r: f32[n, m] = kernel (i < n, j < m) {
    let x: f32 = a[i, j]
    let y: f32 = b[j]
    let z: f32 = add(x, y)
    in z
  }
  in r
}
