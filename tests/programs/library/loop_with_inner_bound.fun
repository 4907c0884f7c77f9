program loop_with_inner_bound(a: f64[n])
  sizes n
{
  let r: i64[n] = kernel (i < n) {
    let power: i64 = loop (x: i64 = 1) for round from 0 to i {
      let y: i64 = multiply(x, 3)
      in y
    }
    in power
  }
  in r
}
