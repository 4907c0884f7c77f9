"""Scratch files: arrays too large for memory, between one stage of a plan and the next."""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.errors import SinkError

_FOLDERS = ("/var/tmp",)  # on disk, where the folder of temporary files may be memory


def scratch_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """An array in a file of its own, which has no name and ends with the array.

    Disk space for all of it is reserved first: a mapped page that the disk has no room for
    would end the process.

    Raises
    ------
    SinkError
        Where there is no room, or no folder to write to.
    """
    size = math.prod(shape) * dtype.itemsize
    if size == 0:
        return np.empty(shape, dtype)
    folder = scratch_folder()
    try:
        with tempfile.TemporaryFile(dir=folder, prefix="weft-") as file:
            os.posix_fallocate(file.fileno(), 0, size)
            mapped = mmap.mmap(file.fileno(), size)
    except OSError as error:
        raise SinkError(
            f"{size} bytes for intermediate results do not fit in {folder}: "
            f"{error.strerror or error}",
            "room for them",
            "name another folder in WEFT_SCRATCH_DIR, or raise the memory limit",
        ) from error
    return np.ndarray(shape, dtype, mapped)


def scratch_folder() -> str:
    """Where scratch files are: WEFT_SCRATCH_DIR, TMPDIR, or a folder of the system's."""
    for variable in ("WEFT_SCRATCH_DIR", "TMPDIR"):
        chosen = os.environ.get(variable)
        if chosen:
            return chosen
    return next((f for f in _FOLDERS if os.access(f, os.W_OK)), tempfile.gettempdir())
