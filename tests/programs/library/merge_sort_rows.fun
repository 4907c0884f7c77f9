program merge_sort_rows(a: f64[n, m])
  sizes n, m
{
  let count: i64 = size m
  let end: i64 = size m - 1
  let r: f64[n, m] = kernel (i < n) {
    let row: f64[m] = slice a[i, 0 for m]
    let width: i64, sorted: f64[m] = loop (w: i64 = 1, s: f64[m] = row) while { let more: bool = less(w, count) in more } {
      let twice: i64 = add(w, w)
      let mask: i64 = negative(twice)
      let new: f64[m] = empty f64 (m)
      let last_left: i64, last_right: i64, merged: f64[m] = loop (l: i64 = 0, h: i64 = 0, t: f64[m] = new) for k from 0 to m {
        let place: i64 = size k
        let start: i64 = bitwise_and(place, mask)
        let begins: bool = equal(place, start)
        let half: i64 = add(start, w)
        let left: i64 = where(begins, place, l)
        let right: i64 = where(begins, half, h)
        let middle: i64 = minimum(half, count)
        let whole: i64 = add(start, twice)
        let stop: i64 = minimum(whole, count)
        let left_there: i64 = minimum(left, end)
        let right_there: i64 = minimum(right, end)
        let near: f64 = s[left_there]
        let far: f64 = s[right_there]
        let sooner: bool = less(far, near)
        let done: bool = greater_equal(left, middle)
        let either: bool = logical_or(done, sooner)
        let some: bool = less(right, stop)
        let taken: bool = logical_and(some, either)
        let value: f64 = where(taken, far, near)
        let next_left: i64 = add(left, 1)
        let next_right: i64 = add(right, 1)
        let new_left: i64 = where(taken, left, next_left)
        let new_right: i64 = where(taken, next_right, right)
        let put: f64[m] = update t[k] = value
        in new_left, new_right, put
      }
      in twice, merged
    }
    in sorted
  }
  in r
}
