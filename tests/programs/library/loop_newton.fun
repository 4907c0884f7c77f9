program loop_newton(a: f64[n])
  sizes n
{
  let r: f64[n] = kernel (i < n) {
    let v: f64 = a[i]
    let w: f64 = abs(v)
    let goal: f64 = add(w, 1.0)
    let root: f64 = loop (x: f64 = 1.0) for round from 0 to 40 {
      let q: f64 = divide(goal, x)
      let s: f64 = add(x, q)
      let h: f64 = multiply(0.5, s)
      in h
    }
    in root
  }
  in r
}
