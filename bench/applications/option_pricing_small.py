"""OptionPricing: FinPar's small data, a call on one date of one underlying."""

from applications import example
from applications.option_pricing import TOLERANCE, c, program

__all__ = ["THESIS", "TITLE", "TOLERANCE", "c", "inputs", "program"]

TITLE = "OptionPricing, small"
THESIS = ""
CASE = "option_pricing-european"


def inputs(scale):
    arguments, _ = example("option_pricing").load("small")
    return arguments | {"paths": int(scale * arguments["paths"])}
