program histogram(at: i64[k], counts: i64[n])
  sizes k, n
{
  let r: i64[n] = scatter counts over (i < k) {
    let v: i64 = at[i]
    in v, 1
  } with (x: i64, y: i64) { let z: i64 = add(x, y) in z }
  in r
}
