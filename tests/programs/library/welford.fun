program welford(a: f64[n])
  sizes n
{
  let c: i64, u: f64, s: f64 = reduce (; i < n) from 0, 0.0, 0.0 {
    let v: f64 = a[i]
    in 1, v, 0.0
  } with (c1: i64, u1: f64, s1: f64, c2: i64, u2: f64, s2: f64) {
    let c0: i64 = add(c1, c2)
    let one: i64 = maximum(c0, 1)
    let total: f64 = f64(one)
    let left: f64 = f64(c1)
    let right: f64 = f64(c2)
    let d: f64 = subtract(u2, u1)
    let share: f64 = divide(right, total)
    let move: f64 = multiply(d, share)
    let u0: f64 = add(u1, move)
    let d2: f64 = multiply(d, d)
    let weight: f64 = multiply(left, share)
    let more: f64 = multiply(d2, weight)
    let both: f64 = add(s1, s2)
    let s0: f64 = add(both, more)
    in c0, u0, s0
  }
  in c, u, s
}
