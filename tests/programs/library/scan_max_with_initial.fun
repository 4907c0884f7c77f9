program scan_max_with_initial(a: f64[n])
  sizes n
{
  let r: f64[n] = scan (i < n) from 0.5 {
    let v: f64 = a[i]
    in v
  } with (x: f64, y: f64) { let z: f64 = maximum(x, y) in z }
  in r
}
