program branch_on_scalar(a: f64[n], s: f64)
  sizes n
{
  let positive: bool = greater(s, 0.0)
  let r: f64[n] = if positive {
    in a
  } else {
    let b: f64[n] = kernel (i < n) {
      let x: f64 = a[i]
      let y: f64 = negative(x)
      in y
    }
    in b
  }
  in r
}
