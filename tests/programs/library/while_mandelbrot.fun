program while_mandelbrot(a: f64[n])
  sizes n
{
  let r: i64[n] = kernel (i < n) {
    let at: i64 = size i
    let column: f64 = f64(at)
    let half: f64 = multiply(column, 0.5)
    let x: f64 = subtract(half, 2.0)
    let point: c128 = complex(x, 0.25)
    let last: c128, steps: i64 = loop (z: c128 = (0.0, 0.0)_c128, c: i64 = 0) while {
      let size: f64 = abs(z)
      let near: bool = less_equal(size, 2.0)
      let few: bool = less(c, 30)
      let more: bool = logical_and(near, few)
      in more
    } {
      let square: c128 = multiply(z, z)
      let next: c128 = add(square, point)
      let d: i64 = add(c, 1)
      in next, d
    }
    in steps
  }
  in r
}
