"""`weft.kernel`: loop nests and whole NumPy functions, compiled from their syntax trees."""

from weft.kernel.annotations import (
    boolean,
    c64,
    c128,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)
from weft.kernel.decorator import kernel, prange

__all__ = [
    "boolean", "c64", "c128", "f32", "f64", "i8", "i16", "i32", "i64", "kernel", "prange", "u8",
    "u16", "u32", "u64",
]  # fmt: skip
