program lmad_slice(a: f64[n])
  sizes n
  fact n - 7 >= 0
{
  let r: f64[3, 2] = lmad a[1; (3 : 2); (2 : 1)]
  in r
}
