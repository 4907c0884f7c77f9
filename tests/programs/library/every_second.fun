program every_second(a: f64[n])
  sizes n
  derived h = floordiv(n, 2)
{
  let r: f64[h] = slice a[1 for h by 2]
  in r
}
