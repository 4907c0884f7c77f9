"""Programs made to run: compiled and cached, in core or as the stages of a plan."""

from weft.launch.computation import Computation
from weft.launch.device import INTERPRETER, device_limit, have_compiler, target
from weft.launch.stage import stage_code

__all__ = ["INTERPRETER", "Computation", "device_limit", "have_compiler", "stage_code", "target"]
