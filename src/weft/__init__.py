"""Weft: NumPy-style array programs, compiled, on data of any size."""

from weft import functions
from weft.array import Array, asarray
from weft.config import config, settings
from weft.errors import WeftError
from weft.functions import *  # noqa: F403
from weft.functions import __array_api_version__, __array_namespace_info__
from weft.functions.running import compute, devices, explain, open, store
from weft.jit import jit
from weft.runtime.profile import profile

__version__ = "0.1.0"

__all__ = [
    "Array", "WeftError", "__array_api_version__", "__array_namespace_info__", "__version__",
    "asarray", "compute", "config", "devices", "explain", "jit", "open", "profile", "settings",
    "store",
]  # fmt: skip
__all__ += functions.__all__
