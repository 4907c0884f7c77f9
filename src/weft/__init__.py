"""Weft: NumPy-style array programs, compiled, on data of any size."""
