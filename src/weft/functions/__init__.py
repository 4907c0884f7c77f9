"""The functions of the namespace, grouped as the Array API standard groups them."""

from weft.array import Array
from weft.functions.creation import *  # noqa: F403
from weft.functions.data_types import *  # noqa: F403
from weft.functions.data_types import __array_namespace_info__
from weft.functions.elementwise import *  # noqa: F403
from weft.functions.linear_algebra import *  # noqa: F403
from weft.functions.manipulation import *  # noqa: F403
from weft.functions.nan_reductions import *  # noqa: F403
from weft.functions.searching import *  # noqa: F403
from weft.functions.sorting import *  # noqa: F403
from weft.functions.statistical import *  # noqa: F403

__array_api_version__ = "2025.12"
