program sum_max_of_one_pass(a: f64[n])
  sizes n
{
  let s: f64, m: f64 = reduce (; i < n) from 0.0, -inf {
    let v: f64 = a[i]
    in v, v
  } with (x: f64, p: f64, y: f64, q: f64) {
    let z: f64 = add(x, y)
    let g: f64 = maximum(p, q)
    in z, g
  }
  in s, m
}
