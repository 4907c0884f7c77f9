"""`weft.jit`: functions on arrays, compiled."""

from weft.jit.function import Jitted, jit

__all__ = ["Jitted", "jit"]
