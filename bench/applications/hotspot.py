"""Hotspot by nine pieces, concatenated in both directions (section 6.8.3 of the thesis)."""

from applications import example
from applications.hotspot_stencil import c, checked, inputs

__all__ = ["THESIS", "TITLE", "c", "checked", "inputs", "program"]

TITLE = "Hotspot, nine pieces"
THESIS = "1.78 to 2.05"
CASE = "hotspot-pieces"


def program(inputs):
    return example("hotspot").simulate_pieces, tuple(inputs.values())
