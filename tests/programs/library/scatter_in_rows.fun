program scatter_in_rows(at: i64[m, k])
  sizes m, k
{
  let r: i64[m, 13] = kernel (i < m) {
    let zeros: i64[13] = broadcast 0 (13)
    let row: i64[13] = scatter zeros over (j < k) {
      let v: i64 = at[i, j]
      in v, 1
    } with (x: i64, y: i64) { let z: i64 = add(x, y) in z }
    in row
  }
  in r
}
