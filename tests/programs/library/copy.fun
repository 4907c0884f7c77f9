program copy(a: f64[n])
  sizes n
{
  let r: f64[n] = copy a
  in r
}
