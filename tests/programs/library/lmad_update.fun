program lmad_update(a: f64[n], b: f64[3])
  sizes n
  fact n - 6 >= 0
{
  let r: f64[n] = update_lmad a[1; (3 : 2)] = b
  in r
}
