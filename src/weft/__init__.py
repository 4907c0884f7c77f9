"""Weft: NumPy-style array programs, compiled, on data of any size."""

from typing import TYPE_CHECKING

from weft import fft, linalg
from weft.array import Array, asarray
from weft.config import config, settings
from weft.errors import WeftError
from weft.functions import (
    __array_api_version__,
    applied,
    binary_search,
    combinators,
    comparing,
    control,
    creation,
    data_types,
    distributions,
    elementwise,
    histograms,
    joining,
    linear_algebra,
    lmads,
    manipulation,
    nan_quantiles,
    nan_reductions,
    numbers,
    numerics,
    polynomials,
    rearranging,
    running,
    searching,
    sorting,
    statistical,
    stencils,
    summation,
)  # fmt: skip
from weft.functions.applied import *  # noqa: F403
from weft.functions.binary_search import *  # noqa: F403
from weft.functions.combinators import *  # noqa: F403
from weft.functions.comparing import *  # noqa: F403
from weft.functions.control import *  # noqa: F403
from weft.functions.creation import *  # noqa: F403
from weft.functions.data_types import *  # noqa: F403
from weft.functions.data_types import __array_namespace_info__
from weft.functions.distributions import *  # noqa: F403
from weft.functions.elementwise import *  # noqa: F403
from weft.functions.histograms import *  # noqa: F403
from weft.functions.joining import *  # noqa: F403
from weft.functions.linear_algebra import *  # noqa: F403
from weft.functions.lmads import *  # noqa: F403
from weft.functions.manipulation import *  # noqa: F403
from weft.functions.nan_quantiles import *  # noqa: F403
from weft.functions.nan_reductions import *  # noqa: F403
from weft.functions.numbers import *  # noqa: F403
from weft.functions.numerics import *  # noqa: F403
from weft.functions.polynomials import *  # noqa: F403
from weft.functions.rearranging import *  # noqa: F403
from weft.functions.running import *  # noqa: F403
from weft.functions.searching import *  # noqa: F403
from weft.functions.sorting import *  # noqa: F403
from weft.functions.statistical import *  # noqa: F403
from weft.functions.stencils import *  # noqa: F403
from weft.functions.summation import *  # noqa: F403
from weft.jit import jit
from weft.kernel import (
    boolean,
    c64,
    c128,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    kernel,
    prange,
    u8,
    u16,
    u32,
    u64,
)
from weft.runtime.profile import profile

__version__ = "0.1.0"

__all__ = [
    "Array", "WeftError", "__array_api_version__", "__array_namespace_info__", "__version__",
    "asarray", "boolean", "c64", "c128", "config", "f32", "f64", "fft", "i8", "i16", "i32", "i64",
    "jit", "kernel", "linalg", "prange", "profile", "settings", "u8", "u16", "u32", "u64",
]  # fmt: skip
__all__ += applied.__all__
__all__ += binary_search.__all__
__all__ += combinators.__all__
__all__ += comparing.__all__
__all__ += control.__all__
__all__ += creation.__all__
__all__ += data_types.__all__
__all__ += distributions.__all__
__all__ += elementwise.__all__
__all__ += histograms.__all__
__all__ += joining.__all__
__all__ += linear_algebra.__all__
__all__ += lmads.__all__
__all__ += manipulation.__all__
__all__ += nan_quantiles.__all__
__all__ += nan_reductions.__all__
__all__ += numbers.__all__
__all__ += numerics.__all__
__all__ += polynomials.__all__
__all__ += rearranging.__all__
__all__ += running.__all__
__all__ += searching.__all__
__all__ += sorting.__all__
__all__ += statistical.__all__
__all__ += stencils.__all__
__all__ += summation.__all__


def __dir__() -> list[str]:
    return sorted([*__all__, "errors"])


if not TYPE_CHECKING:  # which would know all names then

    def __getattr__(name: str) -> object:
        from weft.functions.interoperability import unknown_name

        raise unknown_name(name)
