program any_all(a: bool[n])
  sizes n
{
  let s: bool, t: bool = reduce (; i < n) from False, True {
    let v: bool = a[i]
    in v, v
  } with (x: bool, p: bool, y: bool, q: bool) {
    let z: bool = logical_or(x, y)
    let g: bool = logical_and(p, q)
    in z, g
  }
  in s, t
}
