program broadcast(a: f64[n], s: f64)
  sizes n
{
  let p: f64[3, n] = broadcast a (3, n)
  let q: f64[n] = broadcast s (n)
  in p, q
}
