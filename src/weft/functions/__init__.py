"""The functions of the namespace, grouped as the Array API standard groups them."""

from weft.array import Array
from weft.functions import (
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

__array_api_version__ = "2025.12"

__all__ = ["Array", "__array_api_version__"]
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
