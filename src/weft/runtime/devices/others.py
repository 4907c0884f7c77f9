"""The devices other than the CPU."""

from __future__ import annotations

from weft.runtime.devices import cuda, opencl
from weft.runtime.devices.cuda import CudaDevice
from weft.runtime.devices.opencl import OpenClDevice


def others() -> tuple[OpenClDevice | CudaDevice, ...]:
    """Every device that was found, those of OpenCL first."""
    return (*opencl.find(), *cuda.find())
