program exclusive_sum(a: f64[n])
  sizes n
{
  let r: f64[n] = scan exclusive (i < n) from 10.0 {
    let v: f64 = a[i]
    in v
  } with (x: f64, y: f64) { let z: f64 = add(x, y) in z }
  in r
}
