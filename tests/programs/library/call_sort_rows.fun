program call_sort_rows(a: f64[n, m])
  sizes n, m
{
  let r: f64[n, m] = kernel (i < n) {
    let row: f64[m] = slice a[i, 0 for m]
    let sorted: f64[m] = call sort(row, axis=0)
    in sorted
  }
  in r
}
