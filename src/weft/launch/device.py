"""The CPU device of this process, and what to say where there is no compiler."""

from __future__ import annotations

import warnings

from weft.runtime.devices.cpu import CpuDevice

device = CpuDevice()
_found = False
_warned = False


def have_compiler() -> bool:
    """Whether programs can be compiled; the first time they cannot, warn how to get speed."""
    global _found, _warned
    if _found:
        return True
    if CpuDevice.available():
        _found = True
        return True
    if not _warned:
        _warned = True
        warnings.warn(
            "Weft found no C compiler and interprets programs with NumPy, which is slow; "
            "install gcc or clang, or `pip install weft[cc]`",
            RuntimeWarning,
            stacklevel=2,
        )
    return False
