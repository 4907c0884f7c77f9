program linear_recurrence(a: f64[n], b: f64[n])
  sizes n
{
  let slope: f64[n], offset: f64[n] = scan (i < n) from 1.0, 0.0 {
    let v: f64 = a[i]
    let w: f64 = b[i]
    in v, w
  } with (a1: f64, b1: f64, a2: f64, b2: f64) {
    let a3: f64 = multiply(a1, a2)
    let b3: f64 = multiply(a2, b1)
    let b4: f64 = add(b3, b2)
    in a3, b4
  }
  in offset
}
