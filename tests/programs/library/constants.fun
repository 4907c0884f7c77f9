program constants(a: f64[n])
  sizes n
{
  in a, True, 3_u8, +nan_f32, -0.0, (1.0, -2.0)_c64
}
