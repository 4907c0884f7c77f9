"""LMADs: index functions and footprints."""

from weft.lmad.lmad import Lmad

__all__ = ["Lmad"]
