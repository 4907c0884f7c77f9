"""Programs made to run: compiled and cached, in core or as the stages of a plan."""

from weft.launch.computation import Computation
from weft.launch.device import INTERPRETER, have_compiler, target
from weft.launch.stage import stage_code

__all__ = ["INTERPRETER", "Computation", "have_compiler", "stage_code", "target"]
