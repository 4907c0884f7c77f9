program search_ordered(a: f64[n], b: f64[m])
  sizes n, m
{
  let count: i64 = size n
  let rounds: i64 = loop (c: i64 = 0) while {
    let rest: i64 = bitwise_right_shift(count, c)
    let more: bool = greater(rest, 0)
    in more
  } {
    let next: i64 = add(c, 1)
    in next
  }
  let r: i64[m] = kernel (i < m) {
    let v: f64 = b[i]
    let place: i64 = loop (before: i64 = 0) for round from 0 to rounds {
      let bit: i64 = size -round + rounds - 1
      let step: i64 = bitwise_left_shift(1, bit)
      let wished: i64 = add(before, step)
      let inside: i64 = minimum(wished, count)
      let last: i64 = subtract(inside, 1)
      let here: f64 = a[last]
      let fits: bool = less_equal(wished, count)
      let less: bool = less(here, v)
      let further: bool = logical_and(fits, less)
      let found: i64 = where(further, wished, before)
      in found
    }
    in place
  }
  in r
}
