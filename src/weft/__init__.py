"""Weft: NumPy-style array programs, compiled, on data of any size."""

from weft.array import Array, asarray
from weft.config import config, settings
from weft.errors import WeftError
from weft.functions import *  # noqa: F403
