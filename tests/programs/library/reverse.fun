program reverse(a: f64[n])
  sizes n
{
  let r: f64[n] = slice a[n - 1 for n by -1]
  in r
}
