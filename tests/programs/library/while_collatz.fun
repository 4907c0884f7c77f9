program while_collatz(a: f64[n])
  sizes n
{
  let r: i64[n] = kernel (i < n) {
    let start: i64 = size i
    let last: i64, steps: i64 = loop (v: i64 = start, c: i64 = 0) while { let more: bool = greater(v, 1) in more } {
      let odd: i64 = remainder(v, 2)
      let is_odd: bool = equal(odd, 1)
      let next: i64 = if is_odd {
        let t: i64 = multiply(v, 3)
        let u: i64 = add(t, 1)
        in u
      } else {
        let h: i64 = floor_divide(v, 2)
        in h
      }
      let d: i64 = add(c, 1)
      in next, d
    }
    in steps
  }
  in r
}
