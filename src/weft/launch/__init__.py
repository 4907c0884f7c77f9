"""Programs made to run: compiled and cached, in core or as the stages of a plan."""

from weft.launch.computation import Computation
from weft.launch.device import have_compiler
from weft.launch.stage import stage_code

__all__ = ["Computation", "have_compiler", "stage_code"]
