"""A sink that keeps nothing: for plans that are only looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from weft.plan.protocols import Box


class Nowhere:
    """Stands for the target that `wf.store` will be given."""

    chunks = None

    def __init__(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> None:
        self.shape = shape
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    def direct(self) -> None:
        return None

    def write(self, box: Box, data: npt.NDArray[Any]) -> None:
        """Forget the data."""

    def done(self, box: Box) -> bool:
        return False

    def finish(self) -> None:
        """Nothing is there to publish."""

    def abort(self) -> None:
        """Nothing is there to remove."""

    def describe(self) -> str:
        return "a target of wf.store"
