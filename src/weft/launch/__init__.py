"""Programs made to run: compiled and cached, in core or as the stages of a plan."""

from weft.launch.computation import Computation
from weft.launch.device import (
    CPU,
    INTERPRETER,
    device_limit,
    have_compiler,
    host_threads,
    is_gpu,
    target,
)
from weft.launch.direct import Direct, DirectUpdate, direct, direct_update
from weft.launch.repeated import Repeated, repeat

__all__ = [
    "CPU", "INTERPRETER", "Computation", "Direct", "DirectUpdate", "Repeated", "device_limit",
    "direct", "direct_update", "have_compiler", "host_threads", "is_gpu", "repeat", "target",
]  # fmt: skip
