program medians_of_windows(a: f64[m])
  sizes m
{
  let r: f64[m - 2] = kernel (i < m - 2) {
    let x: f64 = a[i]
    let y: f64 = a[i + 1]
    let z: f64 = a[i + 2]
    let b: bool = less(y, x)
    let low: f64 = where(b, y, x)
    let high: f64 = where(b, x, y)
    let c: bool = less(z, high)
    let next: f64 = where(c, z, high)
    let d: bool = less(next, low)
    let middle: f64 = where(d, low, next)
    in middle
  }
  in r
}
